"""Windows of operators with pages of the console, and what no page of it may do."""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, get_args

from playwright.async_api import ConsoleMessage, Page, Request, Response, ViewportSize

from browser.windows import Listeners, Windows, listening
from console_world import World
from paydesk.operators.schemas import Role

PHONE, DESKTOP, WIDE = (ViewportSize(width=width, height=844) for width in (390, 1280, 1920))
ROLES: tuple[str, ...] = get_args(Role)
REFUSED_ON_PURPOSE = "Failed to load resource: the server responded with a status of 4"
WIDER = """() => document.documentElement.scrollWidth - innerWidth"""
WIDEST = """() => [...document.querySelectorAll("body *")]
    .filter(it => it.getBoundingClientRect().right > innerWidth + 1 && !it.closest(".scroll, pre, .sr, svg"))
    .slice(0, 3).map(it => it.outerHTML.slice(0, 120))"""
OUTSIDE = """() => [...document.querySelectorAll("main :is(button, input, select, textarea)")]
    .filter(it => it.checkVisibility() && !it.closest(".scroll, .sr"))
    .filter(it => it.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 3).map(it => it.outerHTML.slice(0, 120))"""


@dataclass
class Window:
    """A window of an operator. `faults` is what no page may do."""

    page: Page
    made: World
    role: str
    faults: list[str] = field(default_factory=list)

    async def open(self, path: str) -> None:
        """Open a page of the console."""
        answer = await self.page.goto(self.made.service.base_url + path)
        assert answer is not None, path
        assert answer.status == 200, (path, answer.status)

    async def sign_in(self) -> None:
        """Give the window the session of a new operator with its role."""
        browser = await self.made.console(self.role)
        url = self.made.service.base_url
        await self.page.context.add_cookies(
            [{"name": name, "value": value, "url": url} for name, value in browser.cookies.items()]
        )

    async def click(self, name: str) -> None:
        """Click the link or button of that name."""
        await (
            self.page.get_by_role("link", name=name, exact=True)
            .or_(self.page.get_by_role("button", name=name, exact=True))
            .first.click()
        )

    async def reads(self, text: str) -> None:
        """Wait until the text is visible."""
        await self.page.get_by_text(text).filter(visible=True).first.wait_for()

    async def check_width(self, where: str) -> None:
        """Fail if the page is wider than the window, or a field or button is beside it."""
        wider = await self.page.evaluate(WIDER)
        assert wider <= 0, (where, wider, await self.page.evaluate(WIDEST))
        assert await self.page.evaluate(OUTSIDE) == [], where


Open = Callable[..., Awaitable[Window]]


def watching(window: Window, host: str) -> Listeners:
    """Record in `faults` scripts that fail or are blocked, requests to other hosts, and unexpected answers."""

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(REFUSED_ON_PURPOSE):
            window.faults.append(f"console: {message.text}")

    def on_request(request: Request) -> None:
        if urllib.parse.urlsplit(request.url).netloc != host:
            window.faults.append(f"another host: {request.url}")

    def on_response(response: Response) -> None:
        is_refused_form = response.request.method == "POST" and response.status < 500
        if response.status >= 400 and not is_refused_form and not response.request.is_navigation_request():
            window.faults.append(f"{response.status}: {response.url}")

    return {
        "console": on_console,
        "request": on_request,
        "response": on_response,
        "pageerror": lambda error: window.faults.append(f"script: {error}"),
    }


@contextlib.asynccontextmanager
async def opening(windows: Windows, made: World) -> AsyncIterator[Open]:
    """Open windows of new operators; at the end none of them has shown a fault."""
    async with contextlib.AsyncExitStack() as stack:
        opened: list[Window] = []

        async def open_window(role: str = "owner", **options: Any) -> Window:
            page = await stack.enter_async_context(windows.lend(**{"viewport": DESKTOP, **options}))
            one = Window(page, made, role)
            await one.sign_in()
            opened.append(one)
            stack.enter_context(listening(page, watching(one, urllib.parse.urlsplit(made.service.base_url).netloc)))
            return one

        yield open_window
        assert [one.faults for one in opened if one.faults] == []
