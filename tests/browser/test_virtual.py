"""The page of a virtual terminal in Chromium, with its policy on: real presses, keys and drags."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Route, ViewportSize

from browser.virtual_screens import RECEIPT, SCREENS, show
from browser.virtual_window import DESKTOP, LASTS_SECONDS, PHONE, QUICK, Open, Window, opening
from browser.windows import Windows
from manual_scene import OUTCOME_SECONDS
from moved_time import advance
from page_counter import PageCounter, page_counter
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.platform.storage.connect import open_database
from paydesk_dev.virtual.terminal import panel
from paydesk_dev.virtual.terminal.client import Pace

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHORT_PHONE = ViewportSize(width=360, height=640)
LONG_AMOUNT, LONG_NAME = "999999999.99", "Panadería y Confitería La Flor de Montevideo Sociedad Anónima"
NASTY = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


@pytest.fixture
def pace() -> Pace:
    """The terminal's pace."""
    return QUICK


@pytest_asyncio.fixture(loop_scope="session")
async def counter(sqlite_url: str, tmp_path: Path, pace: Pace) -> AsyncIterator[PageCounter]:
    """A manual terminal with its page."""
    database = await open_database(sqlite_url)
    async with page_counter(database, tmp_path, pace=pace) as counter:
        yield counter
    await database.close()


@pytest_asyncio.fixture(loop_scope="session")
async def window(windows: Windows, counter: PageCounter) -> AsyncIterator[Open]:
    """Opens the page in windows; at the end of the test none of them has shown a fault."""
    async with opening(windows, counter) as open_window:
        yield open_window


# Payments. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [replace(QUICK, authorizing_seconds=LASTS_SECONDS)], ids=[""])
async def test_a_tap_on_the_page_pays_the_order(
    window: Open, counter: PageCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an order that the page creates to the outcome, then the receipt of both copies; sounds are on."""
    _let_printing_last(monkeypatch)
    shop = await window()
    await shop.press("Sound")
    await shop.page.get_by_role("button", name="Sound", pressed=True).wait_for()
    order_id = await shop.order("24.90", "Two coffees")
    await shop.present("visa_approved")
    await shop.authorized()
    await shop.shows("approved")
    await shop.reads("Visa credit •••• 5682")
    assert (await counter.ended(order_id, "processed"))["paid_amount"] == "24.90"
    paper = shop.page.locator(".receipt")
    assert (await paper.count(), counter.screen.name) == (0, "approved")
    await _prints(shop)
    await shop.page.get_by_role("button", name="Receipt: show both copies").click()
    await shop.page.get_by_role("heading", name="Copy of the seller").wait_for()
    assert await shop.page.locator(".sheet").count() == 2
    await shop.page.evaluate("window.print = () => { window.isPrinted = true; }")
    await shop.press("Print")
    assert await shop.page.evaluate("window.isPrinted")
    await shop.press("Close")
    advance(OUTCOME_SECONDS)
    await shop.shows("idle")


def _let_printing_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a receipt be printed, and the time before that end, when the test says so."""
    monkeypatch.setattr(panel, "UNPRINTED_SECONDS", LASTS_SECONDS)
    monkeypatch.setattr(panel, "PRINTING_SECONDS", LASTS_SECONDS)


async def _prints(shop: Window) -> None:
    """See the receipt of an approved payment printed."""
    advance(LASTS_SECONDS)
    await shop.shows("printing")
    await shop.page.locator(".receipt").wait_for()
    advance(LASTS_SECONDS)
    await shop.shows("approved")


async def test_an_inserted_card_needs_a_pin_and_stays_until_it_is_removed(window: Open, counter: PageCounter) -> None:
    """The digits are typed on the keypad, in their order however fast they come."""
    shop = await window()
    order_id = await shop.order()
    await shop.present("debmaster_approved", "Insert")
    await shop.shows("pin")
    for digit in "1234":
        await shop.page.locator(f".pad [value='{digit}']").click(no_wait_after=True)
    await shop.page.get_by_role("img", name="4 digits entered").wait_for()
    await shop.press("Clear")
    await shop.page.get_by_role("img", name="4 digits entered").wait_for(state="detached")
    for digit in "56789":
        await shop.page.locator(f".pad [value='{digit}']").click(no_wait_after=True)
    await shop.press("OK")
    await shop.shows("remove_card")
    await counter.ended(order_id, "processed")
    await shop.press("Remove the card")
    await shop.shows("idle")


async def test_other_cards_end_as_they_say(window: Open) -> None:
    """With the reason in words."""
    shop = await window()
    for card, way, screen, text in (
        ("insufficient_amount", "Swipe", "declined", "Not enough money on the card"),
        ("high_risk", "Phone", "declined", "Nothing was charged"),
        ("no_answer", "Tap", "unknown", "Do not charge again"),
    ):
        await shop.order()
        await shop.present(card, way)
        await shop.shows(screen)
        await shop.reads(text)


async def test_the_tray_has_every_card_and_a_wallet(window: Open, counter: PageCounter) -> None:
    """In words, with the code of each."""
    shop = await window()
    shown = await shop.page.locator("#cards small").all_text_contents()
    assert sorted(shown) == sorted([*CARDS, "scan"])
    order_id = await shop.order()
    await shop.page.get_by_role("button", name="QR code of a wallet").click()
    await shop.shows("approved")
    await counter.ended(order_id, "processed")


async def test_the_edge_that_reads_a_dragged_card_is_lit(window: Open) -> None:
    """While the card is over it."""
    shop = await window()
    device, card = [await shop.page.locator(one).bounding_box() for one in ("#device", "#card-visa_approved")]
    assert device is not None
    assert card is not None
    await shop.page.mouse.move(card["x"] + 30, card["y"] + 20)
    await shop.page.mouse.down()
    for edge, x, y in (
        (".glass", device["width"] / 2, 100),
        (".swipe", device["width"], 250),
        (".chipslot", device["width"] / 2, device["height"]),
    ):
        shadow = f"getComputedStyle(document.querySelector('{edge}')).boxShadow"
        before = await shop.page.evaluate(shadow)
        await shop.page.mouse.move(device["x"] + x, device["y"] + y, steps=3)
        assert await shop.page.evaluate(shadow) != before, edge
        await shop.page.mouse.move(card["x"] + 40, card["y"] + 20)
        assert await shop.page.evaluate(shadow) == before, edge
    await shop.page.mouse.up()


def _minutes(text: str) -> int:
    """Return the first time of day in the text, in minutes."""
    found = re.search(r"(\d\d):(\d\d)", text)
    assert found is not None
    return 60 * int(found[1]) + int(found[2])


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP])
async def test_the_page_keeps_its_height_and_has_the_time_of_the_receipts(
    window: Open, counter: PageCounter, viewport: ViewportSize
) -> None:
    """However many messages pass, and wherever the browser is. Its sound can be switched on a phone too."""
    shop = await window(viewport=viewport, timezone_id="Asia/Tokyo")
    await shop.page.get_by_role("button", name="Sound").filter(visible=True).wait_for()
    height = "document.documentElement.scrollHeight"
    before, count = await shop.page.evaluate(height), await shop.page.locator(".messages li").count()
    await shop.order()
    await shop.present("visa_approved")
    await shop.shows("approved")
    await shop.page.locator(".messages li").nth(count + 3).wait_for()
    assert await shop.page.evaluate(height) == before
    receipt = counter.screen.receipt
    assert receipt is not None
    printed, shown = _minutes("".join(receipt.buyer)), _minutes(await shop.page.locator(".bar time").inner_text())
    assert (shown - printed) % (24 * 60) <= 2


@pytest.mark.slow
async def test_a_card_is_dragged_to_the_edge_that_reads_it(
    window: Open, counter: PageCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The top taps, the bottom inserts, the right edge swipes; elsewhere nothing happens."""
    _let_printing_last(monkeypatch)
    shop = await window()
    device = await shop.page.locator("#device").bounding_box()
    card = await shop.page.locator("#card-visa_approved").bounding_box()
    assert device is not None
    assert card is not None
    mouse, x, y = shop.page.mouse, card["x"] + 30, card["y"] + 20
    ends = {
        "tap": (device["x"] + 150, device["y"] - 10, "approved"),
        "swipe": (device["x"] + device["width"], device["y"] + 200, "approved"),
        "insert": (device["x"] + 150, device["y"] + device["height"] + 20, "pin"),
    }
    for way, (to_x, to_y, screen) in ends.items():
        order_id = await shop.order()
        for end in ((x + 300, y + 600), (to_x, to_y)):
            await mouse.move(x, y)
            await mouse.down()
            await mouse.move(x + 40, y, steps=3)
            await mouse.move(*end, steps=5)
            if end == (x + 300, y + 600):
                assert await shop.page.locator(".ghost").count() == 1
            await mouse.up()
            if end != (to_x, to_y):
                assert counter.screen.name == "present_card"
        await shop.shows(screen)
        assert counter.screen.entry == way
        if way != "insert":
            await counter.ended(order_id, "processed")
            await _prints(shop)
            advance(OUTCOME_SECONDS)
            await shop.shows("idle")
    assert await shop.page.locator(".ghost").count() == 0


async def test_the_buttons_of_a_screen_choose(window: Open, counter: PageCounter) -> None:
    """Pressing a choice leaves the focus on the screen, not at the top of the page."""
    shop = await window()
    await shop.press("New order")
    await shop.page.get_by_label("Amount in").fill("10.00")
    await shop.press("Create order")
    await shop.shows("present_card")
    await show(counter, "tip")
    await shop.page.get_by_role("button", name="10 %").focus()
    await show(counter, "present_card")
    await shop.shows("present_card")
    assert await shop.focused() == "glass"


# Faults. --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [replace(QUICK, reboot_seconds=LASTS_SECONDS)], ids=[""])
async def test_the_plug_the_network_and_the_script(window: Open, counter: PageCounter) -> None:
    """Each fault and its end, with the focus kept on the button."""
    shop = await window()
    await shop.press("Pull the plug")
    await shop.shows("off")
    await shop.reads("Switched off")
    assert await shop.focused() == "plug"
    await shop.press("Plug in")
    await shop.shows("idle")
    await shop.press("No network for 20 s")
    await shop.page.locator("#status", has_text="Offline").wait_for()
    await shop.press("Reconnect now")
    await shop.page.locator("#status", has_text="Online").wait_for()
    await shop.press("Restart now")
    await shop.shows("rebooting")
    advance(LASTS_SECONDS)
    await shop.shows("idle")
    await shop.press("Lose the next acknowledgement")
    await shop.page.get_by_label("Played by you or by a script").select_option("cancel")
    await shop.page.locator("#played", has_text="cancel").wait_for()
    assert counter.fleet.find(counter.terminal.id).journal.script == "cancel"


async def test_a_refused_action_says_so_in_the_place_of_the_hint(window: Open, counter: PageCounter) -> None:
    """And to a screen reader."""
    shop = await window()
    await shop.present("visa_approved")
    await shop.page.locator(".hint.refused").wait_for()
    assert "Create one first" in await shop.page.locator("#hint").inner_text()
    assert "Create one first" in str(await shop.page.locator("#say").text_content())
    await shop.order()
    await shop.page.locator(".hint.refused").wait_for(state="detached")
    assert counter.screen.name == "present_card"


async def test_a_refused_order_says_so_in_its_form(window: Open, counter: PageCounter) -> None:
    """Not behind it; the next time the form opens it is gone."""
    shop = await window()
    await shop.press("New order")
    await shop.page.get_by_label("Amount in").fill("0")
    await shop.press("Create order")
    refused = shop.page.locator("#order-refused")
    await refused.get_by_text("the amount must be above zero").wait_for()
    assert "above zero" in str(await shop.page.locator("#say").text_content())
    await shop.page.keyboard.press("Escape")
    await shop.press("New order")
    assert await refused.is_hidden()
    assert counter.screen.name == "idle"
    shop.faults.remove(f"400: {counter.service.base_url}{counter.path}/orders")
    shop.faults.remove("console: Failed to load resource: the server responded with a status of 400 (Bad Request)")


async def test_a_receipt_shows_its_end_until_the_next_order(window: Open, counter: PageCounter) -> None:
    """The outcome is at the end; once the next order has begun, the receipt does not come back."""
    shop = await window()
    await shop.order()
    counter.display.print(receipt=RECEIPT)
    await show(counter, "idle")
    paper = await shop.page.locator(".receipt").bounding_box()
    end = await shop.page.locator(".strip").get_by_text("BUYER'S COPY").bounding_box()
    assert paper is not None
    assert end is not None
    assert end["y"] + end["height"] <= paper["y"] + paper["height"]
    counter.display.show(SCREENS["present_card"])
    await show(counter, "canceled")
    await shop.shows("canceled")
    assert await shop.page.locator(".receipt").count() == 0


# Live. ----------------------------------------------------------------------------------------------------------------


async def test_a_hidden_tab_has_no_stream_and_comes_back(window: Open, counter: PageCounter) -> None:
    """It costs nothing while it is hidden, then shows what it missed."""
    shop = await window()
    await counter.until_streams(1)
    await shop.page.evaluate(VISIBILITY, True)
    await counter.until_streams(0)
    await counter.act("power_off")
    await shop.page.evaluate(VISIBILITY, False)
    await shop.shows("off")
    await counter.until_streams(1)
    # One that is hidden while it connects closes its stream too.
    await shop.page.evaluate(VISIBILITY, True)
    await counter.until_streams(0)
    asked, let_through = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.set()
        await let_through.wait()
        await route.continue_()

    await shop.page.route("**/events?**", hold)
    await shop.page.evaluate(VISIBILITY, False)
    await asked.wait()
    await shop.page.evaluate(VISIBILITY, True)
    async with shop.page.expect_response("**/events?**"):
        let_through.set()
    await counter.until_streams(0)
    await shop.page.evaluate(VISIBILITY, False)
    await counter.until_streams(1)


VISIBILITY = """hidden => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


async def test_a_lost_stream_is_said_and_found_again(window: Open, counter: PageCounter) -> None:
    """After five seconds: since when the page is not live."""
    shop = await window(fresh=True)
    await shop.page.clock.install()
    await shop.page.context.set_offline(True)
    await shop.page.evaluate("document.querySelector('#stream')._htmx.sse.reader.cancel()")
    await shop.page.clock.run_for(5000)
    await shop.page.get_by_text("Not live since").wait_for()
    await counter.act("power_off")
    await shop.page.context.set_offline(False)
    await shop.shows("off")
    await shop.page.get_by_text("Not live since").wait_for(state="hidden")
    # Chromium reports each attempt without network.
    assert all("ERR_INTERNET_DISCONNECTED" in fault or "htmx:sse:error" in fault for fault in shop.faults), shop.faults
    shop.faults.clear()


async def test_without_scripts_every_form_works(window: Open, counter: PageCounter) -> None:
    """Only not live: the page reloads while a screen ends by itself."""
    shop = await window(java_script_enabled=False)
    await shop.press("New order")
    await shop.press("Create order")
    await counter.shows("present_card")
    await shop.page.goto(counter.address)
    await shop.page.locator("#card-insufficient_amount").click()
    await shop.shows("declined")
    await shop.reads("Not enough money on the card")
    advance(OUTCOME_SECONDS)
    await shop.shows("idle")
    await shop.page.locator("#card-visa_approved").click()
    await shop.reads("The terminal waits for an order")
    await shop.press("Pull the plug")
    await shop.reads("Switched off")


# Keys. ----------------------------------------------------------------------------------------------------------------


async def test_keys_alone(window: Open, counter: PageCounter) -> None:
    """Choose a card, insert it, type a PIN, correct it; ? opens the list of keys."""
    shop = await window()
    order_id = await shop.order()
    keyboard = shop.page.keyboard
    await shop.page.evaluate("document.activeElement.blur()")
    await keyboard.press("ArrowDown")
    await keyboard.press("ArrowDown")
    await keyboard.press("ArrowUp")
    assert await shop.page.locator("#cards [aria-current]").get_attribute("value") == "master_approved"
    await keyboard.press("i")
    await shop.shows("pin")
    await keyboard.press("9")
    await shop.page.get_by_role("img", name="1 digit entered").wait_for()
    await keyboard.press("Backspace")
    await shop.page.get_by_role("img", name="0 digits entered").wait_for()
    await keyboard.type("1234")
    await shop.page.get_by_role("img", name="4 digits entered").wait_for()
    await keyboard.press("Enter")
    await shop.shows("remove_card")
    await counter.ended(order_id, "processed")
    await keyboard.press("?")
    assert await shop.page.locator("#keys").get_attribute("open") is not None
    await shop.press("Remove the card")
    await shop.shows("idle")
    await shop.order()
    await shop.page.evaluate("document.activeElement.blur()")
    await keyboard.press("Escape")
    await shop.shows("canceled")


async def test_keys_can_be_switched_off_and_stay_off(window: Open, counter: PageCounter) -> None:
    """WCAG 2.1.4: and they do nothing in a field or with a modifier."""
    shop = await window()
    await shop.order()
    keyboard = shop.page.keyboard
    await shop.press("New order")
    await shop.page.get_by_label("Description").fill("")
    await keyboard.type("tips 12")
    assert await shop.page.get_by_label("Description").input_value() == "tips 12"
    await keyboard.press("Escape")
    await keyboard.press("Control+i")
    await shop.page.get_by_text("Keyboard", exact=True).click()
    await shop.page.get_by_label("Use these keys").uncheck()
    await keyboard.press("t")
    await shop.page.reload()
    await shop.page.get_by_text("Keyboard", exact=True).click()
    assert not await shop.page.get_by_label("Use these keys").is_checked()
    await keyboard.press("t")
    # What the key would have sent comes before this.
    await shop.press("Pull the plug")
    await shop.shows("off")
    assert not await counter.ledger()


async def test_every_control_is_reached_with_tab(window: Open) -> None:
    """In the order of the page, with a visible focus of 3 px."""
    shop = await window()
    reached = []
    for _ in range(60):
        await shop.page.keyboard.press("Tab")
        focus = await shop.page.evaluate(FOCUS)
        if focus["tag"] != "BODY":
            assert focus["width"] >= 3, focus
            reached.append(focus["id"])
    for name in (
        "open-order",
        "card-visa_approved",
        "card-scan",
        "key-1",
        "key-ok",
        "plug",
        "script-choice",
        "messages",
    ):
        assert name in reached, name


FOCUS = """() => {
    const it = document.activeElement, shown = it.type === 'radio' ? it.closest('label') : it;
    const width = parseFloat(getComputedStyle(shown).outlineWidth);
    return {id: it.id, tag: it.tagName, text: it.textContent.trim().slice(0, 20), width};
}"""


# Looks. ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE, SHORT_PHONE], ids=["desktop", "phone", "short phone"])
@pytest.mark.slow
async def test_the_longest_texts_fit(window: Open, counter: PageCounter, viewport: ViewportSize) -> None:
    """A large amount stays on one line, and long names cut nothing off."""
    await counter.service.scene.run("UPDATE pos SET name = $1", LONG_NAME)
    shop = await window(viewport=viewport, has_touch=viewport is not DESKTOP)
    for name, screen in SCREENS.items():
        lines = [line.replace("24.90", LONG_AMOUNT).replace("Aurora Bakery", LONG_NAME) for line in screen.lines]
        amount = screen.amount and LONG_AMOUNT
        if screen.receipt is not None:
            counter.display.print(receipt=screen.receipt)
        counter.display.show(msgspec.structs.replace(screen, lines=tuple(lines), amount=amount))
        await shop.shows(name)
        sizes = await shop.page.evaluate(SIZES)
        assert sizes["wider"] <= 0, name
        assert sizes["cut"] <= 0, name
        assert sizes["overlaps"] == [], name
        assert sizes["small"] == [], name
        if await shop.page.locator(".sum").count() and name != "pairing":
            line = await shop.page.locator(".sum").bounding_box()
            assert line is not None
            assert line["height"] < 45, name


SIZES = """() => {
    const root = document.documentElement, screen = document.querySelector('.scr'), phone = innerWidth < 768;
    const box = name => document.querySelector(name).getBoundingClientRect();
    const overlaps = [];
    if (box('.hint').height && phone && box('.hint').bottom > box('.tray').top + 1) overlaps.push('hint, tray');
    if (phone && box('.pad').bottom > box('.tray').top + 1) overlaps.push('pad, tray');
    if (!phone && getComputedStyle(document.querySelector('.hint')).visibility === 'visible'
        && box('.hint').bottom > box('.device').top) overlaps.push('hint, device');
    const small = [...document.querySelectorAll('button, summary, select, .how label')]
        .filter(it => it.checkVisibility({visibilityProperty: true}))
        .filter(it => it.getBoundingClientRect().height < (phone ? 43.9 : 24))
        .map(it => it.id || it.textContent.trim());
    return {
        wider: root.scrollWidth - innerWidth, taller: root.scrollHeight - innerHeight,
        cut: Math.max(screen.scrollHeight - screen.clientHeight, screen.scrollWidth - screen.clientWidth),
        overlaps, small,
    };
}"""


async def test_the_page_at_200_percent_and_in_a_small_window(window: Open) -> None:
    """Text twice as large, and a window of 320 px, cut nothing off."""
    shop = await window()
    await shop.page.set_viewport_size({"width": 640, "height": 400})
    assert await shop.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await shop.page.set_viewport_size({"width": 320, "height": 640})
    assert await shop.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await shop.page.set_viewport_size({"width": 640, "height": 800})
    await shop.page.evaluate("document.documentElement.style.setProperty('font-size', '200%')")
    assert await shop.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


async def test_content_of_applications_runs_no_script(window: Open, counter: PageCounter) -> None:
    """Descriptions, names and printed text are shown as they are."""
    await counter.service.scene.run("UPDATE pos SET name = $1", NASTY)
    await counter.service.scene.run("UPDATE sellers SET name = $1", NASTY)
    shop = await window()
    counter.display.exchanged(NASTY, sent=True)
    counter.display.print(text=NASTY)
    await shop.order("1.00", NASTY)
    await shop.present("visa_approved")
    await shop.shows("approved")
    counter.display.print(receipt=RECEIPT)
    await shop.reads("<script>alert(1)</script>")
    assert await shop.page.locator("main script, main img, #copies img").count() == 0
