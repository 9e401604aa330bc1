"""The screenshots in docs/ of the console: a service with one of everything, on the day that is on all pictures."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from playwright.async_api import Browser, ViewportSize

from browser import png
from console_scene import console
from console_world import World, world
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.connect import open_database
from paydesk_dev.dev.fresh import migrate_with_kit
from paydesk_dev.inbox.store import set_clock

DESKTOP, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
HOOKS = "https://shop.example/hooks"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the page that it shows."""

    name: str
    path: str
    dialog: str = ""
    """The action whose dialog is open."""
    is_phone_in_the_dark: bool = False


PICTURES = (
    Picture("overview", "/console"),
    Picture("orders", "/console/orders"),
    Picture("order", "/console/orders/{declined}"),
    Picture("order-dark", "/console/orders/{declined}", is_phone_in_the_dark=True),
    Picture("refund", "/console/orders/{processed}", dialog="Refund"),
    Picture("terminals", "/console/terminals"),
    Picture("webhooks", "/console/webhooks"),
    Picture("requests", "/console/requests"),
    Picture("development", "/console/development"),
)


async def take_all(browser: Browser, folder: Path, day_ms: int) -> None:
    """Take every picture."""
    with tempfile.TemporaryDirectory() as data:
        database = await open_database(f"sqlite:{data}/paydesk.db")
        clock = MovableClock(frozen_ms=day_ms)
        await migrate_with_kit(database, clock.now_ms())
        await database.write(lambda tx: set_clock(tx, offset_ms=0, frozen_ms=day_ms))
        async with world(database, Path(data), clock=clock) as made:
            await _furnish(made)
            for picture in PICTURES:
                file = folder / f"console-{picture.name}.png"
                await _take(picture, browser, made, file)
                png.shrink(file)
                sys.stdout.write(f"{file.relative_to(folder.parents[1])}\n")
        await database.close()


async def _furnish(made: World) -> None:
    run = made.service.scene.run
    await run("UPDATE sellers SET name = $1", "Aurora Bakery")
    await run("UPDATE applications SET name = $1", "Aurora till")
    await run("UPDATE stores SET name = $1", "Market Street")
    await run("UPDATE pos SET name = $1", "Counter")
    await run("UPDATE subscriptions SET url = $1", HOOKS)
    await run("UPDATE orders SET external_reference = 'sale-0042' WHERE order_id = $1", made.orders["declined"])


async def _take(picture: Picture, browser: Browser, made: World, file: Path) -> None:
    context = await browser.new_context(
        viewport=PHONE if picture.is_phone_in_the_dark else DESKTOP,
        color_scheme="dark" if picture.is_phone_in_the_dark else "light",
        device_scale_factor=1,
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
    )
    signed_in = await console(made.service, "operator")
    await made.service.scene.run("UPDATE operators SET name = 'Ada'")
    await context.add_cookies(
        [{"name": name, "value": value, "url": made.service.base_url} for name, value in signed_in.cookies.items()]
    )
    page = await context.new_page()
    await page.clock.set_fixed_time(datetime.fromtimestamp(made.clock.now_ms() / 1000, UTC))
    await page.goto(made.service.base_url + picture.path.format_map(made.orders))
    if picture.dialog:
        await page.get_by_role("link", name=picture.dialog, exact=True).click()
        await page.locator("#dialog form").wait_for()
    await page.evaluate("document.activeElement.blur()")
    await page.screenshot(path=file, animations="disabled")
    await context.close()
