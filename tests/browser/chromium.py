"""The system's Chromium, driven by Playwright: it connects only to the pages under test."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from playwright.async_api import Browser, async_playwright

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first needs a third less time: it has no windows to draw."""
HOW_TO_GET_IT = "Chromium is missing. Debian: apt-get install chromium    macOS: brew install --cask chromium"
WRAPPER = Path(__file__).with_suffix(".sh")
FLAGS = (
    "--no-sandbox",  # it may run as root, as CI does
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--no-opt,--no-maglev",  # no page lives long enough for its scripts to be worth optimizing
)


def program() -> str | None:
    """Where this machine's Chromium is, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextlib.asynccontextmanager
async def launched(executable: str) -> AsyncIterator[Browser]:
    """A browser without a window, until the block ends."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=WRAPPER, env={**os.environ, "CHROMIUM": executable}, args=list(FLAGS)
        )
        try:
            yield browser
        finally:
            await browser.close()
