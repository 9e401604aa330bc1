"""A seller's visit: one browser window in one language, the seller's actions, and every error in the console."""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from playwright.async_api import ConsoleMessage, Locator, Page, Request, Response

from browser.shop import EMAIL, PASSWORD, Shop
from browser.windows import Listeners, Windows, listening
from paydesk.platform.web.language import Texts, texts

LOCALES = {"pt": "pt-BR", "es": "es-AR", "en": "en-US"}
PHONE = {"width": 390, "height": 844}
# The console repeats the status of a page that is an error page on purpose; what else it says is a fault.
STATUS_OF_PAGE = "Failed to load resource: the server responded with a status of 4"
# The browser cancels what a page was still loading when the window went to another page.
CANCELLED = "net::ERR_ABORTED"


@dataclass(frozen=True, slots=True)
class Visit:
    """A window at the shop's pages; `words` are those of its language."""

    page: Page
    shop: Shop
    words: Texts

    async def ask(self, **changes: Any) -> None:
        """The application sends the seller to the authorization page."""
        await self.page.goto(self.shop.address(**changes))

    async def list_applications(self) -> None:
        """The seller looks who acts for them."""
        await self.open("/applications")

    async def open(self, path: str) -> None:
        """Open a page of the service."""
        await self.page.goto(f"{self.shop.service.base_url}{path}")

    async def sign_in(self, password: str = PASSWORD) -> None:
        """Fill in the form and send it."""
        await self.page.get_by_label(self.words("sign_in.email"), exact=True).fill(EMAIL)
        await self.page.get_by_label(self.words("sign_in.password"), exact=True).fill(password)
        await self.press("sign_in.button")

    async def press(self, name: str, **values: str) -> None:
        """Press the button with that text, and wait for the page that follows."""
        await self.button(name, **values).click()

    async def arrive(self) -> dict[str, str]:
        """The parameters with which the browser came back to the application."""
        await self.page.wait_for_url(f"{self.shop.receiver.redirect_uri}?*")
        return dict(self.shop.receiver.received[-1])

    async def sees(self, name: str, **values: str) -> None:
        """Wait until the page's first heading is that text."""
        await self.page.get_by_role("heading", level=1, name=self.words(name, **values), exact=True).wait_for()

    async def reads(self, name: str, **values: str) -> None:
        """Wait until that text is on the page."""
        await self.page.get_by_text(self.words(name, **values)).first.wait_for()

    def button(self, name: str, **values: str) -> Locator:
        """The button with that text."""
        return self.page.get_by_role("button", name=self.words(name, **values), exact=True)

    async def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        wider: int = await self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return wider


def watching(hosts: frozenset[str], faults: list[str]) -> Listeners:
    """Listen to a page and take down in `faults` whatever no page may do; `hosts` are those that it may talk to."""

    def on_console(message: ConsoleMessage) -> None:
        if not message.text.startswith(STATUS_OF_PAGE):
            faults.append(f"console: {message.text}")

    def on_request(request: Request) -> None:
        if urllib.parse.urlsplit(request.url).netloc not in hosts:
            faults.append(f"another host: {request.url}")

    def on_response(response: Response) -> None:
        if response.status >= 400 and not response.request.is_navigation_request():
            faults.append(f"{response.status}: {response.url}")

    def on_failure(request: Request) -> None:
        if request.failure != CANCELLED:
            faults.append(f"failed: {request.url} {request.failure}")

    return {
        "console": on_console,
        "request": on_request,
        "response": on_response,
        "pageerror": lambda error: faults.append(f"script: {error}"),
        "requestfailed": on_failure,
    }


@contextlib.asynccontextmanager
async def visiting(
    windows: Windows, shop: Shop, language: str, *, java_script_enabled: bool = False, **options: Any
) -> AsyncIterator[Visit]:
    """A visit with cookies of its own; nothing needs scripts, so there are none unless they are asked for."""
    looks = {"locale": LOCALES[language], "java_script_enabled": java_script_enabled, "viewport": PHONE, **options}
    faults = list[str]()
    listeners = watching(frozenset(urllib.parse.urlsplit(url).netloc for url in shop.addresses), faults)
    async with windows.lend(**looks) as page:
        with listening(page, listeners):
            yield Visit(page, shop, texts(language))
        assert not faults, faults
