"""The pictures of the documentation in Chromium: their texts stay within them and do not overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

DOCS = Path(__file__).parents[2] / "docs"

SIZE = "(({width, height}) => [width, height])(document.documentElement.viewBox.baseVal)"
TEXTS = """
[...document.querySelectorAll("text")].map(text => {
  const {x, y, width, height} = text.getBBox();
  return {text: text.textContent, left: x, top: y, right: x + width, bottom: y + height};
})
"""


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", ["terminal-payment.svg", "terminal-recovery.svg"])
async def test_texts_are_within_the_picture_and_apart(chromium: Browser, name: str) -> None:
    """Nothing is cut off, and no two texts cover each other."""
    page = await chromium.new_page()
    await page.goto((DOCS / name).as_uri())
    width, height = await page.evaluate(SIZE)
    texts: list[dict[str, Any]] = await page.evaluate(TEXTS)
    await page.close()
    assert texts
    assert [
        each["text"] for each in texts if each["left"] < 0 or each["right"] > width or each["bottom"] > height
    ] == []
    assert [
        (one["text"], other["text"])
        for number, one in enumerate(texts)
        for other in texts[:number]
        if min(one["right"], other["right"]) > max(one["left"], other["left"])
        and min(one["bottom"], other["bottom"]) > max(one["top"], other["top"]) + 1
    ] == []
