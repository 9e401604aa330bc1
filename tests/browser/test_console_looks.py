"""Every screen and form of the console in Chromium, as each role: nothing is blocked, cut off or bars anyone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ViewportSize

from browser.axe import SCHEMES, violations
from browser.console_window import DESKTOP, PHONE, ROLES, WIDE, Window, opening
from console_hostile import spoil
from console_world import World, forms, screens, world
from paydesk.storage.connect import open_database

pytestmark = pytest.mark.asyncio(loop_scope="session")

BYTES_MAX = 150_000
"""All that one page loads, without a cache: its compressed size does not matter, it is sent as it is."""

MOST_DIFFERENT = ("owner", "viewer")
"""The roles with the most and the fewest buttons; the others are slow tests."""


@pytest_asyncio.fixture(loop_scope="session")
async def made(sqlite_url: str, tmp_path: Path) -> AsyncIterator[World]:
    """A service with one of everything."""
    database = await open_database(sqlite_url)
    async with world(database, tmp_path) as made:
        yield made
    await database.close()


def different(made: World) -> list[str]:
    """Return the paths of all screens that are HTML, of forms one of each kind: they differ by what they name."""
    sent, found = {one.path for one in forms()}, list[str]()
    for one in screens():
        if one.media_type.startswith("text/html"):
            found += list(made.paths(one))[: 1 if one.path in sent else None]
    return found


@pytest.mark.parametrize(
    "role", [pytest.param(role, marks=() if role in MOST_DIFFERENT else pytest.mark.slow) for role in ROLES]
)
async def test_every_screen_opens_and_its_actions_open_their_dialogs(chromium: Browser, made: World, role: str) -> None:
    """With real clicks; no script is blocked, no other host is asked. A role without a right has no such button."""
    sent = {one.path for one in forms()}
    async with opening(chromium, made) as window:
        one = await window(role)
        for operation in screens():
            if operation.path in sent or not operation.media_type.startswith("text/html"):
                continue
            for path in made.paths(operation):
                await one.open(path)
                await check_dialogs(one, path)


async def check_dialogs(window: Window, path: str) -> None:
    """Open each action of the page in the dialog, and close it."""
    page = window.page
    links = page.locator("main a[data-dialog]").filter(visible=True)
    names = [(await link.inner_text()).strip() for link in await links.all()]
    for number, name in enumerate(names):
        await links.nth(number).click()
        await page.locator("#dialog form").wait_for()
        assert await page.locator("#dialog h1").inner_text(), (path, name)
        assert await page.evaluate("document.querySelector('#dialog').contains(document.activeElement)"), (path, name)
        assert not await page.evaluate("document.activeElement.matches('button.danger')"), (path, name)
        await page.keyboard.press("Escape")
        await page.locator("#dialog").wait_for(state="hidden")


async def test_every_screen_fits(chromium: Browser, made: World) -> None:
    """No page is wider than a phone, a desktop, or a wide window."""
    async with opening(chromium, made) as window:
        one = await window()
        for path in different(made):
            await one.open(path)
            for viewport in (PHONE, DESKTOP, WIDE):
                await one.page.set_viewport_size(viewport)
                await one.check_width(f"{path} at {viewport['width']}")


@pytest.mark.parametrize(
    "viewport", [pytest.param(PHONE, id="phone", marks=pytest.mark.slow), pytest.param(DESKTOP, id="desktop")]
)
async def test_every_screen_is_accessible(chromium: Browser, made: World, viewport: ViewportSize) -> None:
    """Axe finds nothing, in light and dark. Of forms one of each kind, on a desktop in light: they look alike."""
    faults = dict[str, tuple[str, str]]()
    quick = {path for one in forms() for path in made.paths(one)} if viewport is DESKTOP else set()
    async with opening(chromium, made) as window:
        one = await window(viewport=viewport, has_touch=viewport is PHONE, reduced_motion="reduce")
        for path in different(made):
            await one.open(path)
            for scheme, rules in SCHEMES.items():
                if path in quick and scheme == "dark":
                    continue
                await one.page.emulate_media(color_scheme=scheme)
                faults |= dict.fromkeys(await violations(one.page, rules), (path, scheme))
    assert faults == {}


async def test_texts_of_clients_do_nothing(chromium: Browser, made: World) -> None:
    """No script of them runs, on no screen."""
    await spoil(made)
    async with opening(chromium, made) as window:
        one = await window(viewport=PHONE)
        await one.page.add_init_script("window.hostile = () => { document.title = 'hostile'; };")
        for path in different(made):
            await one.open(path)
            assert await one.page.title() != "hostile", path
            assert await one.page.locator("hostile, [data-hostile]").count() == 0, path


async def test_long_texts_do_not_widen_the_page(chromium: Browser, made: World) -> None:
    """Ten thousand characters without a space, in everything that others can send."""
    await spoil(made, is_long=True)
    async with opening(chromium, made) as window:
        one = await window(viewport=PHONE)
        faults = []
        for path in different(made):
            await one.open(path)
            try:
                await one.check_width(path)
            except AssertionError as fault:
                faults.append(str(fault)[:400])
    assert faults == []


async def test_pages_are_light(chromium: Browser, made: World) -> None:
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
    async with opening(chromium, made) as window:
        one = await window()
        session = await one.page.context.new_cdp_session(one.page)
        await session.send("Network.enable")
        await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        loaded: list[int] = []
        session.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
        for path in different(made):
            loaded.clear()
            await one.open(path)
            await one.page.wait_for_load_state("load")
            if sum(loaded) >= BYTES_MAX:
                heavy.append((path, sum(loaded)))
    assert heavy == []
