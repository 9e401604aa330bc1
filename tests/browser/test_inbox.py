"""The demo inbox in a browser, without scripts: filter, pages, what is folded, and the button that empties it."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import expect

from browser.conftest import Open
from browser.inbox import fill, subscribe
from browser.test_looks import check_accessibility, check_widths
from browser.visit import Visit
from paydesk_dev.inbox import page as inbox_page

pytestmark = pytest.mark.asyncio(loop_scope="session")

STATES = ("", "?order=ORD1", "?before=3")
UNFOLD = "for (const one of document.querySelectorAll('details')) one.open = true"


async def open_inbox(visit: Open, count: int, *, java_script_enabled: bool = False) -> Visit:
    """Return a window at an inbox with `count` notifications, some of them invalid."""
    window = await visit("en", java_script_enabled=java_script_enabled, axe=java_script_enabled)
    await fill(window.shop.service, await subscribe(window.shop.service), count)
    await window.open("/demo/inbox")
    return window


async def test_filter_and_back(visit: Open) -> None:
    """A form, which keeps what was chosen."""
    window = await open_inbox(visit, 12)
    page = window.page
    await page.get_by_label("Action").select_option("order.failed")
    await page.get_by_label("Signature").select_option("Not valid")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_role("heading", level=2)).to_have_text(["order.failed"] * 2)
    await expect(page.get_by_role("status")).to_have_text("2 of 12 notifications match.")
    await expect(page.get_by_label("Action")).to_have_value("order.failed")
    await page.get_by_role("link", name="Reload").click()
    await expect(page.get_by_role("status")).to_have_text("2 of 12 notifications match.")
    await page.get_by_role("link", name="Show all").click()
    await expect(page.get_by_role("heading", level=2)).to_have_count(12)


async def test_order_leads_to_its_notifications(visit: Open) -> None:
    """A click on its id."""
    window = await open_inbox(visit, 12)
    link = window.page.get_by_title("All notifications about this order").first
    name = await link.inner_text()
    await link.click()
    await expect(window.page.get_by_label("Order")).to_have_value(name)
    await expect(window.page.get_by_role("heading", level=2)).to_have_count(4)


async def test_pages_lead_to_the_oldest_and_back(visit: Open) -> None:
    """Twenty on each."""
    window = await open_inbox(visit, 45)
    page, seen = window.page, 0
    for count in (20, 20, 5):
        await expect(page.get_by_role("heading", level=2)).to_have_count(count)
        seen += count
        if seen < 45:
            await page.get_by_role("link", name="Older").click()
    await expect(page.get_by_role("link", name="Older")).to_have_count(0)
    await page.get_by_role("link", name="Newest").click()
    await expect(page.get_by_role("heading", level=2)).to_have_count(inbox_page.SHOWN_MAX)


async def test_details_are_folded_until_they_are_opened(visit: Open) -> None:
    """The checks, the headers and the body."""
    window = await open_inbox(visit, 1)
    page = window.page
    for summary, text in (
        ("How the signatures were checked", "The HMAC-SHA256 of this text, in hexadecimal, is v1"),
        ("Headers", "user-agent: Paydesk"),
        ("Body", '"external_reference": "sale-0042"'),
    ):
        await expect(page.get_by_text(text).first).to_be_hidden()
        await page.locator("summary", has_text=summary).click()
        await expect(page.get_by_text(text).first).to_be_visible()


async def test_button_empties_the_inbox(visit: Open) -> None:
    """The page then says how to get a notification."""
    window = await open_inbox(visit, 3)
    await window.page.get_by_role("button", name="Empty the inbox").click()
    await window.page.get_by_text("No notification has arrived yet").wait_for()
    await expect(window.page.get_by_role("button")).to_have_count(0)


async def test_inbox_is_accessible_and_fits_every_window(visit: Open) -> None:
    """Folded and unfolded, with invalid signatures, retries and long words."""
    window = await open_inbox(visit, 4, java_script_enabled=True)
    service = window.shop.service
    long = json.dumps({"action": "x" * 100, "data": {"id": "y" * 300, "status": "z" * 90}}).encode()
    await service.request("POST", "/demo/inbox", data=long, token=None, key=None)
    for state in STATES:
        await window.open(f"/demo/inbox{state}")
        await window.page.evaluate(UNFOLD)
        await check_accessibility(window, state, is_dark=not state)
        await check_widths(window, state)
