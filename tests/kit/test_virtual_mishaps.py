"""Mishaps at a virtual terminal, over HTTP: the card out too early, a bad chip, no paper, a terminal out of sight."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authorize_scene import is_consistent, service_terminal
from manual_scene import QUICK, Counter, outcomes_stay
from operator_calls import operator
from paydesk.core.faults import parse
from paydesk.engine.device.gateway import Gateway
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.active import Faults
from paydesk_dev.virtual.fleet import Fleet
from print_scene import print_on, status_of
from service import Service, running
from skipped_waits import skipped_waits
from virtual_scene import Virtual, create, ended, playing
from waiting import until_found

PIN = "1234"
LEDGER = "SELECT outcome, reversed_ms IS NOT NULL FROM simulator_payments"


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


async def _inserted(virtual: Virtual, card: str = "visa_approved", **fields: Any) -> str:
    """Create an order and insert a card for it."""
    order_id = await virtual.order(**fields)
    await virtual.screen("present_card")
    assert "remove_card" in (await virtual.act("insert", card=card))["actions"]
    return order_id


async def _authorizing(service: Service, virtual: Virtual, card: str = "visa_approved", **fields: Any) -> str:
    """Insert a card and type its PIN, take the card out while the acquirer is asked, and let it answer."""
    faults = service.shared.objects[Faults]
    held = faults.add(parse(f"acquirer payment slow terminal={virtual.id}"), 0)
    order_id = await _inserted(virtual, card, **fields)
    await virtual.act("pin", digits=PIN)
    shown = await virtual.screen("authorizing")
    assert (shown["permitted"], shown["actions"]) == (True, ["remove_card"])
    shown = await virtual.act("remove_card")
    assert shown["lines"][1:] == ["Authorizing", "The card is out"]
    faults.remove(held)
    return order_id


async def _detail(service: Service, order_id: str, status: str) -> str:
    order = await ended(service, order_id, status)
    detail: str = order["transactions"]["payments"][0]["status_detail"]
    return detail


async def _ledger(service: Service) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await service.database.read(lambda tx: tx.all(LEDGER))]


async def _messages(virtual: Virtual) -> list[str]:
    assert virtual.service.fleet is not None
    return [message.text for message in virtual.service.fleet.find(virtual.id).panel.messages]


# The card


async def test_card_out_at_the_pin_cancels(service: Service, virtual: Virtual) -> None:
    """As the red key does, and no card is left to remove; the next order comes."""
    order_id = await _inserted(virtual)
    shown = await virtual.act("remove_card")
    assert (shown["screen"], shown["status_detail"]) == ("canceled", "canceled_on_terminal")
    assert await _detail(service, order_id, "canceled") == "canceled_on_terminal"
    assert await _ledger(service) == []
    await _inserted(virtual)
    await is_consistent(service)


async def test_card_out_before_the_permit_is_requested_cancels(service: Service, virtual: Virtual) -> None:
    """The network was down meanwhile: no permit was requested, so the terminal reports a cancel."""
    order_id = await _inserted(virtual)
    await virtual.act("go_offline")
    await virtual.act("pin", digits=PIN)
    shown = await virtual.act("remove_card")
    assert shown["lines"][1:] == ["PIN entered", "The card is out"]
    assert (shown["actions"], shown["permitted"]) == ([], False)
    await virtual.act("go_online")
    assert await _detail(service, order_id, "canceled") == "canceled_on_terminal"
    assert (await virtual.screen("canceled"))["order_id"] == order_id
    assert "progress authorizing" not in await _messages(virtual)
    assert await _ledger(service) == []
    await is_consistent(service)


async def test_card_out_after_the_permit_undoes_the_payment(service: Service, virtual: Virtual) -> None:
    """The acquirer approves and reverses it, and the order has failed; the terminal is free again."""
    order_id = await _authorizing(service, virtual)
    assert await _detail(service, order_id, "failed") == "processing_error"
    assert (await virtual.screen("declined"))["status_detail"] == "processing_error"
    assert await _ledger(service) == [("approved", True)]
    await _inserted(virtual)
    await is_consistent(service)


async def test_card_out_of_a_declined_payment_changes_nothing(service: Service, virtual: Virtual) -> None:
    """Its detail stays the acquirer's."""
    order_id = await _authorizing(service, virtual, "insufficient_amount")
    assert await _detail(service, order_id, "failed") == "insufficient_amount"
    assert await _ledger(service) == [("declined", False)]


async def test_card_out_and_a_failed_reversal_end_by_the_inquiry(service: Service, virtual: Virtual) -> None:
    """The terminal reports an unknown outcome then, and the service takes the acquirer's word."""
    order_id = await _authorizing(service, virtual, amount="99900.42")
    assert await _detail(service, order_id, "processed") == "accredited"
    assert await _ledger(service) == [("approved", False)]
    assert "result unknown" in await _messages(virtual)
    await is_consistent(service)


async def test_power_cut_during_the_reversal_reports_what_the_acquirer_has(service: Service, virtual: Virtual) -> None:
    """The journal has no approval any longer that a restart would report."""
    faults = service.shared.objects[Faults]
    held = faults.add(parse(f"terminal acquirer_reverse slow terminal={virtual.id}"), 0)
    order_id = await _authorizing(service, virtual)
    await until_found(lambda: _settled(service, is_reversed=True))
    await virtual.act("power_off")
    faults.remove(held)
    await virtual.act("power_on")
    assert await _detail(service, order_id, "failed") == "processing_error"
    assert await _ledger(service) == [("approved", True)]
    await is_consistent(service)


@pytest.mark.parametrize(("confirmations", "is_lost"), [(True, False), (False, False), (False, True)])
async def test_card_out_of_a_terminal_of_kind_service(
    database: Database, tmp_path: Path, *, confirmations: bool, is_lost: bool
) -> None:
    """A decline within the third message undoes a provisional approval; a final one stands, also if it is unknown."""
    settings = Settings(simulator_confirmations=confirmations)
    with skipped_waits(database):
        async with running(database, development=True, settings=settings) as service:
            terminal, fleet = await service_terminal(service), Fleet(service.base_url, tmp_path / "fleet", QUICK)
            await fleet.start()
            await fleet.add(terminal.id, terminal.token, "manual", kind="service")
            desk = Counter(service, fleet, terminal)
            order_id = await desk.order()
            faults = service.shared.objects[Faults]
            held = faults.add(parse(f"acquirer payment slow terminal={terminal.id}"), 0)
            if is_lost:
                faults.add(parse(f"acquirer payment answer_lost times=0 terminal={terminal.id}"), 0)
            await desk.act("insert", card="visa_approved")
            await desk.act("pin", digits=PIN)
            await desk.shows("authorizing")
            await desk.act("remove_card")
            faults.remove(held)
            payment = await desk.ended(order_id, "failed" if confirmations else "processed")
            assert payment["status_detail"] == ("processing_error" if confirmations else "accredited")
            await until_found(lambda: _settled(service, is_reversed=confirmations))
            assert ("result declined" in [message.text for message in desk.display.messages]) == confirmations
            await fleet.stop()
            await is_consistent(service)


async def _settled(service: Service, *, is_reversed: bool) -> bool:
    return await _ledger(service) == [("approved", is_reversed)]


async def test_an_unreadable_chip_is_swiped(service: Service, virtual: Virtual) -> None:
    """The insert asks for a swipe, with the tip that was chosen; no card stays in the terminal."""
    person = await operator(service)
    await person.did("PATCH", f"terminals/{virtual.id}", {"tip_percentages": [10]})
    order_id = await virtual.order("100.00")
    await virtual.screen("tip")
    await virtual.act("choose", value=10)
    shown = await virtual.act("insert", card="chip_unreadable")
    assert shown["screen"] == "present_card"
    assert shown["lines"][1:3] == ["with a tip of 10.00", "The chip cannot be read: swipe the card"]
    assert "remove_card" not in shown["actions"]
    await virtual.act("swipe", card="chip_unreadable")
    await virtual.screen("approved")
    (payment,) = (await ended(service, order_id, "processed"))["transactions"]["payments"]
    assert (payment["card"]["entry_mode"], payment["paid_amount"]) == ("magnetic_stripe", "110.00")


@pytest.mark.parametrize("way", ["tap", "phone"])
async def test_a_card_that_must_be_inserted(service: Service, virtual: Virtual, way: str) -> None:
    """A tap asks for it."""
    order_id = await virtual.order()
    await virtual.screen("present_card")
    shown = await virtual.act(way, card="insert_only")
    assert (shown["screen"], shown["lines"][1]) == ("present_card", "Insert the card")
    await virtual.act("insert", card="insert_only")
    await virtual.act("pin", digits=PIN)
    (payment,) = (await ended(service, order_id, "processed"))["transactions"]["payments"]
    assert payment["card"]["entry_mode"] == "chip"


# The paper


async def test_without_paper_a_print_action_fails(service: Service, virtual: Virtual) -> None:
    """The screen says so; with paper the next one is printed, the failed one is not."""
    assert "No paper" in (await virtual.act("take_paper"))["lines"]
    refused = await virtual.try_to("take_paper")
    assert (refused.status, refused.code) == (409, "action_not_possible")
    assert "the terminal has no paper" in refused.details[0]
    action_id = (await print_on(service, virtual.terminal)).body["id"]
    await until_found(lambda: _has_failed(service, action_id))
    await virtual.screen("idle")
    assert "No paper" not in (await virtual.act("load_paper"))["lines"]
    refused = await virtual.try_to("load_paper")
    assert "there is paper in the terminal" in refused.details[0]
    assert service.fleet is not None
    assert service.fleet.find(virtual.id).panel.paper is None


async def _has_failed(service: Service, action_id: str) -> bool:
    return await status_of(service, action_id) == "failed"


async def test_without_paper_a_payment_stands(service: Service, virtual: Virtual) -> None:
    """Its receipt is not printed, not even later; the roll survives a restart."""
    await virtual.act("take_paper")
    await virtual.act("reboot")
    assert "No paper" in (await virtual.screen("idle", 20))["lines"]
    order_id = await virtual.order(config=_with_receipt(virtual))
    await virtual.screen("present_card")
    await virtual.act("tap", card="visa_approved")
    shown = await virtual.screen("approved")
    assert shown["lines"][-1] == "No paper: no receipt"
    assert "receipt" not in shown
    await ended(service, order_id, "processed")
    await virtual.act("load_paper")
    assert not any("printing" in text for text in await _messages(virtual))
    assert service.fleet is not None
    assert service.fleet.find(virtual.id).panel.paper is None


def _with_receipt(virtual: Virtual) -> dict[str, Any]:
    return {"point": {"terminal_id": virtual.id, "print_on_terminal": "seller_ticket"}}


async def test_paper_is_there_after_a_reset(service: Service, virtual: Virtual) -> None:
    """A reset lets terminals begin anew."""
    await virtual.act("take_paper")
    assert service.fleet is not None
    async with service.fleet.reset():
        pass
    assert "No paper" not in (await virtual.screen("idle"))["lines"]


# Out of sight


@pytest.mark.on_postgres
async def test_offline_and_noticed_at_once(database: Database) -> None:
    """With an open poll or an order, on each try; it is online again with its first poll."""
    async with playing(database) as service:
        virtual, sightings = await create(service), service.shared.objects[Gateway].sightings

        async def presence() -> str:
            reply = await service.request("GET", "/terminals/v1/list")
            shown: str = next(one["presence"] for one in reply.body["data"]["terminals"] if one["id"] == virtual.id)
            return shown

        async def is_online() -> bool:
            return await presence() == "online"

        await until_found(is_online)
        for _ in range(2):
            await virtual.act("go_offline", noticed=True)
            assert await presence() == "offline"
            await sightings.write(service.database, is_last=True)
            assert await presence() == "offline", "no later write makes it online again"
            await virtual.act("go_online")
            await until_found(is_online)
        order_id = await virtual.order()
        await virtual.screen("present_card")
        await virtual.act("go_offline", noticed=True)
        assert await presence() == "offline"
        assert (await service.get(order_id))["status"] == "at_terminal"
