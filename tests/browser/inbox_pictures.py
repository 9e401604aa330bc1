"""The screenshot in docs/ of the demo inbox, with the same ids and times each time."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, ViewportSize

from browser import png
from browser.inbox import MOVES, send, subscribe
from browser.shop import open_shop
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.connect import open_database
from paydesk_dev.dev.fresh import migrate_with_kit

WINDOW = ViewportSize(width=960, height=900)
NAME = "demo-inbox.png"
PICTURED = """
const shown = [
  [/\\b1[0-9]{9}\\b/g, "1769869602"],
  [/v1=[0-9a-f]{64}/g, "v1=" + "5f0c3ad18f1e4f0b9d5c2b7a90c1e4d6".repeat(2)],
  [/v1,[A-Za-z0-9+\\/]{43}=/g, "v1,K3wY0mAfbkqP2yT5sJ8LxN1dRgV4hZ7cU6eQoB9iXnE="],
  [/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=\\.)/g, "0b9d1c4e-3f6a-4c55-9d0e-8f2f6f1f0a11"],
  [/127\\.0\\.0\\.1:[0-9]+/g, "127.0.0.1:8377"],
];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  for (const [found, replacement] of shown) {
    texts.currentNode.data = texts.currentNode.data.replace(found, replacement);
  }
}
document.querySelector("details").open = true;
"""
"""What differs from one run to the next, and what the picture has in its place; the first checks are unfolded."""


async def take(browser: Browser, folder: Path, day_ms: int) -> None:
    """Take the picture: a notification with its checks unfolded, and one whose signature is not valid."""
    with tempfile.TemporaryDirectory() as data:
        url = f"sqlite:{data}/paydesk.db"
        clock = MovableClock(frozen_ms=day_ms)
        database = await open_database(url)
        await migrate_with_kit(database, clock.now_ms())
        await database.close()
        async with open_shop(url, clock) as shop:
            secret = await subscribe(shop.service)
            await send(shop.service, secret, 0, 2, MOVES[3])
            await send(shop.service, secret, 1, 3, MOVES[2])
            context = await browser.new_context(viewport=WINDOW, color_scheme="light", device_scale_factor=1)
            page = await context.new_page()
            await page.goto(f"{shop.service.base_url}/demo/inbox")
            await page.evaluate(PICTURED)
            await page.screenshot(path=folder / NAME, full_page=True)
            await context.close()
    png.shrink(folder / NAME)
    sys.stdout.write(f"{(folder / NAME).relative_to(folder.parents[1])}\n")
