"""What axe finds on a page: the rules of WCAG 2.2 AA, and those of colors alone."""

from __future__ import annotations

from typing import Literal

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_COLORS = ["color-contrast", "link-in-text-block"]
"""The rules that can find something else when nothing but the colors of a page has changed."""
OF_FORMS = ["cat.forms", "cat.name-role-value"]
"""The tags of rules that fields, buttons and links are judged by: labels and names."""
SCHEMES: dict[Literal["light", "dark"], list[str]] = {"light": TAGS, "dark": OF_COLORS}
"""The color schemes of a page with the rules for each: its structure is the same in both."""

SCRIPT = Axe().axe_script
IS_MISSING = "() => typeof axe === 'undefined'"
RUN = """async ([parts, only, without]) => {
    const rules = Object.fromEntries(without.map(rule => [rule, {enabled: false}]));
    const options = {runOnly: only, rules, resultTypes: ['violations']};
    const found = await axe.run(parts ? {include: parts} : document, options);
    return found.violations.flatMap(({id, nodes}) => nodes.map(it => `${id}: ${it.html} ${it.failureSummary}`));
}"""


async def violations(
    page: Page, rules: list[str] = TAGS, parts: list[list[str]] | None = None, *, colors: bool = True
) -> list[str]:
    """Return which rules these parts of the page violate, or all of it, and where; those of colors take the longest."""
    if await page.evaluate(IS_MISSING):
        await page.evaluate(SCRIPT)
    found: list[str] = await page.evaluate(RUN, [parts, rules, [] if colors else OF_COLORS])
    return found
