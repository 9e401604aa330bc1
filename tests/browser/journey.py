"""Every page that a seller can see, one after the other in one window."""

from __future__ import annotations

from collections.abc import AsyncIterator

from browser.shop import APPLICATION
from browser.visit import Visit


async def journey(window: Visit) -> AsyncIterator[str]:
    """Stop at each page, and say which it is."""
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
