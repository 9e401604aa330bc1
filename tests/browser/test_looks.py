"""The layout and accessibility of the pages: small windows, dark mode, keyboard, screen reader."""

from __future__ import annotations

import pytest

from browser.axe import SCHEMES, violations
from browser.conftest import Open
from browser.journey import demo_journey, journey
from browser.shop import EMAIL, PASSWORD
from browser.visit import Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDTHS = (1280, 320)
TABS_MAX = 8
IN_THE_DARK = ("callback with a code", "inbox")
"""The pages of the demo whose contrast is judged in the dark too: one of each kind."""
LIKE_OTHERS = ("no applications", "answered already")
"""Pages for sellers that have no color of their own, so that the dark is looked at on others."""


@pytest.mark.slow
async def test_nothing_is_cut_off(visit: Open, language: str) -> None:
    """No page is wider than its window, from the smallest phone to a desktop, also with text twice as large."""
    window = await visit(language)
    async for place in journey(window):
        await check_widths(window, place)


async def check_widths(window: Visit, place: str) -> None:
    """Fail if the page is wider than one of the windows, or with text twice as large."""
    await window.page.set_viewport_size({"width": 640, "height": 700})
    await window.page.evaluate("document.documentElement.style.setProperty('font-size', '200%')")
    assert await window.overflow() <= 0, f"{place}, enlarged"
    await window.page.evaluate("document.documentElement.style.removeProperty('font-size')")
    for width in WIDTHS:
        await window.page.set_viewport_size({"width": width, "height": 700})
        assert await window.overflow() <= 0, (place, width)


async def test_accessible_in_light_and_dark_mode_and_not_cut_off(visit: Open) -> None:
    """WCAG 2.2 AA finds nothing: labels, headings, landmarks, contrast, sizes of targets."""
    window = await visit("pt", java_script_enabled=True, axe=True)
    async for place in journey(window):
        await check_accessibility(window, place, is_dark=place not in LIKE_OTHERS)
        await check_widths(window, place)


async def test_demo_is_accessible_in_light_and_dark_mode_and_not_cut_off(visit: Open) -> None:
    """The pages of the demo application are as accessible and as narrow."""
    window = await visit("en", java_script_enabled=True, axe=True)
    async for place in demo_journey(window):
        await check_accessibility(window, place, is_dark=place in IN_THE_DARK)
        await check_widths(window, place)


async def check_accessibility(window: Visit, place: str, *, is_dark: bool = True) -> None:
    """Fail if a rule is violated, or if the page has one look for both modes; not `is_dark`: in light alone."""
    backgrounds = set()
    for scheme, rules in SCHEMES.items():
        if scheme == "dark" and not is_dark:
            return
        await window.page.emulate_media(color_scheme=scheme)
        backgrounds.add(await window.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert await violations(window.page, rules) == [], (place, scheme)
    await window.page.emulate_media(color_scheme="light")
    assert len(backgrounds) == 2, place


async def test_by_keyboard_alone(visit: Open) -> None:
    """Tab and Enter are enough, in the order of the page, with a visible focus."""
    window = await visit("en")
    await window.ask()
    keyboard = window.page.keyboard
    await reach(window, window.words("sign_in.email"))
    await keyboard.type(EMAIL)
    await reach(window, window.words("sign_in.password"))
    await keyboard.type(PASSWORD)
    await keyboard.press("Enter")
    await window.button("consent.agree").wait_for()
    await reach(window, window.words("signed_in.not_you"))
    await reach(window, window.words("consent.agree"))
    await keyboard.press("Enter")
    assert "code" in await window.arrive()


async def reach(window: Visit, name: str) -> None:
    """Press Tab until the field or button of that name has the focus, visibly."""
    for _ in range(TABS_MAX):
        focused = await window.page.evaluate(FOCUSED)
        if focused["name"] == name:
            assert focused["outline"] != "none", name
            return
        await window.page.keyboard.press("Tab")
    raise AssertionError(f"{name} can't be reached with Tab")


FOCUSED = """() => {
    const it = document.activeElement;
    const label = it.labels && it.labels[0];
    return {name: (label || it).textContent.trim(), outline: getComputedStyle(it).outlineStyle};
}"""
