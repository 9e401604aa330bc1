"""Virtual terminals that a person uses, with the real service: each screen, what ends it, and what orders become."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from manual_scene import Counter, counter
from moved_time import advance
from paydesk.core.clock import MovableClock
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.platform.storage.database import Database
from paydesk_dev.virtual.terminal import receipts, slot
from paydesk_dev.virtual.terminal.actions import Action, ActionName, ActionNotPossible
from paydesk_dev.virtual.terminal.receipts import RECEIPT_CHARACTERS
from skipped_waits import time_passes
from waiting import until, until_found

ALLOWED = {"X-Allow-Cancelable-Status": "at_terminal"}
LONG_SECONDS = 60.0
PRINTING: dict[str, Any] = {"point": {"print_on_terminal": "seller_ticket"}}


@pytest.fixture
async def desk(database: Database, tmp_path: Path, clock: MovableClock) -> AsyncIterator[Counter]:
    """A counter with a terminal that waits for a person."""
    async with counter(database, tmp_path, clock=clock) as desk:
        yield desk


def _config(desk: Counter, point: dict[str, Any] | None = None, **payment_method: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "point": {"terminal_id": desk.terminal.id, "print_on_terminal": "no_ticket", **(point or {})}
    }
    return {"config": {**config, "payment_method": payment_method} if payment_method else config}


async def _refused(desk: Counter, name: ActionName, **fields: Any) -> str:
    """Return the message of the refusal; the screen has not changed."""
    before = desk.screen
    with pytest.raises(ActionNotPossible) as refused:
        await desk.act(name, **fields)
    assert desk.screen == before == refused.value.screen
    return str(refused.value)


# Cards


@pytest.mark.parametrize(
    ("entry", "entry_mode"), [("tap", "contactless"), ("phone", "contactless"), ("swipe", "magnetic_stripe")]
)
async def test_a_card_is_approved_without_a_pin(desk: Counter, entry: ActionName, entry_mode: str) -> None:
    """The order is processed with the card as it was read, and charged once."""
    order_id = await desk.order()
    waiting = desk.screen
    assert waiting.name == "present_card"
    assert waiting.lines[:2] == ("24.90 BRL", "Tap, insert or swipe a card")
    assert waiting.ends_ms is not None
    assert (await desk.act(entry, card="visa_approved")).name == "authorizing"
    shown = await desk.shows("approved")
    assert shown.lines == ("Approved", "24.90 BRL", "Visa credit •••• 5682")
    assert (shown.order_id, shown.status_detail, shown.entry) == (order_id, "accredited", entry)
    payment = await desk.ended(order_id, "processed")
    assert payment["card"] == {"first_digits": "423564", "last_digits": "5682", "entry_mode": entry_mode}
    assert await desk.ledger() == [(payment["id"], 2490, "approved")]


async def test_every_approved_card(desk: Counter) -> None:
    """With its brand and type."""
    approved = {name: card for name, card in CARDS.items() if name.endswith("_approved")}
    assert approved
    for name, card in approved.items():
        order_id = await desk.order()
        await desk.act("tap", card=name)
        payment = await desk.ended(order_id, "processed")
        assert payment["payment_method"] == {"id": card.brand, "type": card.type, "installments": 1}, name
        assert payment["card"]["last_digits"] == card.last_digits, name


async def test_every_declined_card_says_why(desk: Counter) -> None:
    """In words, and that nothing was charged; the next order ends the screen at once."""
    for detail in FAILED_DETAILS:
        order_id = await desk.order()
        await desk.act("tap", card=detail)
        shown = await desk.shows("declined")
        assert shown.lines == ("Declined", receipts.REASONS[detail], "Nothing was charged")
        assert shown.status_detail == detail
        payment = await desk.ended(order_id, "failed")
        assert payment["status_detail"] == detail
    assert [row[2] for row in await desk.ledger()] == ["declined"] * len(FAILED_DETAILS)


async def test_insert_asks_for_a_pin_and_the_card_is_removed(desk: Counter) -> None:
    """The result is sent before the card is removed."""
    order_id = await desk.order()
    assert (await desk.act("insert", card="debvisa_approved")).name == "pin"
    for entered in range(1, 5):
        screen = await desk.act("press", key="7")
        assert (screen.digits, screen.lines[-1]) == (entered, f"{entered} digit{'s' if entered > 1 else ''} entered")
    assert (await desk.act("press", key="clear")).digits == 3
    assert "4 to 6 digits; 3 are entered" in await _refused(desk, "press", key="ok")
    await desk.act("press", key="1")
    assert (await desk.act("press", key="ok")).lines[-1] == "Do not remove the card"
    shown = await desk.shows("remove_card")
    assert shown.lines == ("Approved", "24.90 BRL", "Visa debit •••• 3704", "Remove the card")
    payment = await desk.ended(order_id, "processed")
    assert payment["card"]["entry_mode"] == "chip"
    assert desk.screen.name == "remove_card"
    assert (await desk.act("remove_card")).name == "idle"


async def test_the_next_order_ends_the_removal_of_the_card(desk: Counter) -> None:
    """Polling goes on meanwhile."""
    await desk.order()
    await desk.act("insert", card="insufficient_amount")
    await desk.act("pin", digits="1234")
    shown = await desk.shows("remove_card")
    assert (shown.status_detail, shown.lines[-2:]) == (
        "insufficient_amount",
        ("Nothing was charged", "Remove the card"),
    )
    await desk.order()
    assert (desk.screen.name, desk.screen.entry) == ("present_card", "")


async def test_a_person_is_reminded_of_the_card(desk: Counter) -> None:
    """After a while."""
    await desk.order()
    await desk.act("insert", card="visa_approved")
    await desk.act("pin", digits="1234")
    await desk.until(lambda screen: screen.lines[-1:] == ("Please remove the card now",))
    assert (await desk.act("remove_card")).name == "idle"


async def test_a_pin_has_four_to_six_digits(desk: Counter) -> None:
    """Another one is not taken, and is not repeated in the message."""
    await desk.order()
    await desk.act("insert", card="visa_approved")
    for digits in ("123", "1234567", "12a4", "", "12 34"):
        message = await _refused(desk, "pin", digits=digits)
        assert not digits or digits not in message
    assert (await desk.act("pin", digits="123456")).name == "authorizing"


async def test_a_seventh_digit_is_refused(desk: Counter) -> None:
    """As are the keys that a PIN does not have."""
    await desk.order()
    await desk.act("insert", card="visa_approved")
    assert "key ." in await _refused(desk, "press", key=".")
    for _ in range(6):
        await desk.act("press", key="0")
    assert "at most 6" in await _refused(desk, "press", key="0")


async def test_the_third_wrong_pin_declines(desk: Counter) -> None:
    """The acquirer is not asked; the two before are shown with the tries that are left."""
    order_id = await desk.order()
    await desk.act("insert", card="wrong_pin")
    for left in ("2 tries", "1 try"):
        screen = await desk.act("pin", digits="1234")
        assert (screen.name, screen.lines[1]) == ("pin", f"Wrong PIN, {left} left")
    screen = await desk.act("pin", digits="1234")
    assert (screen.name, screen.status_detail) == ("remove_card", "max_attempts_exceeded")
    payment = await desk.ended(order_id, "failed")
    assert payment["status_detail"] == "max_attempts_exceeded"
    assert await desk.ledger() == []


async def test_a_wallet_is_scanned(desk: Counter) -> None:
    """It is approved without a card."""
    order_id = await desk.order(**_config(desk, default_type="qr"))
    assert "Scan the QR code" in desk.screen.lines[1]
    await desk.act("scan")
    assert (await desk.shows("approved")).lines[-1] == "Wallet"
    payment = await desk.ended(order_id, "processed")
    assert payment["payment_method"] == {"id": "account_money", "type": "qr", "installments": 1}
    assert "card" not in payment


async def test_an_unanswered_authorization_ends_by_the_inquiry(desk: Counter) -> None:
    """Until then the screen warns of another charge."""
    order_id = await desk.order()
    await desk.act("insert", card="no_answer")
    await desk.act("pin", digits="1234")
    shown = await desk.shows("unknown")
    assert "Do not charge again" in shown.lines
    await desk.ended(order_id, "processed")
    shown = await desk.shows("remove_card")
    assert shown.lines[:2] == ("Approved", "24.90 BRL")
    assert [row[1:] for row in await desk.ledger()] == [(2490, "approved")]


async def test_a_card_removed_during_the_inquiry(desk: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning stays, and the outcome ends by itself."""
    monkeypatch.setattr(slot, "OUTCOME_PAUSES_SECONDS", (LONG_SECONDS, *slot.OUTCOME_PAUSES_SECONDS))
    await desk.order()
    await desk.act("insert", card="no_answer")
    await desk.act("pin", digits="1234")
    await desk.shows("unknown")
    assert (await desk.act("remove_card")).name == "unknown"
    advance(LONG_SECONDS)
    await desk.shows("approved")


async def test_an_unknown_card_is_refused(desk: Counter) -> None:
    """With the valid ones; the terminal goes on waiting."""
    await desk.order()
    before = desk.screen
    with pytest.raises(ValueError, match="visa_approved"):
        await desk.act("tap", card="gold")
    assert desk.screen == before


# Tips and installments


async def test_a_tip_is_chosen_and_paid(database: Database, tmp_path: Path) -> None:
    """A percentage that is not offered is refused; a key picks one with its digit."""
    async with counter(database, tmp_path, tips=(5, 10)) as desk:
        order_id = await desk.order()
        assert (desk.screen.name, desk.screen.choices) == ("tip", (0, 5, 10))
        assert "offers 0, 5, 10" in await _refused(desk, "choose", value=7)
        await _refused(desk, "press", key="1")
        await _refused(desk, "tap", card="visa_approved")
        screen = await desk.act("choose", value=10)
        assert (screen.name, screen.lines[1]) == ("present_card", "with a tip of 2.49")
        await desk.act("tap", card="visa_approved")
        assert (await desk.shows("approved")).lines[1] == "27.39 BRL"
        payment = await desk.ended(order_id, "processed")
        assert (payment["paid_amount"], payment["tip_amount"]) == ("27.39", "2.49")
        order_id = await desk.order()
        await desk.act("press", key="0")
        await desk.act("tap", card="visa_approved")
        payment = await desk.ended(order_id, "processed")
        assert payment["paid_amount"] == "24.90"


@pytest.mark.parametrize(("card", "times"), [("visa_approved", 3), ("debvisa_approved", 1)])
async def test_installments_are_chosen(desk: Counter, card: str, times: int) -> None:
    """A debit card has one."""
    order_id = await desk.order(**_config(desk, default_type="credit_card"))
    assert (desk.screen.name, desk.screen.choices) == ("installments", (1, 2, 3, 6, 12))
    await _refused(desk, "choose", value=4)
    assert (await desk.act("press", key="3")).name == "present_card"
    await desk.act("tap", card=card)
    payment = await desk.ended(order_id, "processed")
    assert payment["payment_method"]["installments"] == times


async def test_given_installments_are_not_asked_for(desk: Counter) -> None:
    """They are those of the order."""
    order_id = await desk.order(**_config(desk, default_type="credit_card", default_installments=6))
    assert desk.screen.name == "present_card"
    await desk.act("tap", card="master_approved")
    payment = await desk.ended(order_id, "processed")
    assert payment["payment_method"]["installments"] == 6


# Ends


@pytest.mark.parametrize("at", ["present_card", "pin"])
async def test_a_person_cancels_before_the_permit(desk: Counter, at: str) -> None:
    """By the red key; an inserted card is removed."""
    order_id = await desk.order()
    if at == "pin":
        await desk.act("insert", card="visa_approved")
    screen = await desk.act("press", key="cancel")
    assert screen.name == ("remove_card" if at == "pin" else "canceled")
    assert "Nothing was charged" in screen.lines
    payment = await desk.ended(order_id, "canceled")
    assert payment["status_detail"] == "canceled_on_terminal"
    assert await desk.ledger() == []
    await desk.order()


async def test_cancel_after_the_permit_is_refused(desk: Counter) -> None:
    """The payment goes on."""
    order_id = await desk.order()
    await desk.act("tap", card="slow")
    assert "authorizing does not take press_cancel" in await _refused(desk, "press_cancel")
    await desk.ended(order_id, "processed")


async def test_the_till_cancels(desk: Counter) -> None:
    """The screen says so, and ends by itself."""
    order_id = await desk.order()
    await desk.service.cancel(order_id, headers=ALLOWED)
    shown = await desk.shows("canceled")
    assert shown.lines == ("Canceled by the cashier", "Nothing was charged")
    assert shown.ends_ms is not None
    await _refused(desk, "tap", card="visa_approved")
    await desk.ended(order_id, "canceled")


async def test_an_order_expires_on_the_terminal(desk: Counter, clock: MovableClock) -> None:
    """The screen says so."""
    order_id = await desk.order(expiration_time="PT30S")
    clock.advance(31_000)
    desk.service.database.signals.notify(["clock", "expiry"])
    assert (await desk.shows("expired")).lines[0] == "Too late"
    payment = await desk.ended(order_id, "canceled")
    assert payment["status_detail"] == "expired"


@pytest.mark.parametrize(("card", "ends"), [("visa_approved", "approved"), ("high_risk", "declined")])
async def test_an_outcome_ends_by_itself(desk: Counter, card: str, ends: str) -> None:
    """And the terminal is idle."""
    await desk.order()
    await desk.act("tap", card=card)
    await desk.shows(ends)
    assert (await desk.shows("idle")).lines[::2] == ("Ready", "Waiting for an order")


async def test_a_mode_without_orders_is_shown(desk: Counter) -> None:
    """And the return to one with orders."""
    for mode, name in (("STANDALONE", "standalone"), ("PDV", "idle")):
        body = {"terminals": [{"id": desk.terminal.id, "operating_mode": mode}]}
        assert (await desk.service.request("PATCH", "/terminals/v1/setup", body)).status == 200
        await desk.shows(name)
        await _refused(desk, "tap", card="visa_approved")
        await _refused(desk, "remove_card")


# Two people


async def test_two_taps_at_once_charge_once(desk: Counter) -> None:
    """One is taken, and answered with the permit; the other is refused with the screen that it found."""
    order_id = await desk.order()
    taps = [desk.act("tap", card="visa_approved"), desk.act("tap", card="master_approved")]
    first, second = await asyncio.gather(*taps, return_exceptions=True)
    assert isinstance(second, ActionNotPossible)
    assert not isinstance(first, BaseException)
    assert (first.name, second.screen.name, second.screen.actions) == ("authorizing", "present_card", ())
    payment = await desk.ended(order_id, "processed")
    assert payment["payment_method"]["id"] == "visa"
    assert len(await desk.ledger()) == 1


async def test_an_action_waits_for_the_acknowledgement(desk: Counter) -> None:
    """So that a tap right after the order appears is taken."""
    reply = await desk.service.create(desk.terminal)
    await desk.until(lambda screen: screen.order_id == reply.body["id"])
    assert (await desk.act("tap", card="visa_approved")).name == "authorizing"
    await desk.ended(reply.body["id"], "processed")


# Receipts and messages


async def test_the_receipt_has_two_copies(database: Database, tmp_path: Path) -> None:
    """Its lines fit the paper; only the last one differs."""
    async with counter(database, tmp_path, tips=(10,)) as desk:
        order_id = await desk.order(**_config(desk, PRINTING["point"], default_type="credit_card"))
        await desk.act("choose", value=10)
        await desk.act("choose", value=3)
        await desk.act("insert", card="amex_approved")
        await desk.act("pin", digits="123456")
        payment = await desk.ended(order_id, "processed")
        await desk.until(lambda _: desk.display.paper is not None)
        assert desk.display.paper is not None
        receipt = desk.display.paper.receipt
        assert receipt is not None
        shown = await desk.shows("remove_card")
        assert shown.receipt == receipt
        assert receipt.seller[:-1] == receipt.buyer[:-1]
        assert (receipt.seller[-1].strip(), receipt.buyer[-1].strip()) == ("SELLER'S COPY", "BUYER'S COPY")
        assert max(map(len, receipt.seller)) <= RECEIPT_CHARACTERS
        text = "\n".join(receipt.seller)
        for part in (
            "AMEX CREDIT •••• 1885",
            "Chip",
            payment["authorization_code"],
            payment["reference_id"],
            "24.90",
            "2.49",
            "27.39",
            "Installments                   3",
            "APPROVED",
            "PIN verified",
        ):
            assert part in text


async def test_a_decline_prints_a_slip_and_no_ticket_prints_nothing(desk: Counter) -> None:
    """The slip says that nothing was charged."""
    order_id = await desk.order()
    await desk.act("tap", card="high_risk")
    await desk.ended(order_id, "failed")
    assert (await desk.shows("declined")).receipt is None
    order_id = await desk.order(**_config(desk, PRINTING["point"]))
    await desk.act("tap", card="high_risk")
    await desk.shows("printing")
    assert desk.display.paper is not None
    assert desk.display.paper.number == 1
    assert desk.display.paper.receipt is not None
    slip = [line.strip() for line in desk.display.paper.receipt.buyer]
    assert slip[slip.index("DECLINED") :] == [
        "DECLINED",
        "Refused because fraud is",
        "suspected",
        "Nothing was charged",
        "",
        "BUYER'S COPY",
    ]
    assert (await desk.shows("declined")).receipt == desk.display.paper.receipt


async def test_the_messages_are_listed_without_secrets(desk: Counter) -> None:
    """One line for each message of the protocol, and no digit of card or PIN."""
    order_id = await desk.order()
    await desk.act("insert", card="visa_approved")
    await desk.act("pin", digits="908172")
    await desk.ended(order_id, "processed")
    await desk.until(lambda _: "progress card_removal" in [message.text for message in desk.display.messages])
    listed = [(message.sent, message.text) for message in desk.display.messages]
    permit = next(text for _, text in listed if text.startswith("go:"))
    assert permit[:16] == "go: true, until "
    assert listed == [
        (True, "hello"),
        (False, "welcome, mode PDV"),
        (False, "order"),
        (True, "ack"),
        (True, "progress card_requested"),
        (True, "progress card_presented"),
        (True, "progress pin_requested"),
        (True, "progress pin_entered"),
        (True, "progress authorizing"),
        (False, permit),
        (True, "result approved"),
        (False, "order processed"),
        (True, "progress card_removal"),
    ]


async def test_the_pin_is_nowhere(desk: Counter, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in the journal nor in the logs, the messages or the screen."""
    await desk.order()
    await desk.act("insert", card="slow")
    await desk.act("pin", digits="908172")
    await until_found(desk.ledger)
    (path,) = (tmp_path / "terminals").glob("*.json")
    assert "908172" not in path.read_text()
    assert "908172" not in repr(desk.screen) + repr(list(desk.display.messages))
    written = capfd.readouterr()
    assert "908172" not in written.out + written.err


# A script's terminal


async def test_a_person_takes_over_from_a_script(database: Database, tmp_path: Path) -> None:
    """Their card is used in place of the script's."""
    async with counter(database, tmp_path, "decline:high_risk:20s") as desk:
        order_id = await desk.order()
        await desk.act("tap", card="master_approved")
        payment = await desk.ended(order_id, "processed")
        assert payment["payment_method"]["id"] == "master"
        assert len(await desk.ledger()) == 1


async def test_a_person_takes_over_after_an_order_by_hand(desk: Counter) -> None:
    """The dialogue about the first order is over."""
    first = await desk.order()
    await desk.act("tap", card="visa_approved")
    await desk.ended(first, "processed")
    await desk.act("set_script", script="hold")
    second = await desk.order()
    await desk.act("tap", card="visa_approved")
    await desk.ended(second, "processed")
    assert len(await desk.ledger()) == 2


async def test_two_take_over_at_once(database: Database, tmp_path: Path) -> None:
    """One does."""
    async with counter(database, tmp_path, "hold") as desk:
        order_id = await desk.order()
        tap, cancel = await asyncio.gather(
            desk.act("tap", card="visa_approved"), desk.act("press_cancel"), return_exceptions=True
        )
        assert isinstance(cancel, ActionNotPossible)
        assert not isinstance(tap, BaseException)
        await desk.ended(order_id, "processed")


async def test_a_person_takes_over_too_late(database: Database, tmp_path: Path) -> None:
    """They wait until the terminal has said hello again, and its power is cut meanwhile: nothing is charged."""
    async with counter(database, tmp_path, "hold") as desk:
        order_id = await desk.order()
        used = desk.fleet.find(desk.terminal.id).slot
        assert used is not None
        lock = used.device.lock
        await lock.acquire()
        tap = asyncio.create_task(desk.act("tap", card="visa_approved"))
        await until(lambda: bool(lock._waiters))
        cut = asyncio.create_task(desk.act("power_off"))
        await asyncio.sleep(0)
        lock.release()
        assert (await cut).name == "off"
        with pytest.raises(ActionNotPossible):
            await tap
        await time_passes(0.3)
        assert await desk.ledger() == []
        assert (await desk.service.get(order_id))["status"] == "at_terminal"


@pytest.mark.parametrize("script", ["approve:20s", "hold", "decline:high_risk:20s"])
async def test_a_person_cancels_the_order_of_a_script(database: Database, tmp_path: Path, script: str) -> None:
    """Before the permit."""
    async with counter(database, tmp_path, script) as desk:
        order_id = await desk.order()
        assert (await desk.act("press_cancel")).name == "canceled"
        await desk.ended(order_id, "canceled")
        await desk.act("set_script", script="approve:0s")
        order_id = (await desk.service.create(desk.terminal)).body["id"]
        await desk.ended(order_id, "processed")
        assert len(await desk.ledger()) == 1


async def test_a_script_enters_its_own_pin(database: Database, tmp_path: Path) -> None:
    """A person can only cancel there."""
    async with counter(database, tmp_path, "decline:high_risk:6s") as desk:
        await desk.order()
        await desk.shows("pin")
        await _refused(desk, "pin", digits="1234")
        await _refused(desk, "press", key="1")
        await desk.act("press_cancel")


@pytest.mark.parametrize(
    ("script", "ends"), [("approve:0s", "approved"), ("decline:high_risk:0s", "declined"), ("cancel:0s", "canceled")]
)
async def test_a_script_shows_its_outcome(database: Database, tmp_path: Path, script: str, ends: str) -> None:
    """As a person's card does."""
    async with counter(database, tmp_path, script) as desk:
        await desk.service.create(desk.terminal)
        await desk.shows(ends)


async def test_an_invalid_script_is_refused(desk: Counter) -> None:
    """The terminal keeps its own."""
    with pytest.raises(ValueError, match="manual"):
        await desk.fleet.find(desk.terminal.id).act(Action("set_script", script="dance"))
    await desk.order()
    assert desk.screen.name == "present_card"


async def test_too_many_waiting_actions_are_refused(desk: Counter) -> None:
    """While one order waits for its acknowledgement."""
    await desk.act("lose_acknowledgement")
    reply = await desk.service.create(desk.terminal)
    await desk.shows("amount")
    taps = [desk.act("tap", card="visa_approved") for _ in range(20)]
    results = await asyncio.gather(*taps, return_exceptions=True)
    assert sum("too many" in str(result) for result in results) == 4
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    await desk.ended(reply.body["id"], "processed")
