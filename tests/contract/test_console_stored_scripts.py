"""Texts of clients, terminals and receivers stay texts on every screen of the console."""

from __future__ import annotations

from pathlib import Path

from console_hostile import ATTRIBUTE, COLUMNS, TAG, spoil
from console_world import screens, world
from page_scene import Page
from paydesk.platform.storage.database import Database

ON_NO_SCREEN = {
    "attempts.error": "the receiver answers here, so that there is no error",
    "operator_events.message": "the list of what needs a person has sentences of its own",
    "print_actions.content": "print actions are not listed",
    "print_actions.external_reference": "print actions are not listed",
}
"""Columns that no screen shows, each with the reason."""


def markup_of(page: Page) -> list[str]:
    """Return what in the page comes from a text that was taken for markup."""
    found = []
    for tag, given in page.tags:
        links = [given.get(name, "") for name in ("href", "src", "action", "formaction")]
        is_script = any(link.strip().lower().startswith(("javascript:", "data:", "//", "\\")) for link in links)
        is_marked = tag == TAG or ATTRIBUTE in given or "onerror" in given or "onfocus" in given
        if is_script or is_marked or (tag == "script" and "src" not in given):
            found.append(f"<{tag} {given}>")
    return found


async def test_texts_stay_texts(database: Database, tmp_path: Path) -> None:
    """No element, attribute, script or link is made of them, no template runs, and every text is seen somewhere."""
    seen: set[str] = set()
    async with world(database, tmp_path) as made:
        browser = await made.console()
        await browser.done(f"/console/orders/{made.orders['created']}/cancel", reason="Left the shop")
        await spoil(made)
        for one in screens():
            for path in made.paths(one):
                page = await browser.get(path)
                assert page.status == 200, (path, page.status, page.text)
                if not one.media_type.startswith("text/html"):
                    continue
                assert markup_of(page) == [], path
                seen |= {name for name in COLUMNS if name in page.text and "{{7*7}}" in page.text}
    assert set(COLUMNS) - seen == set(ON_NO_SCREEN)
