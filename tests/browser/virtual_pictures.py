"""The screenshots in docs/ of the page of a virtual terminal: real states, with fixed ids and times."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from playwright.async_api import Browser, Page, ViewportSize

from page_counter import PageCounter, page_counter
from paydesk.sandbox.terminals.client import Pace
from paydesk.sandbox.terminals.screen import Receipt
from paydesk.storage.connect import open_database
from paydesk.storage.migrate import migrate
from print_scene import print_on

TERMINAL_ID = "PAYDESK_VIRTUAL__C151AD43AD9F"
DESKTOP, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
PACE = Pace(backoff_seconds=(0.1, 0.2), authorizing_seconds=0.6, reboot_seconds=0)
MESSAGE_MS = 137
"""The time between two messages on the pictures."""
LEFT_MS = 14 * 60_000
"""The time that is left to present a card on the pictures."""
NUMBERS = {
    r"^\d\d/\d\d/\d{4} .*": "31/01/2026              14:26:42",
    r"^(Authorization +)\d+": r"\g<1>831000",
    r"^(Payment +)\d+": r"\g<1>11501998986123",
}
"""What differs from one receipt to the next, and what the pictures have in its place."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the state that it shows, in which window and light."""

    name: str
    state: Callable[[PageCounter], Awaitable[object]]
    window: ViewportSize
    scheme: Literal["light", "dark"] = "light"
    shows_paper: bool = False


async def _present(desk: PageCounter) -> None:
    await desk.order(external_reference="sale-0042")


async def _approved(desk: PageCounter) -> None:
    await _pay(desk, "visa_approved")
    await desk.shows("approved")


async def _declined(desk: PageCounter) -> None:
    await _pay(desk, "insufficient_amount")
    await desk.shows("declined")


async def _pay(desk: PageCounter, card: str) -> None:
    await desk.order(
        external_reference="sale-0042",
        config={"point": {"terminal_id": desk.terminal.id, "print_on_terminal": "seller_ticket"}},
    )
    await desk.act("tap", card=card)
    await desk.shows("printing")


async def _pin(desk: PageCounter) -> None:
    await _present(desk)
    await desk.act("insert", card="master_approved")
    for digit in "12":
        await desk.act("press", key=digit)


async def _unknown(desk: PageCounter) -> None:
    await _present(desk)
    await desk.act("tap", card="no_answer")
    await desk.shows("unknown")


async def _printed(desk: PageCounter) -> None:
    await print_on(desk.service, desk.terminal)
    await desk.shows("printing")
    await desk.shows("idle")


PICTURES = (
    Picture("present", _present, DESKTOP),
    Picture("declined-dark", _declined, DESKTOP, "dark"),
    Picture("approved", _approved, PHONE),
    Picture("pin-dark", _pin, PHONE, "dark"),
    Picture("unknown", _unknown, PHONE),
    Picture("print", _printed, PHONE, shows_paper=True),
)


async def take_all(browser: Browser, folder: Path, day_ms: int) -> None:
    """Take every picture, with the clocks of that day in UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    for picture in PICTURES:
        with tempfile.TemporaryDirectory() as data:
            database = await open_database(f"sqlite:{data}/paydesk.db")
            await migrate(database, int(time.time() * 1000))
            # Without workers an outcome stays unknown.
            options = {"pace": PACE, "terminal_id": TERMINAL_ID, "workers": False}
            async with page_counter(database, Path(data), **options) as desk:
                file = folder / f"virtual-{picture.name}.png"
                await _take(picture, browser, desk, file, day_ms)
            await database.close()
        sys.stdout.write(f"{file.relative_to(folder.parents[1])}\n")


async def _take(picture: Picture, browser: Browser, desk: PageCounter, file: Path, day_ms: int) -> None:
    await desk.service.scene.run("UPDATE sellers SET name = $1", "Aurora Bakery")
    await desk.service.scene.run("UPDATE pos SET name = $1", "Counter")
    await desk.act("reboot")
    await desk.shows("idle")
    context = await browser.new_context(
        viewport=picture.window,
        color_scheme=picture.scheme,
        device_scale_factor=1,
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
        has_touch=picture.window is PHONE,
    )
    page = await context.new_page()
    await page.clock.set_fixed_time(datetime.fromtimestamp(day_ms / 1000, UTC))
    await page.goto(desk.address)
    await desk.until_streams(1)
    await picture.state(desk)
    _fix(desk, day_ms)
    await _shown(page, desk)
    if picture.shows_paper:
        await page.locator("[popovertarget=copies]:visible").first.click()
        await page.locator("#copies").wait_for()
    await page.screenshot(path=file, animations="disabled")
    await context.close()


def _fix(desk: PageCounter, day_ms: int) -> None:
    """Give what the terminal shows the ids and times of the pictures."""
    display, count = desk.display, len(desk.display.messages)
    display.messages = deque(
        msgspec.structs.replace(message, number=1_000 + number, at_ms=day_ms - (count - number) * MESSAGE_MS)
        for number, message in enumerate(display.messages)
    )
    screen = display.screen
    receipt = screen.receipt and Receipt(
        *(list(map(_fixed, copy)) for copy in (screen.receipt.seller, screen.receipt.buyer))
    )
    if receipt:
        display.print(receipt=receipt)
    ends_ms = day_ms + LEFT_MS if screen.ends_ms else None
    display.show(msgspec.structs.replace(screen, receipt=receipt, ends_ms=ends_ms))


def _fixed(line: str) -> str:
    for pattern, number in NUMBERS.items():
        line = re.sub(pattern, number, line)
    return line


async def _shown(page: Page, desk: PageCounter) -> None:
    """Wait until the page shows what the terminal does, and its paper has come out."""
    await page.locator(f"#glass[data-screen={desk.screen.name}]").wait_for()
    await page.locator("#message-1000").wait_for(state="attached")
    if desk.screen.receipt is not None:
        assert desk.display.paper is not None
        await page.locator(f"#paper-{desk.display.paper.number}").wait_for(state="attached")
    await page.evaluate("document.fonts.ready")
