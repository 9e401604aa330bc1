"""Fixtures of the walks: one Chromium per process, a shop and any number of visits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from browser import chromium as system
from browser.shop import Shop, open_shop
from browser.visit import Visit, visiting
from browser.windows import TIMEOUT_MS, Windows, keeping
from conftest import skip_unless_ci
from manual_scene import outcomes_stay
from paydesk.core.clock import MovableClock

expect.set_options(timeout=TIMEOUT_MS)
Open = Callable[..., Awaitable[Visit]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The system's Chromium; it is on the session's event loop, and so are the tests that use it."""
    executable = system.program()
    if executable is None:
        skip_unless_ci(system.HOW_TO_GET_IT)
    async with system.launched(executable) as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def windows(chromium: Browser) -> AsyncIterator[Windows]:
    """Its windows, which are kept from case to case."""
    async with keeping(chromium) as windows:
        yield windows


@pytest.fixture(autouse=True)
def _outcomes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a virtual terminal show an outcome until the next order, or until time is moved."""
    outcomes_stay(monkeypatch)


@pytest_asyncio.fixture(loop_scope="session")
async def shop(sqlite_url: str, clock: MovableClock) -> AsyncIterator[Shop]:
    """A fresh service with a seller and an application."""
    async with open_shop(sqlite_url, clock) as shop:
        yield shop


@pytest_asyncio.fixture(loop_scope="session")
async def visit(windows: Windows, shop: Shop) -> AsyncIterator[Open]:
    """Opens windows by language; at the end of the test none of them has shown a fault."""
    async with contextlib.AsyncExitStack() as opened:

        async def open_window(language: str, **options: Any) -> Visit:
            return await opened.enter_async_context(visiting(windows, shop, language, **options))

        yield open_window


@pytest.fixture(params=["pt", *(pytest.param(other, marks=pytest.mark.slow) for other in ("es", "en"))])
def language(request: pytest.FixtureRequest) -> str:
    """Each of the languages that the pages are written in."""
    chosen: str = request.param
    return chosen
