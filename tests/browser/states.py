"""Every page as a seller may find it, and how to get there: what is looked at and what is photographed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from browser.shop import APPLICATION
from browser.visit import Visit


async def sign_in(window: Visit) -> None:
    """The first page."""
    await window.ask()
    await window.sees("sign_in.title")


async def wrong_password(window: Visit) -> None:
    """The first page, after a try that failed."""
    await window.ask()
    await window.sign_in("wrong")
    await window.reads("sign_in.failed")


async def consent(window: Visit) -> None:
    """The question."""
    await window.ask()
    await window.sign_in()
    await window.sees("consent.title", application=APPLICATION)


async def answered(window: Visit) -> None:
    """The question, answered a second time."""
    await consent(window)
    form = await window.page.content()
    await window.press("consent.agree")
    await window.arrive()
    await window.page.goto(f"{window.shop.service.base_url}/applications")
    await window.page.set_content(form)
    await window.press("consent.agree")
    await window.sees("error.request_decided.title")


async def error(window: Visit) -> None:
    """An address that is not the application's."""
    await window.ask(redirect_uri="http://localhost:9/callback")
    await window.sees("error.unregistered_address.title")


async def applications(window: Visit) -> None:
    """The list, with one application in it."""
    await consent(window)
    await window.press("consent.agree")
    await window.arrive()
    await window.page.goto(f"{window.shop.service.base_url}/applications")
    await window.page.get_by_text(APPLICATION).first.wait_for()


async def no_applications(window: Visit) -> None:
    """The list, with nothing in it."""
    await window.page.goto(f"{window.shop.service.base_url}/applications")
    await window.sign_in()
    await window.reads("applications.none")


STATES: Mapping[str, Callable[[Visit], Awaitable[None]]] = {
    "sign-in": sign_in,
    "wrong-password": wrong_password,
    "consent": consent,
    "answered": answered,
    "error": error,
    "applications": applications,
    "no-applications": no_applications,
}
