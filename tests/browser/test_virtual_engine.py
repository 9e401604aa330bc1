"""A person at the page of a virtual terminal with the real engine: every screen, every card, and the webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import pytest_asyncio

from authorize_scene import SET_KIND
from browser.virtual_window import LASTS_SECONDS, QUICK, Window, opening
from browser.windows import Windows
from moved_time import advance
from operator_calls import operator
from page_counter import PageCounter, page_counter
from paydesk.core.clock import MovableClock
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.platform.storage.connect import open_database
from paydesk_dev.virtual.terminal import panel
from paydesk_dev.virtual.terminal.screens import ScreenName
from waiting import HANGS_SECONDS

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACE = replace(
    QUICK,
    backoff_seconds=(LASTS_SECONDS,),
    authorizing_seconds=LASTS_SECONDS,
    reboot_seconds=LASTS_SECONDS,
)
"""What the page must show lasts until time is moved; so does the pause before a lost acknowledgement is repeated."""
INQUIRY_FAILS = "99900.25"
"""The amount of a payment whose answer and first inquiries are lost."""
REACHED: dict[str, set[str]] = {
    "switches": {"off", "rebooting", "idle", "offline", "standalone"},
    "tip and PIN": {"amount", "tip", "pin", "printing", "remove_card"},
    "installments": {"installments", "present_card", "authorizing", "approved"},
    "ends": {"declined", "canceled", "expired"},
    "unknown": {"unknown", "approved"},
}
"""The screens that each part reaches, among others."""
WATCH = """() => {
    const glass = document.querySelector("#glass"), record = () => seen.add(glass.dataset.screen);
    window.seen = new Set();
    new MutationObserver(record).observe(glass, { attributes: true });
    record();
}"""


@pytest.fixture
def clock() -> MovableClock:
    """The machine's clock, which the test moves forward."""
    return MovableClock()


@pytest.fixture
def authorizing_seconds() -> float:
    """How long the terminal shows at least that it authorizes."""
    return PACE.authorizing_seconds


@pytest_asyncio.fixture(loop_scope="session")
async def counter(
    sqlite_url: str,
    tmp_path: Path,
    clock: MovableClock,
    authorizing_seconds: float,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[PageCounter]:
    """A manual terminal with its page, and the demo inbox for webhooks."""
    monkeypatch.setattr(panel, "UNPRINTED_SECONDS", LASTS_SECONDS)
    monkeypatch.setattr(panel, "PRINTING_SECONDS", LASTS_SECONDS)
    database = await open_database(sqlite_url)
    pace = replace(PACE, authorizing_seconds=authorizing_seconds)
    async with page_counter(database, tmp_path, pace=pace, clock=clock) as counter:
        yield counter
    await database.close()


@pytest_asyncio.fixture(loop_scope="session")
async def shop(windows: Windows, counter: PageCounter) -> AsyncIterator[Window]:
    """A window with the page."""
    async with opening(windows, counter) as open_window:
        yield await open_window()


async def test_a_tap_on_the_page_ends_in_a_webhook(shop: Window, counter: PageCounter) -> None:
    """An order of the page, a card, `processed`, and the signed notification in the inbox."""
    owner, inbox = await operator(counter.service), f"{counter.service.base_url}/demo/inbox"
    body = {"client_id": counter.service.scene.application.application_id, "url": inbox, "live_mode": False}
    await owner.did("POST", "subscriptions", body)
    order_id = await shop.order("24.90", "Two coffees")
    await shop.present("visa_approved")
    await shop.authorized()
    await shop.shows("approved")
    await counter.ended(order_id, "processed")
    async with asyncio.timeout(HANGS_SECONDS):
        while True:
            received = (await counter.service.request("GET", "/demo/inbox", token=None)).body["data"]
            if any(one["action"] == "order.processed" for one in received):
                break
            await asyncio.sleep(0.05)
    assert all(one["order_id"] == order_id and one["signature_valid"] for one in received)


@pytest.mark.parametrize("part", REACHED)
async def test_every_screen_is_reached_by_hand(
    shop: Window, counter: PageCounter, clock: MovableClock, part: str
) -> None:
    """By presses on the page, orders and the clock."""
    await shop.page.evaluate(WATCH)
    match part:
        case "switches":
            await _switches(shop, counter)
        case "tip and PIN":
            await _tip_and_pin(shop, counter)
        case "installments":
            await _installments(shop, counter)
        case "ends":
            await _ends(shop, counter, clock)
        case _:
            await _unknown(shop, counter, clock)
    assert REACHED[part] - set(await shop.page.evaluate("[...seen]")) == set()


async def test_no_screen_is_forgotten() -> None:
    """All but the code of a pairing, which these terminals never need."""
    assert set(get_args(ScreenName)) - set().union(*REACHED.values()) == {"pairing"}


async def _switches(shop: Window, counter: PageCounter) -> None:
    """Power, restart, network and mode."""
    await shop.press("Pull the plug")
    await shop.shows("off")
    await shop.press("Plug in")
    await shop.shows("idle")
    await shop.press("Restart now")
    await shop.shows("rebooting")
    advance(LASTS_SECONDS)
    await shop.shows("idle")
    await shop.press("No network for 20 s")
    await shop.shows("offline")
    await shop.press("Reconnect now")
    await shop.shows("idle")
    for mode, screen in (("STANDALONE", "standalone"), ("PDV", "idle")):
        body = {"terminals": [{"id": counter.terminal.id, "operating_mode": mode}]}
        assert (await counter.service.request("PATCH", "/terminals/v1/setup", body)).status == 200
        await shop.shows(screen)


async def _tip_and_pin(shop: Window, counter: PageCounter) -> None:
    """An order whose acknowledgement is lost, with a tip, an inserted card, its PIN and a receipt."""
    await _offer_tips(counter, 5, 10)
    await shop.press("Lose the next acknowledgement")
    await shop.press("New order")
    await shop.press("Create order")
    await shop.shows("amount")
    await shop.heard("no answer")
    advance(LASTS_SECONDS)
    await shop.shows("tip")
    order_id = str(counter.screen.order_id)
    await shop.press("10 %")
    await shop.shows("present_card")
    await shop.present("master_approved", "Insert")
    await shop.shows("pin")
    for digit in "1234":
        await shop.page.locator(f".pad [value='{digit}']").click()
    await shop.press("OK")
    await shop.authorized()
    for screen in ("remove_card", "printing"):
        await shop.shows(screen)
        advance(LASTS_SECONDS)
    await shop.shows("remove_card")
    payment = await counter.ended(order_id, "processed")
    assert (payment["tip_amount"], payment["paid_amount"]) == ("2.49", "27.39")
    await shop.press("Remove the card")
    await shop.shows("idle")
    await _offer_tips(counter)


async def _offer_tips(counter: PageCounter, *percentages: int) -> None:
    values = (
        counter.service.seller_id,
        counter.terminal.id,
        "terminal",
        json.dumps(percentages) if percentages else None,
    )
    await counter.service.database.write(lambda tx: tx.run(SET_KIND, *values))


async def _installments(shop: Window, counter: PageCounter) -> None:
    point = {"terminal_id": counter.terminal.id, "print_on_terminal": "no_ticket"}
    order_id = await counter.order(config={"point": point, "payment_method": {"default_type": "credit_card"}})
    await shop.shows("installments")
    await shop.press("3 installments")
    await shop.shows("present_card")
    await shop.present("visa_approved")
    await shop.authorized()
    await shop.shows("approved")
    assert (await counter.ended(order_id, "processed"))["payment_method"]["installments"] == 3


async def _ends(shop: Window, counter: PageCounter, clock: MovableClock) -> None:
    """How orders end without a payment."""
    order_id = await shop.order()
    await shop.present("insufficient_amount")
    await shop.authorized()
    await shop.shows("declined")
    await counter.ended(order_id, "failed")
    order_id = await shop.order()
    await shop.press("Cancel")
    await shop.shows("canceled")
    await counter.ended(order_id, "canceled")
    order_id = await shop.order()
    _advance(counter, clock, minutes=15)
    await shop.shows("expired")
    await counter.ended(order_id, "canceled")


async def _unknown(shop: Window, counter: PageCounter, clock: MovableClock) -> None:
    """An order whose outcome is not known until it is inquired."""
    order_id = await shop.order(INQUIRY_FAILS)
    await shop.present("visa_approved")
    await shop.authorized()
    await shop.shows("unknown")
    await shop.reads("Do not charge again")
    async with asyncio.timeout(HANGS_SECONDS):
        while (await counter.service.get(order_id))["status"] != "processed":
            _advance(counter, clock, minutes=1)
            await asyncio.sleep(0.1)
    await shop.shows("approved")


def _advance(counter: PageCounter, clock: MovableClock, minutes: int) -> None:
    clock.advance(minutes * 60_000)
    counter.service.database.signals.notify(["clock"])


@pytest.mark.parametrize("authorizing_seconds", [0.1])
@pytest.mark.slow
async def test_every_card_of_the_tray_is_pressed(shop: Window, counter: PageCounter) -> None:
    """Approved ones are charged, declined ones fail with their code as the detail."""
    for name, card in CARDS.items():
        if name in ("slow", "late", "insert_only"):
            continue  # They do not end at a tap.
        order_id = await counter.order()
        await shop.shows("present_card")
        await shop.page.locator(f"#card-{name}").click()
        is_declined = name in FAILED_DETAILS or name == "wrong_pin"
        payment = await counter.ended(order_id, "failed" if is_declined else "processed")
        if is_declined:
            detail = "max_attempts_exceeded" if name == "wrong_pin" else name
            assert payment["status_detail"] == detail, name
            await shop.shows("declined")
        else:
            assert (payment["payment_method"]["id"], payment["card"]["last_digits"]) == (card.brand, card.last_digits)
    order_id = await counter.order()
    await shop.shows("present_card")
    await shop.page.locator("#card-scan").click()
    assert (await counter.ended(order_id, "processed"))["payment_method"]["type"] == "qr"
    for name, screen in (("slow", "authorizing"), ("late", "unknown")):
        order_id = await counter.order()
        await shop.shows("present_card")
        await shop.page.locator(f"#card-{name}").click()
        await shop.shows(screen)
        if name == "slow":
            await counter.ended(order_id, "processed")
