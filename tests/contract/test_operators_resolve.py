"""An operator sets the outcome of an order whose outcome is unknown: preconditions and later results."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from conftest import short_and_long
from jobs_scene import SAID, UNDONE, FakeAcquirer
from operator_calls import Operator, audited, operator
from paydesk.core.clock import MovableClock
from paydesk.engine.payments.acquirer import NotFound, Unknown
from paydesk.platform.storage.database import Database
from plain_rows import run
from resolving_scene import REASON, THREE_MINUTES_MS, advancing, scene, typed, unknown, until
from service import Device, Reply, Service, approved
from tables import each

ROUNDS_MAX = 600


@pytest.mark.on_postgres
async def test_resolve_as_declined_fails_the_order(database: Database, clock: MovableClock) -> None:
    """The terminal is free, and the audit trail has the operator and the reason."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)
        clock.advance(THREE_MINUTES_MS)
        answer = await person.did("POST", f"orders/{order_id}/resolve", {"outcome": "declined", "reason": REASON})
        payment = answer["transactions"]["payments"][0]
        assert (answer["status"], payment["status_detail"], payment["origin"]) == (
            "failed",
            "processing_error",
            "service",
        )
        assert answer == await service.get(order_id)
        (line,) = await audited(service)
        assert (line.operator_id, line.action, line.subject) == (person.operator_id, "orders.resolve", order_id)
        assert line.before == {"status": "at_terminal", "status_detail": "check_on_terminal", "version": 3}
        assert line.after == {"status": "failed", "status_detail": "failed", "version": 4, "outcome": "declined",
                              "reason": REASON}  # fmt: skip
        assert (await service.create(device.terminal)).status == 201
        inquiry = await until(service, order_id, status="ended")
        assert inquiry["outcome"] == "operator"


@pytest.mark.on_postgres
async def test_resolve_as_approved_processes_the_order(database: Database, clock: MovableClock) -> None:
    """The first late result of the terminal completes the payment; a second one is a late approval."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)
        clock.advance(THREE_MINUTES_MS)
        answer = await person.did("POST", f"orders/{order_id}/resolve", {"outcome": "approved", "reason": REASON})
        assert (answer["status"], answer["transactions"]["payments"][0]["paid_amount"]) == ("processed", "24.90")
        late = approved()
        reply = await device.result(order_id[3:], **late)
        assert (reply.status, reply.code, reply.body["recorded"]) == (409, "order_finished", True)
        payment = (await service.get(order_id))["transactions"]["payments"][0]
        assert payment["reference_id"] == late["reference_id"]
        assert (await person.did("GET", "reversals"))["data"] == []
        assert (await device.result(order_id[3:], **approved())).status == 409
        assert [one["status"] for one in (await person.did("GET", "reversals"))["data"]] == ["pending"]


KNOWN = {
    "reference_id": "115019989861",
    "authorization_code": "831000",
    "payment_method_id": "visa",
    "payment_method_type": "credit_card",
    "first_digits": "423564",
    "last_digits": "5682",
}
"""What an operator may know of an approval."""


@pytest.mark.on_postgres
async def test_resolve_has_what_the_operator_knows_of_the_payment(database: Database, clock: MovableClock) -> None:
    """The order and the audit trail have it; a late result with the same reference is that payment, not another."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)
        clock.advance(THREE_MINUTES_MS)
        body = {"outcome": "approved", "reason": REASON, **KNOWN}
        answer = await person.did("POST", f"orders/{order_id}/resolve", body)
        payment = answer["transactions"]["payments"][0]
        assert payment["payment_method"] == {"id": "visa", "type": "credit_card", "installments": 1}
        assert payment["card"] == {"first_digits": "423564", "last_digits": "5682"}
        assert (payment["reference_id"], payment["authorization_code"]) == ("115019989861", "831000")
        (line,) = await audited(service)
        assert KNOWN.items() <= line.after.items()
        late = await device.result(order_id[3:], **{**approved(), "reference_id": "115019989861"})
        assert (late.status, late.body["recorded"]) == (409, True)
        assert (await person.did("GET", "reversals"))["data"] == []


async def test_resolve_with_the_reference_of_another_order_returns_409(database: Database, clock: MovableClock) -> None:
    """Nothing changes: the approval is perhaps that other payment."""
    async with scene(database, clock, None) as (service, device, person):
        first, second = (
            await unknown(service, device),
            await unknown(service, await service.device(await service.terminal())),
        )
        clock.advance(THREE_MINUTES_MS)
        body = {"outcome": "approved", "reason": REASON, "reference_id": "115019989861"}
        await person.did("POST", f"orders/{first}/resolve", body)
        reply = await person.ask("POST", f"orders/{second}/resolve", body)
        assert (reply.status, reply.details) == (409, ["115019989861 is the reference of another order's payment"])
        assert (await service.get(second))["version"] == 3
        await person.did("POST", f"orders/{second}/resolve", {**body, "reference_id": "115019989862"})


@each(
    "changes",
    [
        {"outcome": "declined"},
        {"reference_id": "4235647728025682"},
        {"reference_id": "4235-6477-2802-5682"},
        {"reference_id": "a b"},
        {"authorization_code": "4235647728025682"},
        {"authorization_code": "83 10"},
        {"first_digits": "4235647728025682"},
        {"first_digits": "42356"},
        {"last_digits": "56821"},
        {"last_digits": None},
        {"payment_method_id": "Visa"},
        {"payment_method_id": None},
        {"payment_method_type": "cash"},
    ],
)
async def test_wrong_details_of_a_payment_are_refused(
    database: Database, clock: MovableClock, changes: dict[str, str | None]
) -> None:
    """A card number in clear, half a card, and details of what was not paid."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)
        clock.advance(THREE_MINUTES_MS)
        body = {"outcome": "approved", "reason": REASON, **KNOWN, **changes}
        sent = {name: value for name, value in body.items() if value is not None}
        assert await person.refused("POST", f"orders/{order_id}/resolve", sent) == (400, "property_value")
        assert await audited(service) == []
        assert (await service.get(order_id))["version"] == 3


async def test_resolve_before_three_minutes_returns_409(database: Database, clock: MovableClock) -> None:
    """So does any other order; the detail has the earliest time, and nothing changes."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)
        body = {"outcome": "approved", "reason": REASON}
        clock.advance(THREE_MINUTES_MS - 1)
        reply = await person.ask("POST", f"orders/{order_id}/resolve", body)
        assert (reply.status, reply.code) == (409, "cannot_resolve_order")
        assert reply.details[0].startswith("the acquirer may still answer; an operator can resolve the order from 20")
        assert (await service.get(order_id))["version"] == 3
        clock.advance(1)
        await person.did("POST", f"orders/{order_id}/resolve", body)
        again = await person.ask("POST", f"orders/{order_id}/resolve", body)
        assert (again.code, again.details) == ("cannot_resolve_order", ["the order is processed; its outcome is known"])
        created = (await service.create(device.terminal)).body["id"]
        clock.advance(THREE_MINUTES_MS)
        early = await person.ask("POST", f"orders/{created}/resolve", body)
        assert early.details == ["the order is created; its outcome is not in doubt yet"]
        assert len(await audited(service)) == 1


async def test_invalid_resolve_request_is_refused(database: Database, clock: MovableClock) -> None:
    """Support gets 403; an unknown outcome, a blank reason or a card number returns 400."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)
        clock.advance(THREE_MINUTES_MS)
        path, body = f"orders/{order_id}/resolve", {"outcome": "approved", "reason": REASON}
        assert await (await operator(service, "support")).refused("POST", path, body) == (403, "forbidden")
        for wrong in ({"outcome": "canceled"}, {"reason": " "}, {"reason": ""}, {"reason": "card 4235647728025682"}):
            assert await person.refused("POST", path, {**body, **wrong}) == (400, "property_value")
        assert await person.refused("POST", path, {"outcome": "approved"}) == (400, "required_properties")
        assert await person.refused("POST", f"orders/ORD{'0' * 26}/resolve", body) == (404, "order_not_found")
        assert await audited(service) == []


async def test_approval_after_resolved_decline_is_reversed(database: Database, clock: MovableClock) -> None:
    """Inquiries continue; the late approval is reversed, and the order stays failed."""
    acquirer = FakeAcquirer()
    acquirer.say(Unknown("no answer"))
    async with scene(database, clock, acquirer) as (service, device, person):
        order_id = await unknown(service, device)
        clock.advance(THREE_MINUTES_MS)
        failed = await person.did("POST", f"orders/{order_id}/resolve", {"outcome": "declined", "reason": REASON})
        acquirer.say(SAID)
        reversal = await advancing(service, clock, until(service, order_id, status="reversed"))
        assert acquirer.reversed_keys == [reversal["id"]]
        assert reversal["confirmed"] == "approved"
        assert await service.get(order_id) == failed


async def test_reversing_order_can_only_be_declined(database: Database, clock: MovableClock, tmp_path: Path) -> None:
    """The acquirer may already have voided the payment, so `approved` returns 409, and no hint offers it.

    Operators see the reversal also after the order has ended.
    """
    acquirer = FakeAcquirer()
    acquirer.say(NotFound())
    acquirer.answer(Unknown("no answer"))
    async with scene(database, clock, acquirer) as (service, device, person):
        order_id = await unknown(service, device)
        await until(service, order_id, attempts=1)
        clock.advance(THREE_MINUTES_MS)
        service.database.signals.notify(["clock"])
        await until(service, order_id, status="reversing")
        path = f"orders/{order_id}/resolve"
        reply = await person.ask("POST", path, {"outcome": "approved", "reason": REASON})
        assert (reply.status, reply.code) == (409, "cannot_resolve_order")
        resolve = ("orders", "resolve", order_id, "--outcome", "approved", "--reason", REASON)
        refused = await typed(person, tmp_path, *resolve)
        assert refused.startswith(
            "1: The payment is being reversed at the acquirer; the order can only end as declined."
        )
        (item,) = (await person.did("GET", "attention"))["data"]
        assert item["do"].startswith("It is being reversed; it can only end as declined. If that takes long, ")
        held = await typed(person, tmp_path, "terminals", "queue", device.terminal.id)
        assert "It can only end as declined." in held
        assert f"paydesk orders resolve {order_id} --outcome declined --reason" in held
        await person.did("POST", path, {"outcome": "declined", "reason": REASON})
        assert (await person.did("GET", "attention"))["data"] == []
        await run(database, "UPDATE inquiries SET reversing_ms = 1000")
        (item,) = (await person.did("GET", "attention"))["data"]
        assert (item["kind"], item["subject"]) == ("reversal_unconfirmed", order_id)
        assert "`paydesk inquiries list`" in item["do"]
        (one,) = (await person.did("GET", "inquiries"))["data"]
        assert (one["status"], one["order_status"]) == ("reversing", "failed")
        acquirer.answer(UNDONE)
        ended = await advancing(service, clock, until(service, order_id, status="ended"))
        assert ended["outcome"] == "not_found"


@pytest.mark.parametrize("rounds", short_and_long(20, 60))
async def test_concurrent_resolve_and_result_have_one_outcome(
    database: Database, clock: MovableClock, rounds: int
) -> None:
    """The other one is refused or recorded; over all rounds both orders of events occur."""
    outcomes: Counter[str] = Counter()
    async with scene(database, clock, None) as (service, device, person):
        while outcomes.total() < rounds or (len(outcomes) == 1 and outcomes.total() < ROUNDS_MAX):
            outcomes[await _one_round(service, device, person, clock)] += 1
    assert set(outcomes) == {"operator", "terminal"}


async def _one_round(service: Service, device: Device, person: Operator, clock: MovableClock) -> str:
    order_id = await unknown(service, device)
    clock.advance(THREE_MINUTES_MS)

    async def resolve() -> Reply:
        await _some_turns()
        return await person.ask("POST", f"orders/{order_id}/resolve", {"outcome": "declined", "reason": REASON})

    async def report() -> Reply:
        await _some_turns()
        return await device.result(order_id[3:], **approved())

    resolved, reported = await asyncio.gather(resolve(), report())
    order = await service.get(order_id)
    assert order["version"] == 4
    if resolved.status == 200:
        assert (reported.status, reported.code, reported.body["recorded"]) == (409, "order_finished", True)
        assert order["status"] == "failed"
        (reversal,) = [one for one in (await person.did("GET", "reversals"))["data"] if one["order_id"] == order_id]
        assert reversal["status"] == "pending"
        return "operator"
    assert (resolved.status, resolved.code) == (409, "cannot_resolve_order")
    assert (reported.status, order["status"]) == (200, "processed")
    return "terminal"


async def _some_turns() -> None:
    for _ in range(random.randrange(20)):
        await asyncio.sleep(0)


async def test_resolve_on_the_command_line(database: Database, clock: MovableClock, tmp_path: Path) -> None:
    """The lists of inquiries, reversals and events show the open work."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await unknown(service, device)

        async def paydesk(*words: str) -> str:
            return await typed(person, tmp_path, *words)

        await until(service, order_id, attempts=1)
        row = (await paydesk("inquiries", "list")).strip().split("\t")
        assert row[:6] == [order_id, "asking", "at_terminal", "", "the terminal knows no outcome", "1"]
        assert row[6].startswith("20")
        decline = ("orders", "resolve", order_id, "--outcome", "declined", "--reason", REASON)
        refused = await paydesk(*decline)
        assert refused.startswith("1: ")
        assert "an operator can resolve the order from" in refused
        clock.advance(THREE_MINUTES_MS)
        assert (await paydesk(*decline, "--reference", "1")).startswith("1: ")
        assert "failed" in await paydesk(*decline)
        assert await paydesk("inquiries", "list") == ""
        assert order_id in await paydesk("inquiries", "list", "--all")
        assert (await device.approve(order_id[3:])).status == 409
        await until(service, order_id, status="pending", attempts=1)
        row = (await paydesk("reversals", "list", "--status", "pending")).rstrip("\n").split("\t")
        assert row[1:5] == [order_id, "pending", "", "24.90 BRL"]
        assert row[6] == "1"
        events = [line.split("\t")[1:3] for line in (await paydesk("events", "list")).splitlines()]
        assert sorted(events) == [
            ["inquiry_needs_person", order_id],
            ["late_approval", order_id],
            ["reversal_needs_person", order_id],
        ]


@each("query", ["reversals?status=lost", "inquiries?open=perhaps"])
async def test_unknown_filter_value_returns_400(service: Service, query: str) -> None:
    """An unknown value does not return the whole list."""
    assert await (await operator(service)).refused("GET", query) == (400, "property_value")
