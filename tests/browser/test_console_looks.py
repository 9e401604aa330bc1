"""Every screen and form of the console in Chromium, as each role: nothing is blocked, cut off or bars anyone."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import ViewportSize

from browser.axe import OF_FORMS, SCHEMES, TAGS, violations
from browser.console_window import DESKTOP, PHONE, ROLES, WIDE, Window, opening
from browser.windows import Windows
from conftest import first_and_others
from console_hostile import ATTRIBUTE, TAG, spoil
from console_world import World, forms, screens, world
from paydesk.platform.operation import Operation
from paydesk.platform.storage.connect import open_database
from rotating import quarter

pytestmark = pytest.mark.asyncio(loop_scope="session")

BYTES_MAX = 150_000
"""All that one page loads, without a cache: its compressed size does not matter, it is sent as it is."""

HOSTILE = f"{TAG}, [{ATTRIBUTE}]"
PARTS = 6
"""Into so many cases the screens are divided."""
NAMED = "links => links.map(it => [it.innerText.trim(), it.pathname])"
DIALOG = """() => {
    const dialog = document.querySelector("#dialog"), focused = document.activeElement;
    return [
        dialog.querySelector("h1").innerText ? "" : "no heading",
        dialog.contains(focused) ? "" : "the focus is outside",
        focused.matches("button.danger") ? "the focus is on what does harm" : "",
        dialog.getBoundingClientRect().right > innerWidth ? "wider than the window" : "",
        dialog.scrollWidth > dialog.clientWidth ? "a part is wider than the dialog" : "",
    ].filter(Boolean);
}"""

TABLET = ViewportSize(width=960, height=844)
REPLACED = "#live:is([data-live], [data-every]) :is(input:not([type=hidden]), select, textarea)"
"""Fields in a part of the page that is fetched again while a person types."""
BROKEN = r"""() => {
    const broken = [], range = document.createRange();
    for (const cell of document.querySelectorAll("main :is(td, th)")) {
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            for (const word of texts.currentNode.data.matchAll(/\w{2,24}/g)) {
                range.setStart(texts.currentNode, word.index);
                range.setEnd(texts.currentNode, word.index + word[0].length);
                if (new Set([...range.getClientRects()].map(it => it.top)).size > 1) broken.push(word[0]);
            }
        }
    }
    return broken;
}"""
"""The words in tables of which a part is on another line."""


@pytest_asyncio.fixture(loop_scope="session")
async def made(sqlite_url: str, tmp_path: Path) -> AsyncIterator[World]:
    """A service with one of everything."""
    database = await open_database(sqlite_url)
    async with world(database, tmp_path) as made:
        yield made
    await database.close()


def of_forms() -> set[str]:
    """Return the paths of operations whose screen is a form."""
    return {one.path for one in forms()}


def pages(*, of_form: bool) -> list[Operation]:
    """Return the screens that are HTML: those with the form of an action alone, or all others."""
    sent = of_forms()
    return [one for one in screens() if one.media_type.startswith("text/html") and (one.path in sent) == of_form]


def different(made: World) -> list[str]:
    """Return the paths of all screens that are HTML, of forms one of each kind: they differ by what they name."""
    found = [path for one in pages(of_form=False) for path in made.paths(one)]
    return found + [next(made.paths(one)) for one in pages(of_form=True)]


async def dialogs(window: Window, where: str, opened: set[str] | None = None) -> AsyncIterator[str]:
    """Open each action of the page in the dialog, with real clicks, and close it.

    With `opened`: only those with an address of a kind that is not in it, and but for the first with clicks by a
    script, which take half the time.
    """
    page = window.page
    links = page.locator("main a[data-dialog]").filter(visible=True)
    for number, (name, address) in enumerate(await links.evaluate_all(NAMED)):
        kind = re.sub(r"/[^/]*\d[^/]*", "/…", address)
        if opened is None or not opened:
            await links.nth(number).click()
        elif kind not in opened:
            await links.nth(number).evaluate("link => link.click()")
        else:
            continue
        await page.locator("#dialog form").wait_for()
        assert await page.evaluate(DIALOG) == [], (where, name)
        if opened is not None:
            opened.add(kind)
        yield name
        await page.keyboard.press("Escape")
        await page.locator("#dialog").wait_for(state="hidden")


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_screen_fits_a_phone_and_bars_nobody(windows: Windows, made: World, part: int) -> None:
    """No script is blocked, no other host is asked; axe finds nothing, and clicks open every action's dialog.

    Everything that others can send is a text that looks like markup, and ends with a thousand characters without a
    space. Contrast is judged in light and dark on the first page of each kind, in a run on a quarter of them; dialogs
    of a kind are opened once.
    """
    await spoil(made, is_long=True)
    async with opening(windows, made) as window:
        one = await window(viewport=PHONE, reduced_motion="reduce", axe=True)
        opened = set[str]()
        operations = pages(of_form=False)[part::PARTS]
        judged = quarter(operations)
        for operation in operations:
            for number, path in enumerate(made.paths(operation)):
                is_judged = number == 0 and operation in judged
                await one.open(path)
                assert await one.page.locator(HOSTILE).count() == 0, path
                await one.check_width(path)
                assert await one.page.locator(REPLACED).count() == 0, path
                assert await violations(one.page, colors=is_judged) == [], path
                if is_judged:
                    await check_dark(one, path, [["main"]] if operation is not judged[0] else None)
                async for name in dialogs(one, path, opened):
                    rules = TAGS if len(opened) == 1 else OF_FORMS
                    assert await violations(one.page, rules, [["#dialog"]], colors=len(opened) == 1) == [], (path, name)


async def test_no_word_of_a_list_is_broken_beside_the_navigation(windows: Windows, made: World) -> None:
    """Where a table has the least room for its columns: names of several words, and every list of the console."""
    await made.service.scene.run("UPDATE sellers SET name = $1", "Padaria Aurora Ltda.")
    await made.service.scene.run("UPDATE stores SET name = $1", "Centro, Rua da Consolacao")
    await made.service.scene.run("UPDATE pos SET name = $1", "Mostrador 1")
    async with opening(windows, made) as window:
        one = await window(viewport=TABLET)
        for path in [one.path for one in pages(of_form=False) if "{" not in one.path]:
            await one.open(path)
            assert await one.page.evaluate(BROKEN) == [], path


async def check_dark(window: Window, path: str, parts: list[list[str]] | None) -> None:
    """Fail if a text of these parts of the page has too little contrast in the dark, or if the page is not dark."""
    background = "getComputedStyle(document.body).backgroundColor"
    light = await window.page.evaluate(background)
    await window.page.emulate_media(color_scheme="dark")
    assert await window.page.evaluate(background) != light, path
    assert await violations(window.page, [], parts) == [], f"{path} in the dark"
    await window.page.emulate_media(color_scheme="light")


async def test_forms_without_a_dialog_fit_a_phone_and_bar_nobody(windows: Windows, made: World) -> None:
    """Those that no screen of this world links to: they are pages here. The others are seen in their dialogs."""
    browser = await made.console()
    linked = set[str]()
    for operation in pages(of_form=False):
        for path in made.paths(operation):
            tags = (await browser.open(path)).tags
            linked |= {given["href"].partition("?")[0] for tag, given in tags if tag == "a" and "data-dialog" in given}
    async with opening(windows, made) as window:
        one = await window(viewport=PHONE, reduced_motion="reduce", axe=True)
        alone = [
            one for one in pages(of_form=True) if linked.isdisjoint(path.partition("?")[0] for path in made.paths(one))
        ]
        assert alone
        for number, operation in enumerate(alone):
            path = next(made.paths(operation))
            await one.open(path)
            await one.check_width(path)
            assert await violations(one.page, OF_FORMS if number else TAGS, colors=number == 0) == [], path


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
async def test_every_screen_opens_and_its_actions_open_their_dialogs(windows: Windows, made: World, role: str) -> None:
    """With real clicks; no script is blocked, no other host is asked. A role without a right has no such button."""
    async with opening(windows, made) as window:
        one = await window(role)
        for operation in pages(of_form=False):
            for path in made.paths(operation):
                await one.open(path)
                async for _ in dialogs(one, path):
                    pass


@pytest.mark.slow
async def test_every_screen_fits(windows: Windows, made: World) -> None:
    """No page is wider than a phone, a desktop, or a wide window."""
    async with opening(windows, made) as window:
        one = await window()
        for path in different(made):
            await one.open(path)
            for viewport in (PHONE, DESKTOP, WIDE):
                await one.page.set_viewport_size(viewport)
                await one.check_width(f"{path} at {viewport['width']}")


@pytest.mark.slow
@pytest.mark.parametrize("of_form", ["screens", "forms"])
async def test_texts_of_clients_do_nothing_and_do_not_widen_the_page(
    windows: Windows, made: World, of_form: str
) -> None:
    """No script of them runs, also with a thousand characters without a space, in everything that others can send."""
    await spoil(made, is_long=True)
    faults = []
    async with opening(windows, made) as window:
        one = await window(viewport=PHONE, fresh=True)
        await one.page.add_init_script("window.hostile = () => { document.title = 'hostile'; };")
        for operation in pages(of_form=of_form == "forms"):
            for path in itertools.islice(made.paths(operation), 1 if of_form == "forms" else None):
                await one.open(path)
                assert await one.page.title() != "hostile", path
                assert await one.page.locator(HOSTILE).count() == 0, path
                try:
                    await one.check_width(path)
                except AssertionError as fault:
                    faults.append(str(fault)[:400])
    assert faults == []


@pytest.mark.slow
@pytest.mark.parametrize("viewport", [pytest.param(PHONE, id="phone"), pytest.param(DESKTOP, id="desktop")])
async def test_every_screen_is_accessible(windows: Windows, made: World, viewport: ViewportSize) -> None:
    """Axe finds nothing, in light and dark. Of forms one of each kind, on a desktop in light: they look alike."""
    faults = dict[str, tuple[str, str]]()
    quick = {path for one in forms() for path in made.paths(one)} if viewport is DESKTOP else set()
    async with opening(windows, made) as window:
        one = await window(viewport=viewport, has_touch=viewport is PHONE, reduced_motion="reduce", axe=True)
        for path in different(made):
            await one.open(path)
            for scheme, rules in SCHEMES.items():
                if path in quick and scheme == "dark":
                    continue
                await one.page.emulate_media(color_scheme=scheme)
                faults |= dict.fromkeys(await violations(one.page, rules), (path, scheme))
    assert faults == {}


@pytest.mark.parametrize("which", first_and_others("lists", "all"))
async def test_pages_are_light(windows: Windows, made: World, which: str) -> None:
    """Each with all that it loads, uncached, with fifty orders, and as many accounts as a page lists."""
    for number in range(50):
        await made.service.create(await made.service.terminal(), external_reference=f"sale-{number:04}")
    for number in range(50):
        name, email = f"Shop in the long street {number}", f"shop-{number}@long-street.example"
        application = {"name": name, "redirect_uris": [f"https://long-street.example/callbacks/{number}"]}
        await made.owner.did("POST", "applications", application)
        await made.owner.did("POST", "sellers", {"name": name, "email": email, "country": "BRA", "currency": "BRL"})
        await made.owner.did("POST", "operators", {"name": name, "email": email, "role": "viewer"})
    heavy = []
    async with opening(windows, made) as window:
        one = await window(fresh=True)
        session = await one.page.context.new_cdp_session(one.page)
        await session.send("Network.enable")
        await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        loaded: list[int] = []
        session.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
        lists = [one.path for one in pages(of_form=False) if "{" not in one.path]
        for path in lists if which == "lists" else different(made):
            loaded.clear()
            await one.open(path)
            await one.page.wait_for_load_state("load")
            if sum(loaded) >= BYTES_MAX:
                heavy.append((path, sum(loaded)))
    assert heavy == []
