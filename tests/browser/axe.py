"""What axe finds on a page: the rules of WCAG 2.2 AA, and those of colors alone."""

from __future__ import annotations

from typing import Any, Literal

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_COLORS = ["color-contrast", "link-in-text-block"]
"""The rules that can find something else when nothing but the colors of a page has changed."""
SCHEMES: dict[Literal["light", "dark"], list[str]] = {"light": TAGS, "dark": OF_COLORS}
"""The color schemes of a page with the rules for each: its structure is the same in both."""

SCRIPT = Axe().axe_script
IS_MISSING = "() => typeof axe === 'undefined'"
RUN = """([parts, only]) =>
    axe.run(parts ? {include: parts} : document, {runOnly: only, resultTypes: ['violations']})"""


async def violations(page: Page, rules: list[str] = TAGS, parts: list[list[str]] | None = None) -> list[str]:
    """Return which rules these parts of the page violate, or all of it, and where."""
    if await page.evaluate(IS_MISSING):
        await page.evaluate(SCRIPT)
    found: dict[str, Any] = await page.evaluate(RUN, [parts, rules])
    return [
        f"{rule['id']}: {node['html']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
