"""The layout and accessibility of the pages: small windows, dark mode, keyboard, screen reader."""

from __future__ import annotations

import pytest

from browser.axe import SCHEMES, violations
from browser.conftest import Open
from browser.journey import demo_journey, journey
from browser.shop import EMAIL, PASSWORD
from browser.visit import Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDTHS = (320, 390, 1280)
TABS_MAX = 8


async def test_nothing_is_cut_off(visit: Open, language: str) -> None:
    """No page is wider than its window, from the smallest phone to a desktop, also with text twice as large."""
    window = await visit(language)
    async for place in journey(window):
        await check_widths(window, place)


async def test_nothing_is_cut_off_on_pages_for_developers(visit: Open) -> None:
    """The pages of the demo application and the reference are as narrow."""
    window = await visit("en")
    async for place in demo_journey(window):
        await check_widths(window, place)
    await window.open("/docs")
    await check_widths(window, "reference")


async def check_widths(window: Visit, place: str) -> None:
    """Fail if the page is wider than one of the windows."""
    for width in WIDTHS:
        await window.page.set_viewport_size({"width": width, "height": 700})
        assert await window.overflow() <= 0, (place, width)
    await window.page.set_viewport_size({"width": 640, "height": 700})
    await window.page.evaluate("document.documentElement.style.setProperty('font-size', '200%')")
    assert await window.overflow() <= 0, f"{place}, enlarged"


FEW_OPERATIONS = """() => {
  for (const section of document.querySelectorAll("main section"))
    for (const article of [...section.querySelectorAll("article")].slice(2)) article.remove();
  for (const list of document.querySelectorAll("nav ul"))
    for (const item of [...list.children].slice(2)) item.remove();
  return document.querySelectorAll("main article").length;
}"""


async def test_accessible_in_light_and_dark_mode(visit: Open) -> None:
    """WCAG 2.2 AA finds nothing: labels, headings, landmarks, contrast, sizes of targets."""
    window = await visit("pt", java_script_enabled=True)
    async for place in journey(window):
        await check_accessibility(window, place)


async def test_pages_for_developers_are_accessible_in_light_and_dark_mode(visit: Open) -> None:
    """The pages of the demo application and the reference are as accessible."""
    window = await visit("en", java_script_enabled=True)
    async for place in demo_journey(window):
        await check_accessibility(window, place)
    await window.open("/docs")
    # The rules take time with the square of the page's length: a few operations of each kind stand for all.
    assert await window.page.evaluate(FEW_OPERATIONS) > 10
    await check_accessibility(window, "reference")


async def check_accessibility(window: Visit, place: str) -> None:
    """Fail if a rule is violated, or if the page has one look for both modes."""
    backgrounds = set()
    for scheme, rules in SCHEMES.items():
        await window.page.emulate_media(color_scheme=scheme)
        backgrounds.add(await window.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert await violations(window.page, rules) == [], (place, scheme)
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
