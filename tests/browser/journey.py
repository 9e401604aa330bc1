"""Every page of the service, one after the other in one window: those for sellers, the demo's, the reference."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from browser.shop import APPLICATION
from browser.visit import Visit

CODE = f"TG-{'a1b2c3d4' * 5}-1000001"
NOTIFICATION = {
    "action": "order.processed",
    "data": {"id": "ORD01KAQ5Z3M8VJ2E4T7QXW", "status": "processed", "version": 3, "note": "<script>alert(1)</script>"},
}


async def journey(window: Visit) -> AsyncIterator[str]:
    """Stop at each page for sellers, and say which it is."""
    await window.ask(redirect_uri="http://localhost:9/callback")
    await window.sees("error.unregistered_address.title")
    yield "error"
    await window.ask()
    await window.sees("sign_in.title")
    yield "sign-in"
    await window.sign_in("wrong")
    await window.reads("sign_in.failed")
    yield "wrong password"
    await window.sign_in()
    await window.sees("consent.title", application=APPLICATION)
    yield "consent"
    await window.list_applications()
    await window.reads("applications.none")
    yield "no applications"
    await window.ask()
    form = await window.page.content()
    await window.press("consent.agree")
    await window.arrive()
    await window.list_applications()
    await window.page.get_by_role("heading", name=APPLICATION).wait_for()
    yield "applications"
    await window.page.set_content(form)
    await window.press("consent.refuse")
    await window.sees("error.request_decided.title")
    yield "answered already"


async def demo_journey(window: Visit) -> AsyncIterator[str]:
    """Stop at each page of the demo application."""
    await window.open("/demo/callback")
    yield "callback without a code"
    await window.open("/demo/callback?error=access_denied&error_description=The+seller+refused.&state=s")
    yield "callback with an error"
    await window.open(f"/demo/callback?code={CODE}&state={'s' * 200}&iss={window.shop.service.base_url}")
    await window.page.get_by_role("heading", level=2, name="Exchange it for tokens").wait_for()
    yield "callback with a code"
    await window.open("/demo/inbox")
    await window.page.get_by_text("No notification has arrived yet").wait_for()
    yield "empty inbox"
    await notify(window, NOTIFICATION)
    await notify(window, ["x" * 500])
    await window.page.get_by_role("link", name="Reload").click()
    await window.page.get_by_role("heading", level=2, name="order.processed").wait_for()
    await window.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    yield "inbox"


async def notify(window: Visit, body: Any) -> None:
    """Send a notification that is not signed to the demo inbox."""
    reply = await window.shop.service.request("POST", "/demo/inbox", body, token=None, key=None)
    assert reply.status == 200, reply
