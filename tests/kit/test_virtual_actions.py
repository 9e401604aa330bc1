"""Payments on virtual terminals that a test drives step by step over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import pytest

from manual_scene import outcomes_stay
from operator_calls import operator
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.platform.storage.database import Database
from paydesk_dev.virtual.terminal.actions import ActionName
from service import Service
from skipped_waits import skipped_waits, time_passes
from virtual_scene import TERMINALS, Virtual, create, ended, playing
from waiting import until_found

PIN = "493817"


@pytest.fixture
async def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A running service with virtual terminals, whose outcomes stay on the screen."""
    outcomes_stay(monkeypatch)
    with skipped_waits(database):
        async with playing(database) as service:
            yield service


@pytest.fixture
async def virtual(service: Service) -> Virtual:
    """A terminal that waits for a person or a test."""
    return await create(service)


def _payment(order: dict[str, Any]) -> dict[str, Any]:
    payment: dict[str, Any] = order["transactions"]["payments"][0]
    return payment


async def _ledger(service: Service) -> list[str]:
    """Return the outcomes at the acquirer."""
    rows = await service.database.read(lambda tx: tx.all("SELECT outcome FROM simulator_payments"))
    return [row[0] for row in rows]


async def _asked(virtual: Virtual, amount: str = "24.90", **fields: Any) -> str:
    """Create an order and wait until the terminal asks for a card."""
    order_id = await virtual.order(amount, **fields)
    await virtual.screen("present_card")
    return order_id


@pytest.mark.on_postgres
async def test_a_tap_ends_in_a_webhook(service: Service, virtual: Virtual) -> None:
    """Screen by screen, to the notification in the inbox and the receipt."""
    person, inbox = await operator(service), f"{service.base_url}/demo/inbox"
    body = {"client_id": service.scene.application.application_id, "url": inbox, "live_mode": False}
    await person.did("POST", "subscriptions", body)
    order_id = await _asked(virtual)
    asked = await virtual.screen()
    assert {"tap", "insert", "swipe", "phone", "scan", "press_cancel"} <= set(asked["actions"])
    assert (asked["order_id"], asked["amount"], asked["currency"]) == (order_id, "24.90", "BRL")
    assert "ends_date" in asked
    assert (await virtual.act("tap", card="visa_approved"))["screen"] in ("authorizing", "approved")
    approved = await virtual.screen("approved")
    assert (approved["order_id"], approved["status_detail"], approved["card"]) == (
        order_id,
        "accredited",
        "visa_approved",
    )
    order = await ended(service, order_id, "processed")
    assert _payment(order)["card"] == {"first_digits": "423564", "last_digits": "5682", "entry_mode": "contactless"}
    assert "order.processed" in await _received(service, order_id)


async def _received(service: Service, order_id: str) -> list[str]:
    """Return the actions of the order's notifications in the inbox, once the last is there."""

    async def find() -> list[str]:
        reply = await service.request("GET", "/demo/inbox", token=None)
        found = [one for one in reply.body["data"] if one.get("order_id") == order_id]
        assert all(one["signature_valid"] for one in found)
        actions = [one["action"] for one in found]
        return actions if "order.processed" in actions else []

    return await until_found(find)


async def test_every_card(service: Service) -> None:
    """An approved one is charged, one with the name of a detail is declined with it; the slow one is approved late."""

    async def pay(card: str) -> tuple[str, str, str]:
        virtual = await create(service)
        order_id = await _asked(virtual)
        await virtual.act("insert" if card == "insert_only" else "tap", card=card)
        if card == "insert_only":
            await virtual.act("pin", digits=PIN)
        if card in ("no_answer", "late"):
            unknown = await virtual.screen("unknown")
            # Time is skipped: the acquirer may have been inquired already, or the terminal have heard of it late.
            assert (await service.get(order_id))["status"] in ("at_terminal", "processed")
            return unknown["status_detail"], "", "unknown"
        name = "declined" if card in FAILED_DETAILS or card == "wrong_pin" else "approved"
        screen = await virtual.screen("remove_card" if card == "insert_only" else name, 20)
        order = await ended(service, order_id, "failed" if name == "declined" else "processed")
        if name == "approved":
            assert _payment(order)["payment_method"]["id"] == CARDS[card].brand
        return screen["status_detail"], _payment(order)["status_detail"], name

    outcomes = dict(zip(CARDS, await asyncio.gather(*map(pay, CARDS)), strict=True))
    expected = dict.fromkeys(CARDS, ("accredited", "accredited", "approved"))
    expected |= {detail: (detail, detail, "declined") for detail in FAILED_DETAILS}
    expected["wrong_pin"] = ("max_attempts_exceeded", "max_attempts_exceeded", "declined")
    expected |= dict.fromkeys(("no_answer", "late"), ("check_on_terminal", "", "unknown"))
    assert outcomes == expected


@pytest.mark.parametrize(
    ("action", "mode"), [("tap", "contactless"), ("phone", "contactless"), ("swipe", "magnetic_stripe")]
)
async def test_ways_to_present_a_card(service: Service, virtual: Virtual, action: str, mode: str) -> None:
    """Each without a PIN, with its entry mode."""
    order_id = await _asked(virtual)
    await virtual.act(action, card="debmaster_approved")
    await virtual.screen("approved")
    payment = _payment(await ended(service, order_id, "processed"))
    assert payment["card"]["entry_mode"] == mode
    assert payment["payment_method"]["type"] == "debit_card"


async def test_an_inserted_card_needs_its_pin(service: Service, virtual: Virtual) -> None:
    """By keys or at once; the digits are counted and kept nowhere; the next order ends `remove_card`."""
    order_id = await _asked(virtual)
    assert (await virtual.act("insert", card="master_approved"))["screen"] == "pin"
    for count, key in enumerate("12", 1):
        assert (await virtual.act("press", key=key))["digits"] == count
    assert (await virtual.act("press", key="clear"))["digits"] == 1
    too_short = await virtual.try_to("press", key="ok")
    assert (too_short.status, too_short.code) == (409, "action_not_possible")
    assert (await virtual.screen())["digits"] == 1
    screen = await virtual.act("pin", digits=PIN)
    assert PIN not in json.dumps(screen)
    removal = await virtual.screen("remove_card")
    assert (removal["actions"], removal["status_detail"]) == (["remove_card"], "accredited")
    order = await ended(service, order_id, "processed")
    assert _payment(order)["card"]["entry_mode"] == "chip"
    assert (await virtual.act("remove_card"))["screen"] == "idle"
    assert service.fleet is not None
    assert not any(PIN in message.text for message in service.fleet.find(virtual.id).panel.messages)


async def test_three_wrong_pins(service: Service, virtual: Virtual) -> None:
    """The card is blocked, the acquirer is not asked, and the next order ends the request to remove the card."""
    order_id = await _asked(virtual)
    await virtual.act("insert", card="wrong_pin")
    for left in ("2 tries left", "1 try left"):
        screen = await virtual.act("pin", digits="1234")
        assert screen["screen"] == "pin"
        assert any(left in line for line in screen["lines"])
    await virtual.act("pin", digits="1234")
    assert _payment(await ended(service, order_id, "failed"))["status_detail"] == "max_attempts_exceeded"
    assert (await virtual.screen("remove_card"))["status_detail"] == "max_attempts_exceeded"
    assert await _ledger(service) == []
    await _asked(virtual)


async def test_a_wallet_pays_by_its_code(service: Service, virtual: Virtual) -> None:
    """Without a card."""
    order_id = await _asked(virtual)
    await virtual.act("scan")
    payment = _payment(await ended(service, order_id, "processed"))
    assert payment["payment_method"]["type"] == "qr"
    assert "card" not in payment


async def test_a_tip_is_chosen(service: Service, virtual: Virtual) -> None:
    """One that the terminal offers; another is refused with those that it does."""
    person = await operator(service)
    await person.did("PATCH", f"terminals/{virtual.id}", {"tip_percentages": [10, 15]})
    order_id = await virtual.order("100.00")
    assert (await virtual.screen("tip"))["choices"] == [0, 10, 15]
    refused = await virtual.try_to("choose", value=20)
    assert (refused.status, refused.code) == (409, "action_not_possible")
    assert "0, 10, 15" in refused.details[0]
    assert (await virtual.act("choose", value=10))["screen"] == "present_card"
    await virtual.act("tap", card="visa_approved")
    payment = _payment(await ended(service, order_id, "processed"))
    assert (payment["paid_amount"], payment["tip_amount"]) == ("110.00", "10.00")


async def test_the_buyer_cancels(service: Service, virtual: Virtual) -> None:
    """Nothing is charged, and the next order comes."""
    order_id = await _asked(virtual)
    assert (await virtual.act("press_cancel"))["screen"] == "canceled"
    order = await ended(service, order_id, "canceled")
    assert _payment(order)["status_detail"] == "canceled_on_terminal"
    await _asked(virtual)


async def test_the_application_cancels(service: Service, virtual: Virtual) -> None:
    """The terminal shows it."""
    order_id = await _asked(virtual)
    reply = await service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "at_terminal"})
    assert reply.status == 202
    assert (await virtual.screen("canceled"))["status_detail"] == "canceled_by_api"
    await ended(service, order_id, "canceled")


async def test_the_application_cancels_after_the_permit(service: Service, virtual: Virtual) -> None:
    """Which `permitted` waits for: until then the card alone is read; from then on the cancel has no effect."""
    order_id = await _asked(virtual)
    await virtual.act("go_offline")
    assert (await virtual.act("tap", card="slow"))["screen"] == "present_card"
    path = f"{TERMINALS}/{virtual.id}/screen"
    assert (await service.request("GET", f"{path}?until=permitted")).body["screen"] == "present_card"
    permitted = asyncio.create_task(service.request("GET", f"{path}?wait=55&until=permitted"))
    await virtual.act("go_online")
    shown = (await permitted).body
    assert (shown["screen"], shown["order_id"]) == ("authorizing", order_id)
    reply = await service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "at_terminal"})
    assert reply.status == 202
    await ended(service, order_id, "processed")


async def test_power_is_lost_in_the_middle(service: Service, virtual: Virtual) -> None:
    """Before the card: the order is resumed and paid. While it is authorized: it is charged once."""
    order_id = await _asked(virtual)
    assert (await virtual.act("power_off"))["screen"] == "off"
    refused = await virtual.try_to("tap", card="visa_approved")
    assert (refused.status, refused.code) == (409, "action_not_possible")
    assert "off" in refused.details[0]
    assert (await service.get(order_id))["status"] == "at_terminal"
    await virtual.act("power_on")
    await virtual.screen("present_card")
    await virtual.act("tap", card="slow")
    await until_found(lambda: _ledger(service))
    assert (await virtual.screen())["screen"] == "authorizing", "the acquirer answers after 5 s"
    await virtual.act("power_off")
    await virtual.act("power_on")
    assert _payment(await ended(service, order_id, "processed"))["status_detail"] == "accredited"
    assert await _ledger(service) == ["approved"]


async def test_a_reboot(virtual: Virtual) -> None:
    """It takes some seconds, in which the terminal takes nothing; a second one and a deletion are no harm."""
    screen = await virtual.act("reboot")
    assert (screen["screen"], "ends_date" in screen) == ("rebooting", True)
    for action, fields in (("reboot", {}), ("power_on", {}), ("tap", {"card": "visa_approved"})):
        refused = await virtual.try_to(action, **fields)
        assert (refused.status, refused.code) == (409, "action_not_possible"), action
    await virtual.screen("idle", 15)


async def test_the_network_is_lost(service: Service, virtual: Virtual) -> None:
    """For some seconds, or until it is restored; an order waits that long."""
    assert (await virtual.act("go_offline", seconds=1.5))["screen"] == "offline"
    order_id = await virtual.order()
    await virtual.screen("present_card")
    assert (await service.get(order_id))["status"] == "at_terminal"
    await virtual.act("go_offline")
    await virtual.act("tap", card="visa_approved")
    await time_passes(5)
    assert (await service.get(order_id))["status"] == "at_terminal"
    await virtual.act("go_online")
    await ended(service, order_id, "processed")


async def test_the_acknowledgement_is_lost(service: Service, virtual: Virtual) -> None:
    """The terminal sends it again."""
    await virtual.act("lose_acknowledgement")
    order_id = await virtual.order()
    await virtual.screen("present_card")
    await virtual.act("tap", card="visa_approved")
    await ended(service, order_id, "processed")


async def test_another_script(service: Service, virtual: Virtual) -> None:
    """From the next order on, and in the list."""
    await virtual.act("set_script", script="approve:0s")
    await ended(service, await virtual.order(), "processed")
    listed = await service.request("GET", TERMINALS)
    assert [one["script"] for one in listed.body["data"]] == ["approve:0s"]
    await virtual.act("set_script", script="manual")
    await _asked(virtual)


async def test_two_taps_at_once_charge_once(service: Service, virtual: Virtual) -> None:
    """The second sees the screen after the first."""
    order_id = await _asked(virtual)
    replies = await asyncio.gather(*(virtual.try_to("tap", card="visa_approved") for _ in range(5)))
    assert sorted(reply.status for reply in replies) == [200] + [409] * 4
    await ended(service, order_id, "processed")
    assert await _ledger(service) == ["approved"]


async def test_what_no_order_takes(virtual: Virtual) -> None:
    """Without an order every action about one is refused, and names the screen."""
    for action, fields in (
        ("tap", {"card": "visa_approved"}),
        ("insert", {"card": "visa_approved"}),
        ("scan", {}),
        ("pin", {"digits": "1234"}),
        ("choose", {"value": 0}),
        ("press", {"key": "ok"}),
        ("press_cancel", {}),
        ("remove_card", {}),
        ("power_on", {}),
    ):
        refused = await virtual.try_to(action, **fields)
        assert (refused.status, refused.code) == (409, "action_not_possible"), action
        assert "idle" in refused.details[0]
    assert (await virtual.screen())["screen"] == "idle"


INVALID: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({}, "minimum_properties", "'$'"),
    ({"card": "visa_approved"}, "required_properties", "'$.action' - is required"),
    ({"action": "dance"}, "property_value", "'$.action'"),
    ({"action": ["tap"]}, "property_type", "'$.action'"),
    ({"action": "tap"}, "required_properties", "'$.card' - is required"),
    ({"action": "tap", "card": None}, "property_type", "'$.card' - must not be null"),
    ({"action": "tap", "card": "visa"}, "property_value", "'$.card' - must be one of visa_approved"),
    ({"action": "tap", "card": "x" * 60_000}, "property_value", "'$.card' - must be one of visa_approved"),
    (
        {"action": "tap", "card": "visa_approved", "digits": "1234"},
        "property_value",
        "'$.digits' - is only for",
    ),
    ({"action": "reboot", "seconds": 5}, "property_value", "'$.seconds' - is only for go_offline"),
    ({"action": "scan", "card": "visa_approved"}, "property_value", "'$.card' - is only for tap, insert, swipe"),
    ({"action": "go_online", "noticed": True}, "property_value", "'$.noticed' - is only for go_offline"),
    ({"action": "go_offline", "noticed": "yes"}, "property_type", "'$.noticed'"),
    ({"action": "tap", "card": "visa_approved", "amount": "1"}, "unsupported_properties", "'$.amount'"),
    ({"action": "pin"}, "required_properties", "'$.digits' - is required"),
    ({"action": "pin", "digits": ""}, "property_value", "'$.digits'"),
    ({"action": "pin", "digits": "123"}, "property_value", "'$.digits'"),
    ({"action": "pin", "digits": "1234567"}, "property_value", "'$.digits'"),
    ({"action": "pin", "digits": "1" * 60_000}, "property_value", "'$.digits'"),
    ({"action": "pin", "digits": "１２３４"}, "property_value", "'$.digits'"),  # noqa: RUF001
    ({"action": "pin", "digits": "1234\n"}, "property_value", "'$.digits'"),
    ({"action": "pin", "digits": 1234}, "property_type", "'$.digits'"),
    ({"action": "choose", "value": -1}, "property_value", "'$.value'"),
    ({"action": "choose", "value": 10**19}, "property_value", "'$.value'"),
    ({"action": "choose", "value": 1.5}, "property_type", "'$.value'"),
    ({"action": "choose", "value": True}, "property_type", "'$.value'"),
    ({"action": "press", "key": "enter"}, "property_value", "'$.key'"),
    ({"action": "go_offline", "seconds": -1}, "property_value", "'$.seconds'"),
    ({"action": "go_offline", "seconds": 0}, "property_value", "'$.seconds'"),
    ({"action": "go_offline", "seconds": 1e9}, "property_value", "'$.seconds'"),
    ({"action": "go_offline", "seconds": "5"}, "property_type", "'$.seconds'"),
    ({"action": "set_script", "script": "dance"}, "property_value", "'$.script' - must be one of approve"),
    ({"action": "set_script"}, "required_properties", "'$.script' - is required"),
)


async def test_an_invalid_action_has_no_effect(virtual: Virtual) -> None:
    """The error names the field; digits are never repeated."""
    await _asked(virtual)
    for body, code, detail in INVALID:
        reply = await virtual.service.request("POST", f"{TERMINALS}/{virtual.id}/actions", body, key=None)
        assert (reply.status, reply.code) == (400, code), (str(body)[:60], reply.body)
        assert any(one.startswith(detail) for one in reply.details), (str(body)[:60], reply.details)
        assert len(reply.raw) < 4_000
        assert "1234" not in reply.raw.decode()
    assert (await virtual.screen())["screen"] == "present_card"


async def test_bodies_that_are_no_actions(virtual: Virtual) -> None:
    """NaN and infinity are no JSON, an overflowing number is no number, a body of 1 MB is not read."""
    path = f"{TERMINALS}/{virtual.id}/actions"
    for data, code in (
        (b'{"action": "go_offline", "seconds": NaN}', "json_syntax_error"),
        (b'{"action": "go_offline", "seconds": -Infinity}', "json_syntax_error"),
        (b'{"action": "go_offline", "seconds": 1e999}', "property_value"),
        (b'{"action": "pin", "digits": "' + b"1" * 1_000_000 + b'"}', "payload_too_large"),
        (b'{"action": "tap", "action": "scan"}', "json_syntax_error"),
        (b"[]", "property_type"),
    ):
        reply = await virtual.service.request("POST", path, data=data, key=None)
        assert reply.code == code, data[:60]
    assert (await virtual.screen())["screen"] == "idle"


def test_every_action_is_tested() -> None:
    """A new one needs a test here, or beside it."""
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_virtual_*.py"))
    missing = [name for name in get_args(ActionName) if f'"{name}"' not in source]
    assert missing == []
