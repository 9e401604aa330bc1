"""The screenshots in docs/ of the page of a virtual terminal: real payments, with the same ids and times each time."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from playwright.async_api import Browser, Page, ViewportSize

from browser import png
from manual_scene import QUICK
from page_counter import PageCounter, page_counter
from paydesk.platform.storage.connect import open_database
from paydesk_dev.dev.fresh import migrate_with_kit
from paydesk_dev.virtual.terminal.receipts import Receipt
from print_scene import print_on

TERMINAL_ID = "PAYDESK_VIRTUAL__C151AD43AD9F"
DESKTOP, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
PACE = replace(QUICK, authorizing_seconds=0.6)
COUPON = (
    "{center}{b}{w}Corner shop{/w}{/b}{br}Your coupon for the next visit{/center}{br}{br}10% off until 31 March.{br}"
    "{center}{qr}https://shop.example/c/4711{/qr}{/center}"
)
MESSAGE_MS = 137
"""The time between two messages on the pictures."""
PICTURED = {
    r"^\d\d/\d\d/\d{4} .*": "31/01/2026              14:26:42",
    r"^(Authorization +)\d+": r"\g<1>831000",
    r"^(Payment +)\d+": r"\g<1>11501998986123",
    r"until \d\d:\d\d": "until 27:21",
}
"""What differs from one payment to the next, and what the pictures have in its place."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the state that it shows, in which window and light."""

    name: str
    state: Callable[[PageCounter, Page], Awaitable[object]]
    window: ViewportSize
    scheme: Literal["light", "dark"] = "light"


async def _present(desk: PageCounter, page: Page) -> None:
    point = {"terminal_id": desk.terminal.id, "print_on_terminal": "seller_ticket"}
    await desk.order(external_reference="sale-0042", config={"point": point})
    await _freeze(desk, page)


async def _approved(desk: PageCounter, page: Page) -> None:
    await _pay(desk, page, "visa_approved", "approved")


async def _declined(desk: PageCounter, page: Page) -> None:
    await _pay(desk, page, "insufficient_amount", "declined")


async def _pay(desk: PageCounter, page: Page, card: str, screen: str) -> None:
    await _present(desk, page)
    await page.locator(f"#card-{card}").click()
    await desk.shows("printing")
    await desk.shows(screen)
    await _freeze(desk, page)


async def _pin(desk: PageCounter, page: Page) -> None:
    await _present(desk, page)
    await page.get_by_role("radio", name="Insert").check(force=True)
    await page.locator("#card-master_approved").click()
    await desk.shows("pin")
    for _ in range(2):
        await page.locator("#key-1").click()
    await desk.until(lambda screen: screen.digits == 2)
    await _freeze(desk, page)


async def _unknown(desk: PageCounter, page: Page) -> None:
    await _present(desk, page)
    await page.locator("#card-no_answer").click()
    await desk.shows("unknown")
    await _freeze(desk, page)


async def _printed(desk: PageCounter, page: Page) -> None:
    await print_on(desk.service, desk.terminal, COUPON)
    await desk.until(lambda screen: screen.name == "idle" and desk.display.paper is not None)
    await _freeze(desk, page)
    await page.locator("#small-receipt").click()
    await page.locator("#copies").wait_for()


PICTURES = (
    Picture("present", _present, DESKTOP),
    Picture("declined-dark", _declined, DESKTOP, "dark"),
    Picture("approved", _approved, PHONE),
    Picture("pin-dark", _pin, PHONE, "dark"),
    Picture("unknown", _unknown, PHONE),
    Picture("print", _printed, PHONE),
)


async def take_all(browser: Browser, folder: Path, day_ms: int) -> None:
    """Take every picture, with the clocks of that day in UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    for picture in PICTURES:
        with tempfile.TemporaryDirectory() as data:
            database = await open_database(f"sqlite:{data}/paydesk.db")
            await migrate_with_kit(database, int(time.time() * 1000))
            # Without workers an outcome stays unknown.
            async with page_counter(database, Path(data), pace=PACE, terminal_id=TERMINAL_ID, workers=False) as desk:
                file = folder / f"virtual-{picture.name}.png"
                await _take(picture, browser, desk, file, day_ms)
                # Ends the poll of the terminal, as the workers do.
                database.signals.stop()
            await database.close()
        png.shrink(file)
        sys.stdout.write(f"{file.relative_to(folder.parents[1])}\n")


async def _take(picture: Picture, browser: Browser, desk: PageCounter, file: Path, day_ms: int) -> None:
    await desk.service.scene.run("UPDATE sellers SET name = $1", "Aurora Bakery")
    await desk.service.scene.run("UPDATE pos SET name = $1", "Counter")
    # It learns the seller's name when it starts.
    await desk.act("power_off")
    await desk.act("power_on")
    desk.display.messages.clear()
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
    await picture.state(desk, page)
    await page.evaluate("document.activeElement.blur()")
    await page.mouse.move(0, 0)
    await page.screenshot(path=file, animations="disabled")
    await context.close()


async def _freeze(desk: PageCounter, page: Page) -> None:
    """Give what the terminal shows the ids and times of the pictures, and wait until the page shows it."""
    now_ms: int = await page.evaluate("Date.now()")
    display, count = desk.display, len(desk.display.messages)
    display.messages = deque(
        msgspec.structs.replace(
            message, number=number, text=_pictured(message.text), at_ms=now_ms - (count - number) * MESSAGE_MS
        )
        for number, message in enumerate(display.messages)
    )
    receipt = display.screen.receipt
    if receipt is not None:
        receipt = Receipt([*map(_pictured, receipt.seller)], [*map(_pictured, receipt.buyer)])
        display.print(receipt=receipt)
    display.show(msgspec.structs.replace(display.screen, receipt=receipt, ends_ms=None))
    await page.locator(f"#glass[data-screen={display.screen.name}]").wait_for()
    await page.locator(f"#message-{count - 1}").wait_for(state="attached")
    if receipt is not None:
        assert display.paper is not None
        await page.locator(f"#paper-{display.paper.number}").wait_for(state="attached")


def _pictured(line: str) -> str:
    for pattern, shown in PICTURED.items():
        line = re.sub(pattern, shown, line)
    return line
