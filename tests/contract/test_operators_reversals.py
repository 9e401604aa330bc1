"""An operator sets the outcome of a reversal that the acquirer does not confirm."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs_scene import BLOCKING, SAID, UNDONE, FakeAcquirer
from operator_calls import Operator, audited, operator
from paydesk.core.clock import MovableClock
from paydesk.engine.payments import reversals
from paydesk.engine.payments.acquirer import Declined, NotFound, TooLate, Unknown
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.storage.database import Database
from refund_scene import Refunder, paid, refund
from resolving_scene import REASON, THREE_MINUTES_MS, advancing, scene, typed, unknown, until
from service import Device, Reply, Service, approved, running
from tables import each
from waiting import HANGS_SECONDS

GONE = {"outcome": "reversed", "reason": REASON}
NOTHING = {"outcome": "not_found", "reason": REASON}


async def late(service: Service, device: Device) -> str:
    """Create and cancel an order whose terminal then reports an approval; return its id."""
    order_id: str = (await service.create(device.terminal)).body["id"]
    assert (await service.cancel(order_id)).status == 200
    assert (await device.approve(order_id[3:])).code == "order_finished"
    return order_id


async def unclaimed(person: Operator, path: str, body: dict[str, str]) -> Reply:
    """Send the request until no attempt at the acquirer is running, and return the reply."""
    async with asyncio.timeout(HANGS_SECONDS):
        while True:
            reply = await person.ask("POST", path, body)
            if reply.status == 200 or "in progress" not in reply.details[0]:
                return reply
            await asyncio.sleep(0.02)


async def of(person: Operator, order_id: str) -> dict[str, Any]:
    """Return the order's reversal."""
    (found,) = [one for one in (await person.did("GET", "reversals"))["data"] if one["order_id"] == order_id]
    return dict(found)


@pytest.mark.on_postgres
async def test_resolve_ends_the_reversal(database: Database, clock: MovableClock) -> None:
    """The order stays as it is, and the audit trail has the operator and the reason."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await late(service, device)
        reversal = await until(service, order_id, status="pending", attempts=1)
        canceled = await service.get(order_id)
        clock.advance(THREE_MINUTES_MS)
        answer = (await unclaimed(person, f"reversals/{reversal['id']}/resolve", GONE)).body
        assert (answer["id"], answer["status"]) == (reversal["id"], "reversed")
        assert "next_date" not in answer
        assert answer == await of(person, order_id)
        assert await service.get(order_id) == canceled
        (line,) = await audited(service)
        assert (line.operator_id, line.action, line.subject) == (
            person.operator_id,
            "reversals.resolve",
            reversal["id"],
        )
        assert (line.before, line.after) == ({"status": "pending"}, {"status": "reversed", "reason": REASON})


async def test_resolve_ends_a_reversal_that_the_acquirer_refuses(database: Database, clock: MovableClock) -> None:
    """There is one operator event, and no further attempt."""
    acquirer = FakeAcquirer()
    acquirer.say(SAID)
    acquirer.answer(Declined("processing_error"))
    async with scene(database, clock, acquirer) as (service, device, person):
        order_id = await late(service, device)
        reversal = await until(service, order_id, attempts=1)
        (message,) = [
            event["message"]
            for event in (await person.did("GET", "events"))["data"]
            if event["kind"] == "reversal_needs_person"
        ]
        assert message == "The acquirer declined to reverse the late approval: processing_error."
        clock.advance(THREE_MINUTES_MS)
        assert (await unclaimed(person, f"reversals/{reversal['id']}/resolve", GONE)).status == 200
        clock.advance(THREE_MINUTES_MS)
        assert [seller_id async for seller_id in reversals.JOB.groups(database, clock.now_ms(), 2**62)] == []
        assert (await of(person, order_id))["status"] == "reversed"


async def test_confirmed_approval_cannot_end_as_not_found(database: Database, clock: MovableClock) -> None:
    """The acquirer confirmed the approval; the operator may resolve it as reversed."""
    acquirer = FakeAcquirer()
    acquirer.say(SAID)
    acquirer.answer(Unknown("no answer"))
    async with scene(database, clock, acquirer) as (service, device, person):
        reversal = await until(service, await late(service, device), attempts=1, confirmed="approved")
        clock.advance(THREE_MINUTES_MS)
        path = f"reversals/{reversal['id']}/resolve"
        reply = await unclaimed(person, path, NOTHING)
        assert reply.details == ["the acquirer has confirmed the approval; it can only end as reversed"]
        assert (await unclaimed(person, path, GONE)).status == 200


@each(
    "can, waits_for, said",
    [
        (replace(BLOCKING, after_reverse_until="refund"), "refund", "is being refunded"),
        (BLOCKING, "person", "waits for you"),
    ],
)
async def test_resolve_ends_a_reversal_that_came_too_late(
    database: Database, clock: MovableClock, can: Capabilities, waits_for: str, said: str
) -> None:
    """While it is refunded, and when a person has to settle it; then no date of a next attempt is shown."""
    acquirer = FakeAcquirer(can=can)
    acquirer.say(SAID, Unknown("no answer"))
    acquirer.answer(TooLate())
    async with scene(database, clock, acquirer) as (service, device, person):
        order_id = await late(service, device)
        reversal = await until(service, order_id, waits_for=waits_for)
        assert ("next_date" in reversal) == (waits_for == "refund")
        clock.advance(THREE_MINUTES_MS)
        (shown,) = (await person.did("GET", f"orders/{order_id}"))["reversals"]
        assert (shown["waits_for"], "refunding_date" in shown) == (waits_for, waits_for == "refund")
        (item,) = (await person.did("GET", "attention"))["data"]
        assert (item["kind"], said in item["message"], "9999-12" in str(item)) == ("reversal_unconfirmed", True, False)
        answer = (await unclaimed(person, f"reversals/{reversal['id']}/resolve", GONE)).body
        assert (answer["status"], "waits_for" in answer) == ("reversed", False)
        assert (await person.did("GET", "attention"))["data"] == []


async def test_resolve_before_three_minutes_or_twice_returns_409(database: Database, clock: MovableClock) -> None:
    """The detail has the earliest time, or the outcome; nothing changes."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await late(service, device)
        reversal = await until(service, order_id, attempts=1)
        path = f"reversals/{reversal['id']}/resolve"
        clock.advance(THREE_MINUTES_MS - 1)
        early = await person.ask("POST", path, GONE)
        assert (early.status, early.code) == (409, "cannot_resolve_reversal")
        assert early.details[0].startswith("the acquirer may still confirm it; an operator can resolve it from 20")
        assert (await of(person, order_id))["status"] == "pending"
        clock.advance(1)
        assert (await unclaimed(person, path, GONE)).status == 200
        again = await person.ask("POST", path, NOTHING)
        assert (again.status, again.details) == (409, ["the reversal is reversed"])
        assert len(await audited(service)) == 1


async def test_resolve_while_the_acquirer_is_asked_returns_409(database: Database, clock: MovableClock) -> None:
    """A running attempt may succeed, so the operator cannot resolve the reversal meanwhile."""
    acquirer, answers = FakeAcquirer(), list[tuple[int, str]]()
    acquirer.say(Unknown("no answer"))
    async with scene(database, clock, acquirer) as (service, device, person):
        order_id = await late(service, device)
        reversal = await until(service, order_id, attempts=1)
        path = f"reversals/{reversal['id']}/resolve"

        async def meanwhile() -> None:
            reply = await person.ask("POST", path, NOTHING)
            answers.append((reply.status, reply.details[0]))

        acquirer.say(SAID)
        acquirer.answer(UNDONE)
        acquirer.meanwhile = meanwhile
        clock.advance(THREE_MINUTES_MS)
        service.database.signals.notify(["clock"])
        await until(service, order_id, status="reversed")
        assert answers == [(409, "an attempt at the acquirer is in progress; retry in a minute")]
        assert await audited(service) == []


@pytest.mark.parametrize("named", ["another", "nothing"])
async def test_resolve_beside_a_payment(database: Database, clock: MovableClock, named: str) -> None:
    """A reversal with another reference can be resolved as reversed; without a reference only as not_found."""
    async with scene(database, clock, None) as (service, device, person):
        order_id: str = (await service.create(device.terminal)).body["id"]
        await device.ack(order_id[3:])
        await device.authorizing(order_id[3:])
        assert (await device.approve(order_id[3:])).status == 200
        second = approved() if named == "another" else {**approved(), "reference_id": None}
        assert (await device.result(order_id[3:], **{key: of for key, of in second.items() if of})).status == 409
        reversal = await until(service, order_id, attempts=1)
        clock.advance(THREE_MINUTES_MS)
        path = f"reversals/{reversal['id']}/resolve"
        reply = await unclaimed(person, path, GONE)
        if named == "another":
            assert reply.status == 200
            return
        detail = "it cannot be distinguished from the order's payment; it can only end as not_found"
        assert (reply.status, reply.details) == (409, [detail])
        assert (await unclaimed(person, path, NOTHING)).status == 200


async def test_resolve_while_the_order_is_open_returns_409(database: Database, clock: MovableClock) -> None:
    """The approval may still be the order's payment."""
    acquirer = FakeAcquirer()
    acquirer.say(NotFound())
    acquirer.answer(Unknown("no answer"))
    async with scene(database, clock, acquirer) as (service, device, person):
        order_id = await unknown(service, device)
        await until(service, order_id, attempts=1)
        clock.advance(THREE_MINUTES_MS)
        service.database.signals.notify(["clock"])
        await until(service, order_id, status="reversing")
        assert (await device.approve(order_id[3:])).code == "result_conflict"
        reversal = await until(service, order_id, status="pending", attempts=1)
        clock.advance(THREE_MINUTES_MS)
        path = f"reversals/{reversal['id']}/resolve"
        reply = await person.ask("POST", path, NOTHING)
        assert (reply.status, reply.code) == (409, "cannot_resolve_reversal")
        assert reply.details == ["the approval may still be the order's payment; resolve the order first"]
        acquirer.answer(UNDONE)
        # The worker may have used the time above for one more attempt, and waits longer for the next.
        await advancing(service, clock, until(service, order_id, status="ended"))
        await advancing(service, clock, until(service, order_id, status="not_found"))


async def test_invalid_resolve_request_is_refused(database: Database, clock: MovableClock) -> None:
    """Support gets 403; an unknown outcome or a blank reason returns 400."""
    async with scene(database, clock, None) as (service, device, person):
        reversal = await until(service, await late(service, device), attempts=1)
        clock.advance(THREE_MINUTES_MS)
        path = f"reversals/{reversal['id']}/resolve"
        assert await (await operator(service, "support")).refused("POST", path, GONE) == (403, "forbidden")
        assert await person.refused("POST", path, {**GONE, "outcome": "approved"}) == (400, "property_value")
        assert await person.refused("POST", path, {**GONE, "reason": " "}) == (400, "property_value")
        assert await person.refused("POST", path, {"outcome": "reversed"}) == (400, "required_properties")
        assert await person.refused("POST", f"reversals/{'0' * 26}/resolve", GONE) == (404, "reversal_not_found")
        assert await person.refused("POST", "reversals/1/resolve", GONE) == (400, "invalid_path_param")
        assert await audited(service) == []


@pytest.mark.on_postgres
async def test_command_of_the_operator_event_works(database: Database, clock: MovableClock, tmp_path: Path) -> None:
    """The operator event has the command that resolves the reversal."""
    async with scene(database, clock, None) as (service, device, person):
        order_id = await late(service, device)
        await until(service, order_id, attempts=1)
        clock.advance(THREE_MINUTES_MS)
        (message,) = [
            event["message"]
            for event in (await person.did("GET", "events"))["data"]
            if event["kind"] == "reversal_needs_person"
        ]
        words = message.split("`")[3].split()[1:]
        assert words[:2] == ["reversals", "resolve"]
        assert "reversed" in await typed(person, tmp_path, *words, "--outcome", "reversed", "--reason", REASON)
        assert await typed(person, tmp_path, "reversals", "list", "--status", "pending") == ""


@pytest.mark.on_postgres
async def test_refunds_are_listed_with_attempts(database: Database, clock: MovableClock, tmp_path: Path) -> None:
    """Open refunds have the number of attempts and the next date, ended ones the end date."""
    refunder = Refunder(words=[Unknown("no answer")])
    clock.freeze()
    async with running(database, clock=clock, acquirers=refunder.acquirers, workers=False) as service:
        person = await operator(service, "support")
        stuck, done = await paid(service), await paid(service)
        assert (await refund(service, stuck, "5.00")).status == 201
        assert (await refund(service, done)).status == 201
        open_, ended = sorted((await person.did("GET", "refunds"))["data"], key=lambda one: one["status"], reverse=True)
        assert {**open_, "id": "", "created_date": "", "next_date": ""} == {
            "id": "",
            "seller_id": service.seller_id,
            "order_id": stuck,
            "live_mode": False,
            "amount": "5.00",
            "currency": "BRL",
            "status": "processing",
            "waits_for": "refund",
            "attempts": 1,
            "created_date": "",
            "next_date": "",
        }
        assert open_["next_date"] >= open_["created_date"]
        assert (ended["order_id"], ended["status"], "ended_date" in ended) == (done, "processed", True)
        assert (await person.did("GET", "refunds?status=processing"))["data"] == [open_]
        assert (await person.did("GET", "refunds?seller=1"))["data"] == []
        assert await person.refused("GET", "refunds?status=lost") == (400, "property_value")
        line = (await typed(person, tmp_path, "refunds", "list", "--status", "processing")).strip().split("\t")
        assert line[:5] == [open_["id"], stuck, "processing", "5.00 BRL", "1"]
