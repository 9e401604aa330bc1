"""An operator sets the outcome of a refund that the acquirer does not decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from authorize_scene import BLOCKING, is_consistent, rows
from operator_calls import Operator, audited, operator
from paydesk.core.clock import MovableClock
from paydesk.engine.payments.acquirer import Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.storage.database import Database
from refund_scene import Refunder, paid, refund, work
from resolving_scene import THREE_MINUTES_MS, typed
from service import Service, running
from tables import each

SEEN = "In the acquirer's portal."
BACK = {"outcome": "processed", "reason": SEEN}
NOTHING = {"outcome": "failed", "reason": SEEN}


@dataclass
class Scripted(Refunder):
    """An acquirer with scripted outcomes; `can` is what it can do."""

    can: Capabilities = BLOCKING

    @property
    def capabilities(self) -> Capabilities:
        """Return what it can do."""
        return self.can


@dataclass
class Desk:
    """An operator, and a shop with paid orders and an acquirer that a test scripts."""

    service: Service
    acquirer: Scripted
    clock: MovableClock
    person: Operator

    async def silent(self, amount: str | None = None, *, for_ms: int = THREE_MINUTES_MS) -> tuple[str, str]:
        """Return an order and its refund, which the acquirer has not answered for three minutes."""
        order_id = await paid(self.service)
        self.acquirer.words.append(Unknown("no answer"))
        reply = await refund(self.service, order_id, amount)
        assert reply.body["transactions"]["refunds"][0]["status"] == "processing"
        self.clock.advance(for_ms)
        return order_id, reply.body["transactions"]["refunds"][0]["id"]

    async def attempt(self) -> int:
        """Make the attempts that are due; return their number."""
        return await work(self.service, wall=self.clock, refunder=self.acquirer)

    async def of(self, order_id: str) -> dict[str, Any]:
        """Return the refund of the order in the list."""
        (one,) = [one for one in (await self.person.did("GET", "refunds"))["data"] if one["order_id"] == order_id]
        return dict(one)


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    """A desk without workers, whose clock stands still."""
    clock, acquirer = MovableClock(), Scripted()
    clock.freeze()
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        yield Desk(service, acquirer, clock, await operator(service, "operator"))
        await is_consistent(service)


@pytest.mark.on_postgres
async def test_processed_refunds_the_order(desk: Desk) -> None:
    """As the acquirer's answer would, with a notification; the audit trail has the reason, and no attempt follows."""
    order_id, refund_id = await desk.silent()
    body = {**BACK, "reference_id": "115019989861"}
    answer = await desk.person.did("POST", f"refunds/{refund_id}/resolve", body)
    assert (answer["status"], answer["reference_id"], "waits_for" in answer) == ("processed", "115019989861", False)
    assert answer == await desk.of(order_id)
    order = await desk.service.get(order_id)
    assert (order["status"], order["transactions"]["refunds"][0]["status"]) == ("refunded", "processed")
    assert order["transactions"]["refunds"][0]["reference_id"] == "115019989861"
    events = await rows(desk.service, "SELECT action FROM order_events WHERE order_id = $1 ORDER BY version", order_id)
    assert events[-1] == ("order.refunded",)
    (line,) = await audited(desk.service)
    assert (line.action, line.subject) == ("refunds.resolve", refund_id)
    assert (line.before, line.after) == (
        {"status": "processing"},
        {"status": "processed", "reason": SEEN, "reference_id": "115019989861"},
    )
    assert await desk.attempt() == 0


@pytest.mark.on_postgres
async def test_failed_releases_the_amount(desk: Desk) -> None:
    """As a late decline: with a notification, and the amount can be refunded again."""
    order_id, refund_id = await desk.silent("4.90")
    assert (await desk.person.did("POST", f"refunds/{refund_id}/resolve", NOTHING))["status"] == "failed"
    order = await desk.service.get(order_id)
    assert (order["status"], order["transactions"]["refunds"][0]["status"]) == ("processed", "failed")
    events = await rows(desk.service, "SELECT action FROM order_events WHERE order_id = $1 ORDER BY version", order_id)
    assert events[-1] == ("order.refund_failed",)
    assert (await refund(desk.service, order_id)).status == 201
    assert (await desk.service.get(order_id))["status"] == "refunded"


async def test_a_refund_that_the_acquirer_would_make_again_waits_for_a_person(desk: Desk) -> None:
    """No date of a next attempt is shown, and the item that needs a person says what to do."""
    desk.acquirer.can = Capabilities(idempotent=frozenset({"authorize", "confirm", "reverse"}))
    order_id, refund_id = await desk.silent()
    one, (shown,) = await desk.of(order_id), (await desk.person.did("GET", f"orders/{order_id}"))["order_refunds"]
    assert (one["waits_for"], shown["waits_for"]) == ("person", "person")
    assert not {"next_date", "ended_date"} & ({*one} | {*shown})
    (item,) = (await desk.person.did("GET", "attention"))["data"]
    assert "waits for you" in item["message"]
    assert "resolve the refund" in item["do"]
    assert "9999-12" not in str(item)
    assert (await desk.person.ask("POST", f"refunds/{refund_id}/resolve", BACK)).status == 200
    assert (await desk.person.did("GET", "attention"))["data"] == []


async def test_resolve_too_early_or_twice_returns_409(desk: Desk) -> None:
    """The detail has the earliest time, or the outcome; nothing changes."""
    order_id, refund_id = await desk.silent(for_ms=THREE_MINUTES_MS - 1)
    path = f"refunds/{refund_id}/resolve"
    early = await desk.person.ask("POST", path, BACK)
    assert (early.status, early.code) == (409, "cannot_resolve_refund")
    assert early.details[0].startswith("the acquirer may still decide it; an operator can resolve it from 20")
    assert (await desk.of(order_id))["status"] == "processing"
    desk.clock.advance(1)
    assert (await desk.person.ask("POST", path, BACK)).status == 200
    again = await desk.person.ask("POST", path, NOTHING)
    assert (again.status, again.details) == (409, ["the refund is processed"])
    assert len(await audited(desk.service)) == 1


@pytest.mark.on_postgres
async def test_resolve_during_an_attempt_returns_409(desk: Desk) -> None:
    """The attempt may succeed, and its answer counts."""
    order_id, refund_id = await desk.silent()
    desk.acquirer.closed = True
    attempt = asyncio.create_task(desk.attempt())
    desk.acquirer.was_asked.clear()
    await desk.acquirer.was_asked.wait()
    reply = await desk.person.ask("POST", f"refunds/{refund_id}/resolve", NOTHING)
    assert (reply.status, reply.details) == (409, ["an attempt at the acquirer is in progress; retry in a minute"])
    desk.acquirer.opens.set()
    assert await attempt == 1
    assert (await desk.service.get(order_id))["status"] == "refunded"
    assert await audited(desk.service) == []


@each(
    "changes, refused",
    [
        ({"outcome": "refunded"}, "property_value"),
        ({"reason": " "}, "property_value"),
        ({"reason": None}, "required_properties"),
        ({"reference_id": "4235 6477 2802 5682"}, "property_value"),
        ({"reference_id": "4235647728025682"}, "property_value"),
        ({"outcome": "failed", "reference_id": "1"}, "property_value"),
    ],
)
async def test_an_invalid_request_is_refused(desk: Desk, changes: dict[str, Any], refused: str) -> None:
    """A card number too, and a reference of what was not refunded."""
    _, refund_id = await desk.silent()
    body = {name: value for name, value in {**BACK, **changes}.items() if value is not None}
    assert await desk.person.refused("POST", f"refunds/{refund_id}/resolve", body) == (400, refused)


async def test_unknown_refund_and_role_are_refused(desk: Desk) -> None:
    """404 without such a refund, 403 for support."""
    _, refund_id = await desk.silent()
    assert await desk.person.refused("POST", f"refunds/REF{'0' * 26}/resolve", BACK) == (404, "refund_not_found")
    support = await operator(desk.service, "support")
    assert await support.refused("POST", f"refunds/{refund_id}/resolve", BACK) == (403, "forbidden")


async def test_resolve_on_the_command_line(desk: Desk, tmp_path: Path) -> None:
    """The list says what a refund waits for."""
    order_id, refund_id = await desk.silent()
    row = (await typed(desk.person, tmp_path, "refunds", "list")).rstrip("\n").split("\t")
    assert (row[:3], row[7]) == ([refund_id, order_id, "processing"], "refund")
    resolve = ("refunds", "resolve", refund_id, "--outcome", "processed", "--reason", SEEN, "--reference", "42-a")
    assert "42-a" in await typed(desk.person, tmp_path, *resolve)
    assert (await typed(desk.person, tmp_path, *resolve)).startswith("1: ")
