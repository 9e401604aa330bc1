"""Every screen of a virtual terminal in both windows, light and dark: nothing overlaps, is cut off, or bars anyone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest
import pytest_asyncio
from playwright.async_api import ViewportSize

from browser.axe import TAGS, violations
from browser.virtual_screens import SCREENS, show
from browser.virtual_window import DESKTOP, PHONE, QUICK, opening
from browser.windows import Windows
from conftest import first_and_others
from page_counter import PageCounter, page_counter
from paydesk.platform.storage.connect import open_database
from paydesk_dev.virtual.terminal.screens import ScreenName
from rotating import quarter

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHANGING = [["#status"], ["#hint"], ["#lights"], ["#glass"], ["#paper"], ["#slot"], ["#faults"]]
"""What differs from screen to screen: the rest of the page is checked once."""
IN_THE_DARK = ("pairing", "idle", "present_card", "approved", "declined", "unknown", "off")
"""Screens of each color, whose contrast is judged in light and dark."""
MOVING = """document.getAnimations().filter(it => it.effect.getComputedTiming().endTime > 50)
    .map(it => it.animationName ?? it.transitionProperty)"""
COUPON = (
    f"{{center}}{{b}}{{w}}Corner shop{{/w}}{{/b}}{{/center}}{{br}}{'10% off until 31 March. ' * 4}{{br}}"
    f"{{s}}{'W' * 90}{{/s}}{{br}}{{center}}{{qr}}https://shop.example/c/4711{{/qr}}{{/center}}{{br}}"
    f"{{pdf417}}{'4711' * 20}{{/pdf417}}"
)
LAYOUT = Path(__file__).with_name("layout.js").read_text()


@pytest_asyncio.fixture(loop_scope="session")
async def counter(sqlite_url: str, tmp_path: Path) -> AsyncIterator[PageCounter]:
    """A manual terminal with its page."""
    database = await open_database(sqlite_url)
    async with page_counter(database, tmp_path, pace=QUICK) as counter:
        await counter.service.scene.run("UPDATE pos SET name = $1", "Counter beside the window of the Aurora Bakery")
        yield counter
    await database.close()


async def test_every_screen_is_looked_at() -> None:
    """One of each kind."""
    assert SCREENS.keys() == set(get_args(ScreenName))


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("is_whole", first_and_others(False, True), ids=["", "whole"])
async def test_every_screen_fits_and_is_accessible(
    windows: Windows,
    counter: PageCounter,
    viewport: ViewportSize,
    is_whole: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Texts are whole and apart, nothing scrolls that need not, targets are large enough, axe finds nothing.

    Nothing moves for those who want it still: no screen has an animation that lasts.

    On a phone, and contrast on one screen of each color, in light and dark, in a run on a quarter of them. `is_whole`:
    all of that in every window.
    """
    judged = SCREENS.keys() if is_whole else quarter(IN_THE_DARK)
    async with opening(windows, counter) as window:
        page = (await window(viewport=viewport, has_touch=viewport is PHONE, axe=True, fresh=True)).page
        for number, (name, screen) in enumerate(SCREENS.items()):
            await show(counter, name)
            await page.locator(f"#glass[data-screen={name}]").wait_for()
            if screen.receipt is not None:
                await page.locator("#copies section").first.wait_for(state="attached")
            assert await page.evaluate(MOVING) == [], name
            assert await page.evaluate(LAYOUT) == [], name
            if viewport is DESKTOP and not is_whole:
                continue
            parts = None if number == 0 else CHANGING
            await page.emulate_media(color_scheme="light")
            assert await violations(page, TAGS, parts, colors=name in judged) == [], name
            if name in judged:
                await page.emulate_media(color_scheme="dark")
                assert await violations(page, [], parts) == [], f"{name} in the dark"


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_prints_and_the_form_fit(windows: Windows, counter: PageCounter, viewport: ViewportSize) -> None:
    """The sheet with both copies, a long coupon with its codes, and the form of a new order are whole."""
    async with opening(windows, counter) as window:
        shop = await window(viewport=viewport, axe=True)
        page = shop.page
        await show(counter, "approved")
        await shop.shows("approved")
        await page.locator("[popovertarget=copies]:visible").first.click()
        assert await page.evaluate(LAYOUT) == []
        assert await violations(page, TAGS, [["#copies"]]) == []
        counter.display.print(text=COUPON)
        await page.locator("#copies [role=img]").wait_for()
        assert await page.evaluate(LAYOUT) == []
        assert await violations(page, TAGS, [["#copies"]]) == []
        code = await page.locator("#copies [role=img] svg").bounding_box()
        assert code is not None
        assert code["width"] == code["height"] >= 100
        await shop.press("Close")
        await shop.press("New order")
        assert await page.evaluate(LAYOUT) == []
        assert await violations(page, TAGS, [["#new-order"]]) == []
