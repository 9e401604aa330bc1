"""The documentation in Chromium: fits a phone, bars nobody, finds with and without a script, and sends requests."""

from __future__ import annotations

import pytest
from playwright.async_api import ViewportSize, expect

from browser.conftest import Open
from browser.test_looks import check_accessibility, check_widths
from browser.visit import Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")

DESKTOP = ViewportSize(width=1280, height=844)
PAGES = (
    "/docs",
    "/docs/cancel-order",
    "/docs/webhook-order-processed",
    "/docs/search?q=webhook+signature",
    "/docs/guides/webhooks",
    "/docs/retired",
)
"""One of each template, and the longest of each kind."""
IN_THE_DARK = PAGES[:5]


@pytest.mark.parametrize("path", PAGES)
async def test_pages_are_accessible_in_light_and_dark_and_fit(visit: Open, path: str) -> None:
    """On a phone, a desktop and with text twice as large; no script is blocked, and no other host is asked."""
    window = await visit("en", java_script_enabled=True, axe=True)
    await window.open(path)
    await check_accessibility(window, path, is_dark=path in IN_THE_DARK)
    await check_widths(window, path)


@pytest.mark.slow
async def test_pages_are_accessible_on_a_desktop(visit: Open) -> None:
    """Where the contents and the code are beside the text."""
    window = await visit("en", java_script_enabled=True, axe=True, viewport=DESKTOP)
    for path in PAGES:
        await window.open(path)
        await check_accessibility(window, path)


async def click(window: Visit, name: str) -> None:
    """Click the link of that name."""
    await window.page.get_by_role("link", name=name, exact=True).filter(visible=True).first.click()


async def test_refund_cancel_and_signature_are_three_clicks_away(visit: Open) -> None:
    """From the first page, without a script."""
    window = await visit("en", viewport=DESKTOP)
    for names, title in (
        (("Refunds",), "Refund an order, whole or in part"),
        (("Orders", "Cancel an order POST"), "Cancel an order"),
        (("Webhooks", "Guide: Receive webhooks", "Verify a delivery"), "Receive webhooks"),
    ):
        await window.open("/docs")
        for name in names:
            await click(window, name)
        await window.page.get_by_role("heading", level=1, name=title, exact=True).wait_for()


async def test_the_search_finds_without_a_script_and_while_one_types(visit: Open) -> None:
    """By Enter a page of results; with the script the same results at each letter."""
    for has_script in (False, True):
        window = await visit("en", java_script_enabled=has_script, viewport=DESKTOP)
        await window.open("/docs")
        field = window.page.get_by_label("Search the documentation")
        await field.press_sequentially("cancel at the term")
        if not has_script:
            await field.press("Enter")
        first = window.page.locator(".results li a").first
        await expect(first).to_have_text("Cancel an order")
        await first.click()
        await window.page.get_by_role("heading", level=1, name="Cancel an order").wait_for()


async def test_the_language_of_code_is_kept(visit: Open) -> None:
    """From page to page; without a script each page begins with curl."""
    window = await visit("en", java_script_enabled=True, viewport=DESKTOP)
    await window.open("/docs/create-order")
    await window.page.get_by_text("Python", exact=True).click()
    await window.page.get_by_text("import requests").wait_for()
    await window.open("/docs/get-order")
    await window.page.get_by_text("import requests").wait_for()


async def test_the_contents_open_on_a_phone(visit: Open) -> None:
    """Without a script, and close again."""
    window = await visit("en")
    await window.open("/docs/create-order")
    contents = window.page.get_by_role("navigation", name="Contents")
    await expect(contents).to_be_hidden()
    await click(window, "Contents")
    await expect(contents).to_be_visible()
    await click(window, "Close")
    await expect(contents).to_be_hidden()
