"""Windows with the page of a virtual terminal: what a person does and sees, and what no page may do."""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import ConsoleMessage, Page, Request, Response, ViewportSize

from browser.windows import Listeners, Windows, listening
from moved_time import advance
from page_counter import PageCounter
from paydesk_dev.virtual.terminal.client import Pace
from waiting import until

PHONE, DESKTOP = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=800)
LASTS_SECONDS = 9.0
"""How long something lasts that must be seen; the test that has seen it moves time. A call may take a second more."""
QUICK = Pace(backoff_seconds=(0.1, 0.2), authorizing_seconds=0.6, reboot_seconds=0.3)


@dataclass
class Window:
    """A window with the page of the counter's terminal. `faults` is what no page may do."""

    page: Page
    counter: PageCounter
    faults: list[str] = field(default_factory=list)

    async def press(self, name: str) -> None:
        """Press the button of that name."""
        await self.page.get_by_role("button", name=name, exact=True).click()

    async def present(self, card: str, way: str = "Tap") -> None:
        """Choose how cards are presented, and press a card."""
        await self.page.get_by_role("radio", name=way, exact=True).check()
        await self.page.locator(f"#card-{card}").click()

    async def shows(self, screen: str) -> None:
        """Wait until the page shows the screen."""
        await self.page.locator(f"#glass[data-screen={screen}]").wait_for()

    async def authorized(self) -> None:
        """See that the payment is being authorized, and let that end, of a pace at which it lasts."""
        await self.shows("authorizing")
        # Of a call to the service under way time would be the end.
        await self.heard("go:")
        advance(LASTS_SECONDS)

    async def heard(self, text: str) -> None:
        """Wait until a message about the newest order begins with the text."""

        def is_there() -> bool:
            texts = [message.text for message in self.counter.display.messages]
            newest = len(texts) - texts[::-1].index("order") if "order" in texts else 0
            return any(one.startswith(text) for one in texts[newest:])

        await until(is_there, lambda: self.counter.display.messages)

    async def reads(self, text: str) -> None:
        """Wait until the text is visible."""
        await self.page.get_by_text(text).first.wait_for()

    async def order(self, amount: str = "24.90", description: str = "") -> str:
        """Create an order with the form of the page; return its id once the terminal asks for a card."""
        await self.press("New order")
        await self.page.get_by_label("Amount in").fill(amount)
        await self.page.get_by_label("Description").fill(description)
        await self.press("Create order")
        await self.shows("present_card")
        return str(self.counter.screen.order_id)

    async def focused(self) -> str:
        """Return the id of the focused element."""
        found: str = await self.page.evaluate("document.activeElement.id")
        return found


def watching(window: Window, host: str) -> Listeners:
    """Record in `faults` scripts that fail or are blocked, requests to other hosts, and unexpected answers."""

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "status of 409" not in message.text:
            window.faults.append(f"console: {message.text}")

    def on_request(request: Request) -> None:
        if urllib.parse.urlsplit(request.url).netloc != host:
            window.faults.append(f"another host: {request.url}")

    def on_response(response: Response) -> None:
        if response.status >= 400 and response.status != 409:
            window.faults.append(f"{response.status}: {response.url}")

    return {
        "console": on_console,
        "request": on_request,
        "response": on_response,
        "pageerror": lambda error: window.faults.append(f"script: {error}"),
    }


Open = Callable[..., Awaitable[Window]]


@contextlib.asynccontextmanager
async def opening(windows: Windows, counter: PageCounter) -> AsyncIterator[Open]:
    """Open the page in windows; at the end none of them has shown a fault."""
    async with contextlib.AsyncExitStack() as stack:
        opened: list[Window] = []

        async def open_window(**options: Any) -> Window:
            looks = {"viewport": DESKTOP, "reduced_motion": "reduce", **options}
            page = await stack.enter_async_context(windows.lend(**looks))
            one = Window(page, counter)
            opened.append(one)
            stack.enter_context(listening(page, watching(one, urllib.parse.urlsplit(counter.service.base_url).netloc)))
            await page.goto(counter.address)
            if options.get("java_script_enabled", True):
                await counter.until_streams(len(opened))
            return one

        yield open_window
        assert [one.faults for one in opened if one.faults] == []
