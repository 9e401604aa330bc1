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
SCHEMES: dict[Literal["light", "dark"], list[str]] = {"light": TAGS, "dark": []}
"""The color schemes of a page with the tags of rules for each; none: those of colors alone."""

SCRIPT = Axe().axe_script
IS_MISSING = "() => typeof axe === 'undefined'"
RUN = """async ([parts, tags, ofColors, isColored]) => {
    const looks = new Map();
    const roots = parts ? parts.flatMap(([part]) => [...document.querySelectorAll(part)]) : [document.body];
    for (const it of isColored ? roots.flatMap(root => [root, ...root.querySelectorAll("*")]) : []) {
        const hasText = [...it.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
        if (!hasText && !it.matches("input, select, textarea")) continue;
        if (!it.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
        const own = getComputedStyle(it);
        const look = [it.tagName, it.className, it.matches(":disabled"), it.parentElement.tagName];
        look.push(own.color, own.fontSize, own.fontWeight, own.position, own.textShadow);
        for (let outer = it; outer; outer = outer.parentElement) {
            const style = getComputedStyle(outer);
            look.push(style.backgroundColor, style.backgroundImage, style.opacity);
        }
        const key = String(look);
        if (!looks.has(key)) looks.set(key, it);
    }
    for (const it of looks.values()) it.dataset.judged = "";
    axe.configure({rules: [{id: "color-contrast", selector: "[data-judged]"}]});
    const runOnly = tags.length ? tags : ofColors;
    const rules = Object.fromEntries(isColored ? [] : ofColors.map(rule => [rule, {enabled: false}]));
    const options = {runOnly, rules, resultTypes: ["violations"], preload: false};
    const found = await axe.run(parts ? {include: parts} : document, options);
    for (const it of looks.values()) delete it.dataset.judged;
    return found.violations.flatMap(({id, nodes}) => nodes.map(it => `${id}: ${it.html} ${it.failureSummary}`));
}"""
"""Of the elements with the same color, font and backgrounds the contrast of the first is judged: each takes a while."""


async def violations(
    page: Page, tags: list[str] = TAGS, parts: list[list[str]] | None = None, *, colors: bool = True
) -> list[str]:
    """Return which rules these parts of the page violate, or all of it, and where. No `tags`: those of colors alone."""
    if await page.evaluate(IS_MISSING):
        await page.evaluate(SCRIPT)
    found: list[str] = await page.evaluate(RUN, [parts, tags, OF_COLORS, colors])
    return found
