"""Windows that are kept from case to case: a new one with its first page takes three times as long."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from playwright.async_api import Browser, Page, ViewportSize

from browser.axe import SCRIPT
from waiting import HANGS_SECONDS

EMPTY = '<!doctype html><html lang="en"><title>Between two tests</title><link rel="icon" href="data:,">'
FORGET = "() => { localStorage.clear(); sessionStorage.clear(); }"
TIMEOUT_MS = HANGS_SECONDS * 1000
"""A page that does not come is a fault at once, but for a machine that is busy."""
Listeners = Mapping[str, Callable[[Any], None]]
"""What to do at events of a page, by their names."""


@dataclass(frozen=True)
class Windows:
    """The windows of a browser, of which none is in use twice.

    Between two cases they forget cookies and storage, and are at the empty page `parking`: one of the same site as the
    services, so that the process stays. With `parking` None, all windows are new.
    """

    browser: Browser
    parking: str | None = None
    kept: dict[str, list[Page]] = field(default_factory=lambda: defaultdict(list))
    """Free windows by their options."""

    @contextlib.asynccontextmanager
    async def lend(
        self, *, fresh: bool = False, axe: bool = False, viewport: ViewportSize, **options: Any
    ) -> AsyncIterator[Page]:
        """Lend a window. `axe`: with its script; `fresh`: a new one, for what cannot be taken back, such as clocks."""
        key = None if fresh or self.parking is None else f"{axe} {sorted(options.items())}"
        free = self.kept[key] if key else []
        page = free.pop() if free else await self._new(axe=axe, viewport=viewport, **options)
        try:
            if page.viewport_size != viewport:
                await page.set_viewport_size(viewport)
            yield page
            is_kept = key and not page.is_closed()
        except BaseException:
            await page.context.close()
            raise
        if not is_kept:
            await page.context.close()
            return
        await self._clear(page, has_scripts=options.get("java_script_enabled", True))
        free.append(page)

    async def _new(self, *, axe: bool, **options: Any) -> Page:
        context = await self.browser.new_context(**options)
        context.set_default_timeout(TIMEOUT_MS)
        page = await context.new_page()
        if axe:
            await page.add_init_script(SCRIPT)
        return page

    async def _clear(self, page: Page, *, has_scripts: bool) -> None:
        context = page.context
        for other in context.pages:
            if other is not page:
                await other.close()
        # Without scripts nothing goes on in a page.
        if has_scripts and self.parking:
            await page.evaluate(FORGET)
            await page.unroute_all()
            await page.goto(self.parking)
        # Not before it is away: a page that finds itself signed out reloads.
        await context.clear_cookies()


@contextlib.contextmanager
def listening(page: Page, listeners: Listeners) -> Any:
    """Call the listeners at the events of the page, until the block ends."""
    # Playwright's types know each event by its name alone.
    heard: Any = page
    for name, listener in listeners.items():
        heard.on(name, listener)
    try:
        yield
    finally:
        for name, listener in listeners.items():
            heard.remove_listener(name, listener)


@contextlib.asynccontextmanager
async def keeping(browser: Browser) -> AsyncIterator[Windows]:
    """Windows of the browser that are kept until the block ends."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=EMPTY, content_type="text/html")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield Windows(browser, f"http://127.0.0.1:{runner.addresses[0][1]}/")
    finally:
        await runner.cleanup()
