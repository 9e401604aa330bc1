"""The system's Chromium, driven by Playwright: it connects only to the pages under test."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator

from playwright.async_api import Browser, async_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
HOW_TO_GET_IT = "Chromium is missing. Debian: apt-get install chromium    macOS: brew install --cask chromium"
FLAGS = (
    "--no-sandbox",  # it may run as root, as CI does
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def program() -> str | None:
    """Where this machine's Chromium is, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextlib.asynccontextmanager
async def launched(executable: str) -> AsyncIterator[Browser]:
    """A browser without a window, until the block ends."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()
