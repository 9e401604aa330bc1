"""The documentation in Chromium: fits a phone, is accessible, finds with and without a script, and sends requests."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import ViewportSize, expect

from browser.conftest import Open
from browser.test_looks import check_accessibility, check_widths
from browser.visit import Visit
from browser.windows import Windows
from console_scene import console
from paydesk.platform.docs import guides
from paydesk.platform.storage.connect import open_database
from paydesk_dev.credentials_file import KeptCredentials
from service import running

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


@pytest.mark.slow
async def test_every_guide_fits(visit: Open) -> None:
    """On a phone, a tablet and a desktop, with its tables, code and pictures."""
    window = await visit("en", viewport=DESKTOP)
    wide = []
    for one in guides.every_guide():
        await window.open(one.url)
        for width in (390, 960, 1280):
            await window.page.set_viewport_size({"width": width, "height": 844})
            if await window.overflow() > 0:
                wide.append((one.name, width))
    assert wide == []


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


async def test_a_request_is_sent_from_its_page(windows: Windows, sqlite_url: str) -> None:
    """The answer is shown, and the id of the order is filled in on the next page."""
    database = await open_database(sqlite_url)
    document: dict[str, Any] = {}

    async def renew() -> None:
        """Do nothing: the tokens stay valid."""

    kept = KeptCredentials(set, renew, lambda: document)
    async with (
        running(database, workers=False, development=True, credentials=kept) as service,
        windows.lend(viewport=DESKTOP) as page,
    ):
        document |= {"terminals": [{"id": (await service.terminal()).id}]}
        document["test"] = {"access_token": service.access_token}
        await page.goto(f"{service.base_url}/docs/create-order")
        await page.get_by_role("button", name="Send it").click()
        await expect(page.get_by_role("status")).to_contain_text("Sign in at the console first")
        cookies = (await console(service)).cookies.items()
        await page.context.add_cookies([{"name": n, "value": v, "url": service.base_url} for n, v in cookies])
        await page.get_by_role("button", name="Send it").click()
        await expect(page.get_by_role("status")).to_contain_text("Status 201")
        await page.goto(f"{service.base_url}/docs/get-order")
        await expect(page.get_by_label("order_id")).to_have_value(re.compile("^ORD"))
        await page.get_by_role("button", name="Send it").click()
        await expect(page.get_by_role("status")).to_contain_text('"status": "created"')
    await database.close()
