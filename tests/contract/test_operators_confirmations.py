"""What an operator sees and does about approvals that the acquirer has to confirm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from authorize_scene import (
    BLOCKING,
    WatchedAcquirer,
    at_terminal,
    authorize,
    is_consistent,
    process_jobs,
    rows,
    service_device,
    watched,
)
from operator_calls import Operator, audited, operator
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.engine.payments import confirmations
from paydesk.engine.payments.acquirer import Approved, Declined, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.jobs import JobWorker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from refund_scene import refund
from resolving_scene import THREE_MINUTES_MS, typed
from service import KEYS, Device, Service, running
from tables import each

HOLDING = replace(BLOCKING, needs_confirmation=True, confirm_before=600, at_deadline="blocks", can_inquire=False)
PAID_IN_CASH = {"reason": "The buyer has paid in cash."}
REFUSES = Declined("processing_error")


@dataclass
class Desk:
    """An operator, and a shop whose acquirer holds approvals until they are confirmed."""

    service: Service
    acquirer: WatchedAcquirer
    clock: MovableClock
    person: Operator

    async def approval(self) -> tuple[Device, str, dict[str, Any]]:
        """Return a new device, its lease with a provisional approval, and the answer to its authorization."""
        device = await service_device(self.service)
        lease_id = await at_terminal(device)
        reply = await authorize(device, lease_id)
        assert reply.body["result_required"] is True
        return device, lease_id, reply.body

    async def sale(self) -> str:
        """Return the id of an order that its terminal has approved."""
        device, lease_id, answer = await self.approval()
        content = {
            "outcome": "approved",
            "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
            "card": {"first_digits": "423564", "last_digits": "5682", "entry_mode": "chip"},
            "paid_amount": "24.90",
            "reference_id": answer["reference_id"],
        }
        assert (await device.result(lease_id, **content)).status == 200
        return f"ORD{lease_id}"

    async def refused(self) -> str:
        """Return the id of an order that the acquirer refuses to confirm."""
        order_id = await self.sale()
        self.acquirer.confirmations.append(REFUSES)
        await self.work()
        return order_id

    async def work(self, seconds: float = 0) -> None:
        """Let time pass, and do what is due then."""
        self.clock.advance(round(seconds * 1000))
        await process_jobs(self.service, self.acquirer)

    async def order(self, order_id: str) -> dict[str, Any]:
        """Return the order as operators see it."""
        found: dict[str, Any] = await self.person.did("GET", f"orders/{order_id}")
        return found

    async def items(self) -> list[dict[str, Any]]:
        """Return what needs a person."""
        found: list[dict[str, Any]] = (await self.person.did("GET", "attention"))["data"]
        return found


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    """A desk without workers, whose clock stands still."""
    clock = MovableClock()
    clock.freeze()
    acquirer = watched(database, clock)
    acquirer.can = HOLDING
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        yield Desk(service, acquirer, clock, await operator(service, "operator"))
        await is_consistent(service)


@pytest.mark.on_postgres
async def test_a_provisional_approval_is_on_the_orders_page(desk: Desk) -> None:
    """With the time until which the terminal decides; never with what is for the chip or the issuer."""
    began_ms = desk.clock.now_ms()
    device, lease_id, answer = await desk.approval()
    order = await desk.order(f"ORD{lease_id}")
    confirmation, until = order["confirmation"], rfc3339(began_ms + 40_000)
    assert (confirmation["status"], confirmation["amount"], confirmation["decide_by_date"]) == (
        "provisional",
        "24.90",
        until,
    )
    assert (confirmation["reference_id"], confirmation["attempts"]) == (answer["reference_id"], 0)
    assert confirmation["deadline_date"] == rfc3339(began_ms + 600_000)
    assert not {"issuer_data", "chip_data"} & set(confirmation)
    assert (order["waiting"]["waits_for"], order["waiting"]["until_date"]) == ("decision", until)
    slot = (await desk.person.did("GET", f"terminals/{device.terminal.id}/queue"))["current"]
    assert (slot["waits_for"], slot["until_date"]) == ("decision", until)
    assert "waits for the terminal's result" in slot["message"]
    assert await desk.person.refused("POST", f"terminals/{device.terminal.id}/release", {"reason": "x"}) == (
        409,
        "cannot_release_terminal",
    )


@pytest.mark.on_postgres
async def test_the_list_has_each_status(desk: Desk) -> None:
    """Newest first, and by status."""
    confirmed = await desk.sale()
    await desk.work(1)
    refused = await desk.refused()
    desk.clock.advance(1)
    _, undone, _ = await desk.approval()
    await desk.work(40)
    waiting = await desk.sale()
    listed = (await desk.person.did("GET", "confirmations"))["data"]
    assert all(one["payment_id"] == f"PAY{one['order_id'][3:]}" for one in listed)
    assert [(one["order_id"], one["status"]) for one in listed] == [
        (waiting, "confirming"),
        (f"ORD{undone}", "undone"),
        (refused, "refused"),
        (confirmed, "confirmed"),
    ]
    assert [("next_date" in one, "ended_date" in one) for one in listed] == [
        (True, False),
        (False, True),
        (False, True),
        (False, True),
    ]
    (one,) = (await desk.person.did("GET", "confirmations?status=refused"))["data"]
    assert one == (await desk.order(refused))["confirmation"]


@pytest.mark.on_postgres
async def test_a_refused_confirmation_is_resolved_once(desk: Desk) -> None:
    """It needs a person until then; order and status stay, and the audit trail has the reason."""
    order_id = await desk.refused()
    (item,) = await desk.items()
    assert (item["kind"], item["order_id"]) == ("confirmation_refused", order_id)
    assert "24.90 BRL" in item["message"]
    before = await desk.service.get(order_id)
    path = f"confirmations/{order_id}/resolve"
    assert await desk.person.refused("POST", path, {"reason": " "}) == (400, "property_value")
    assert await (await operator(desk.service, "support")).refused("POST", path, PAID_IN_CASH) == (403, "forbidden")
    answer = await desk.person.did("POST", path, PAID_IN_CASH)
    assert (answer["status"], answer["resolution"]) == ("refused", PAID_IN_CASH["reason"])
    assert await desk.service.get(order_id) == before
    assert await desk.items() == []
    (line,) = await audited(desk.service)
    assert (line.action, line.subject, line.after) == (
        "confirmations.resolve",
        order_id,
        {"status": "refused", **PAID_IN_CASH},
    )
    again = await desk.person.ask("POST", path, PAID_IN_CASH)
    assert (again.status, again.code, again.details) == (
        409,
        "cannot_resolve_confirmation",
        [f"it is resolved: {PAID_IN_CASH['reason']}"],
    )
    assert len(await audited(desk.service)) == 1


async def test_only_a_refused_confirmation_is_resolved(desk: Desk) -> None:
    """The detail says what it is instead."""
    waiting = await desk.sale()
    reply = await desk.person.ask("POST", f"confirmations/{waiting}/resolve", PAID_IN_CASH)
    assert (reply.status, reply.details) == (409, ["the confirmation is confirming, not refused"])
    terminal = await desk.service.terminal()
    without = (await desk.service.create(terminal)).body["id"]
    reply = await desk.person.ask("POST", f"confirmations/{without}/resolve", PAID_IN_CASH)
    assert (reply.status, reply.details) == (409, ["the payment needed no confirmation"])
    unknown = f"confirmations/ORD{'0' * 26}/resolve"
    assert await desk.person.refused("POST", unknown, PAID_IN_CASH) == (404, "order_not_found")


async def test_an_unanswered_confirmation_needs_a_person(desk: Desk) -> None:
    """After three minutes, or when operators were alerted; it shows the acquirer's deadline."""
    order_id = await desk.sale()
    deadline = (await desk.order(order_id))["confirmation"]["deadline_date"]
    desk.acquirer.confirmations.extend([Unknown("no answer")] * 20)
    await desk.work(179)
    assert await desk.items() == []
    await desk.work(1)
    (item,) = await desk.items()
    assert (item["kind"], item["order_id"], item["deadline_date"]) == ("confirmation_unanswered", order_id, deadline)
    assert deadline in item["do"]


async def test_a_refund_that_waits_for_the_confirmation_says_so(desk: Desk) -> None:
    """In the list, on the order's page and in what needs a person; no operator ends it before."""
    order_id = await desk.sale()
    desk.acquirer.confirmations.extend([Unknown("no answer")] * 20)
    reply = await refund(desk.service, order_id)
    refund_id = reply.body["transactions"]["refunds"][0]["id"]
    await desk.work(180)
    (one,) = (await desk.person.did("GET", "refunds"))["data"]
    assert (one["waits_for"], one["attempts"]) == ("confirmation", 0)
    (one,) = (await desk.order(order_id))["order_refunds"]
    assert one["waits_for"] == "confirmation"
    messages = {item["kind"]: item["message"] for item in await desk.items()}
    assert "waits for the confirmation of its payment" in messages["refund_slow"]
    body = {"outcome": "processed", "reason": "In the portal."}
    reply = await desk.person.ask("POST", f"refunds/{refund_id}/resolve", body)
    assert (reply.status, reply.code) == (409, "cannot_resolve_refund")
    assert "confirmation of the payment" in reply.details[0]


@each("outcome, status", [("approved", "confirming"), ("declined", "undone")])
async def test_an_order_that_was_undone_can_be_resolved(desk: Desk, outcome: str, status: str) -> None:
    """As approved with what the operator knows: the confirmation is sent after all."""
    _, lease_id, _ = await desk.approval()
    desk.clock.advance(40_000)
    context = WorkerContext(desk.service.database, Settings(), desk.clock, KEYS, objects=desk.service.shared.objects)
    assert await JobWorker(context, confirmations.JOB, wall=desk.clock).step()
    assert (await desk.order(f"ORD{lease_id}"))["confirmation"]["status"] == "undone"
    desk.clock.advance(THREE_MINUTES_MS)
    body = {"outcome": outcome, "reason": "Seen in the portal."}
    await desk.person.did("POST", f"orders/ORD{lease_id}/resolve", body)
    assert (await desk.order(f"ORD{lease_id}"))["confirmation"]["status"] == status


@pytest.mark.on_postgres
async def test_an_order_of_which_another_amount_was_approved_is_only_resolved_as_declined(desk: Desk) -> None:
    """The acquirer would be asked to confirm an amount that it has not approved."""
    desk.acquirer.answers.append(Approved("115019989861", 2400, needs_confirmation=True))
    device = await service_device(desk.service)
    lease_id = await at_terminal(device)
    assert (await authorize(device, lease_id)).body["outcome"] == "unknown"
    desk.clock.advance(THREE_MINUTES_MS)
    path, body = f"orders/ORD{lease_id}/resolve", {"outcome": "approved", "reason": "Seen in the portal."}
    reply = await desk.person.ask("POST", path, body)
    assert (reply.status, reply.code, reply.details) == (
        409,
        "cannot_resolve_order",
        ["the acquirer has approved another amount; the order can only end as declined"],
    )
    assert (await desk.order(f"ORD{lease_id}"))["confirmation"]["status"] == "undone"
    await desk.person.did("POST", path, {**body, "outcome": "declined"})
    await desk.work()
    assert desk.acquirer.reversed_minor == [2400]
    assert desk.acquirer.confirmed == []


async def test_confirmations_on_the_command_line(desk: Desk, tmp_path: Path) -> None:
    """The list on a pipe has no heads; resolving twice exits 1."""
    order_id = await desk.refused()

    async def paydesk(*words: str) -> str:
        return await typed(desk.person, tmp_path, *words)

    row = (await paydesk("confirmations", "list", "--status", "refused")).rstrip("\n").split("\t")
    assert (row[:3], row[4]) == ([order_id, "refused", "24.90 BRL"], "1")
    assert await paydesk("confirmations", "list", "--status", "confirming") == ""
    resolve = ("confirmations", "resolve", order_id, "--reason", PAID_IN_CASH["reason"])
    assert PAID_IN_CASH["reason"] in await paydesk(*resolve)
    assert "is resolved" in await paydesk(*resolve)
    shown = await paydesk("orders", "get", order_id)
    assert PAID_IN_CASH["reason"] in shown
    assert await rows(desk.service, "SELECT status FROM confirmations") == [("refused",)]
