"""The screenshots in docs/: here those of the seller's pages, of a real service in a browser with a phone's window."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser

from browser import chromium, console_pictures, inbox_pictures, virtual_pictures
from browser.shop import HOME, Shop, open_shop
from browser.visit import Visit, visiting
from browser.windows import Windows
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.connect import open_database
from paydesk_dev.dev.fresh import migrate_with_kit

FOLDER = Path(__file__).parents[2] / "docs" / "images"
WINDOW = {"width": 390, "height": 700}
# The day that is on the pictures, so that they change with the pages alone.
DAY_MS = 1_769_869_602_109


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: what it shows, in which language and light."""

    name: str
    state: Callable[[Visit], Awaitable[None]]
    language: str
    scheme: Literal["light", "dark"] = "light"

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return FOLDER / f"authorization-{self.name}.png"


async def _sign_in(window: Visit) -> None:
    await window.ask(redirect_uri=HOME)
    await window.page.locator("[autofocus]:focus").wait_for()


async def _consent(window: Visit) -> None:
    await window.ask(redirect_uri=HOME)
    await window.sign_in()
    await window.button("consent.agree").wait_for()


async def _applications(window: Visit) -> None:
    await window.ask()
    await window.sign_in()
    await window.press("consent.agree")
    await window.arrive()
    await window.list_applications()


PICTURES = (
    Picture("sign-in", _sign_in, "en"),
    Picture("consent", _consent, "en"),
    Picture("consent-dark", _consent, "en", "dark"),
    Picture("consent-pt", _consent, "pt"),
    Picture("consent-es", _consent, "es"),
    Picture("applications", _applications, "en"),
)


def main() -> int:
    """Take every picture; the exit code."""
    executable = chromium.program()
    if executable is None:
        sys.stderr.write(f"{chromium.HOW_TO_GET_IT}\n")
        return 1
    asyncio.run(_take_all(executable))
    return 0


async def _take_all(executable: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with chromium.launched(executable) as browser:
        for picture in PICTURES:
            with tempfile.TemporaryDirectory() as folder:
                url = f"sqlite:{folder}/paydesk.db"
                clock = MovableClock(frozen_ms=DAY_MS)
                database = await open_database(url)
                await migrate_with_kit(database, clock.now_ms())
                await database.close()
                async with open_shop(url, clock) as shop:
                    await _take(picture, browser, shop)
            sys.stdout.write(f"{picture.file.relative_to(FOLDER.parents[1])}\n")
        await virtual_pictures.take_all(browser, FOLDER, DAY_MS)
        await inbox_pictures.take(browser, FOLDER, DAY_MS)
        await console_pictures.take_all(browser, FOLDER, DAY_MS)


async def _take(picture: Picture, browser: Browser, shop: Shop) -> None:
    looks: dict[str, Any] = {"viewport": WINDOW, "color_scheme": picture.scheme, "device_scale_factor": 1}
    async with visiting(Windows(browser), shop, picture.language, **looks) as window:
        await picture.state(window)
        await window.page.evaluate("document.activeElement.blur()")
        await window.page.screenshot(path=picture.file, full_page=True)
