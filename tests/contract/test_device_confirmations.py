"""The third message: an approval that waits for the terminal's result, and is then confirmed or undone."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from authorize_scene import (
    BLOCKING,
    WatchedAcquirer,
    at_terminal,
    authorize,
    is_consistent,
    ledger,
    process_jobs,
    rows,
    service_device,
    watched,
)
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.core.keys import Keys
from paydesk.core.objects import Objects
from paydesk.engine.orders import expiry
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments import resolving
from paydesk.engine.payments.acquirer import Approved, ConfirmResult, Declined, NotFound, NotSent, TooLate, Unknown
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.outcomes import Paid
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext
from refund_scene import refund
from service import Device, Reply, Service, running
from tables import each

HOLDING = replace(BLOCKING, needs_confirmation=True)
CONFIRMATION = "SELECT status FROM confirmations WHERE order_id = $1"
EVENTS = "SELECT kind FROM operator_events ORDER BY kind"
CHIP = b"\x9f\x26\x08abcdefgh\x95\x05\x00\x00\x00\x00\x00"


@dataclass
class Shop:
    """A device of kind `service`, and an acquirer that holds approvals until they are confirmed."""

    service: Service
    acquirer: WatchedAcquirer
    device: Device
    clock: MovableClock

    async def approval(self) -> tuple[str, Reply]:
        """Return a lease of a new device with a provisional approval, and the answer to its authorization."""
        self.device = await service_device(self.service)
        lease_id = await at_terminal(self.device)
        reply = await authorize(self.device, lease_id)
        assert (reply.status, reply.body["outcome"]) == (200, "approved"), reply
        return lease_id, reply

    async def order(self, lease_id: str) -> dict[str, Any]:
        """Return the order as the application sees it."""
        return await self.service.get(f"ORD{lease_id}")

    async def state(self, lease_id: str) -> tuple[str, str]:
        """Return the order's status and its payment's detail."""
        order = await self.order(lease_id)
        return order["status"], order["transactions"]["payments"][0]["status_detail"]

    async def work(self, seconds: float = 0) -> None:
        """Let time pass, and do what is due then."""
        self.clock.advance(round(seconds * 1000))
        objects = Objects(Acquirers(test=self.acquirer))
        context = WorkerContext(self.service.database, Settings(), self.clock, Keys(1, {1: b"k" * 32}), objects=objects)
        await expiry.UNKNOWN_OUTCOME.step(context)
        await process_jobs(self.service, self.acquirer)

    async def confirmation(self, lease_id: str) -> str:
        """Return the status of the order's confirmation."""
        ((status,),) = await rows(self.service, CONFIRMATION, f"ORD{lease_id}")
        return str(status)

    async def events(self) -> list[str]:
        """Return the kinds of the operator events."""
        return [kind for (kind,) in await rows(self.service, EVENTS)]

    async def is_charged(self, lease_id: str) -> bool:
        """Return whether the acquirer keeps the payment."""
        kept = [row for row in await ledger(self.service) if row[2:] == ("approved", False)]
        return f"PAY{lease_id}" in [row[0] for row in kept]


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    """A shop without workers, whose clock stands still."""
    clock = MovableClock()
    clock.freeze()
    acquirer = watched(database, clock)
    acquirer.can = HOLDING
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        yield Shop(service, acquirer, await service_device(service), clock)
        await is_consistent(service)


def same(reply: Reply, **changes: Any) -> dict[str, Any]:
    """Return an approved result of the answer's approval."""
    method = {"id": "visa", "type": "credit_card", "installments": 1}
    digits = {"first_digits": "423564", "last_digits": "5682", "entry_mode": "chip"}
    fields = {"outcome": "approved", "payment_method": method, "card": digits, "paid_amount": "24.90"}
    return {**fields, "reference_id": reply.body["reference_id"], **changes}


@pytest.mark.on_postgres
async def test_a_sale_is_processed_by_its_terminals_result_and_confirmed(shop: Shop) -> None:
    """Until then the order is at its terminal, and a repeated request gets the same answer without a second charge."""
    lease_id, reply = await shop.approval()
    assert reply.body["result_required"] is True
    assert reply.body["status_detail"] == reply.body["order"]["status"] == "at_terminal"
    assert await shop.state(lease_id) == ("at_terminal", "at_terminal")
    assert (await authorize(shop.device, lease_id)).raw == reply.raw
    assert len(shop.acquirer.charges) == 1
    answered = await shop.device.result(lease_id, **same(reply))
    assert (answered.status, answered.body["order"]["status"]) == (200, "processed")
    assert shop.acquirer.confirmed == []
    await shop.work()
    assert shop.acquirer.confirmed == [f"CNF{lease_id}"]
    assert (await shop.state(lease_id), await shop.confirmation(lease_id)) == (("processed", "accredited"), "confirmed")
    payment = (await shop.order(lease_id))["transactions"]["payments"][0]
    assert payment["reference_id"] == reply.body["reference_id"]
    assert payment["authorization_code"] == reply.body["authorization_code"]


async def test_the_terminal_has_time_for_its_result(shop: Shop) -> None:
    """40 s after the permit, and 15 s after an approval at the last moment."""
    began_ms = shop.clock.now_ms()
    _, reply = await shop.approval()
    assert reply.body["until"] == rfc3339(began_ms + 40_000)


@pytest.mark.on_postgres
@each(
    "content, state",
    [
        ({"outcome": "declined", "status_detail": "card_disabled"}, ("failed", "card_disabled")),
        ({"outcome": "canceled"}, ("failed", "processing_error")),
    ],
)
async def test_a_sale_that_its_terminal_ends_is_reversed(
    shop: Shop, content: dict[str, Any], state: tuple[str, str]
) -> None:
    """At once and unasked, with what the card said; nothing is confirmed."""
    lease_id, _ = await shop.approval()
    chip_data = base64.b64encode(CHIP).decode()
    assert (await shop.device.result(lease_id, **content, chip_data=chip_data)).status == 200
    assert await shop.state(lease_id) == state
    await shop.work()
    assert (shop.acquirer.confirmed, await shop.is_charged(lease_id), await shop.confirmation(lease_id)) == (
        [],
        False,
        "undone",
    )
    assert shop.acquirer.chip_data[-1] == CHIP
    assert set(await rows(shop.service, "SELECT status, chip_data FROM reversals")) == {("reversed", None)}


@pytest.mark.on_postgres
async def test_a_sale_without_a_result_in_time_is_undone(shop: Shop) -> None:
    """The order's outcome is unknown, then it fails; an approval that comes now is recorded, and changes nothing."""
    lease_id, reply = await shop.approval()
    await shop.work(39)
    assert await shop.state(lease_id) == ("at_terminal", "at_terminal")
    await shop.work(1)
    assert (await shop.state(lease_id), await shop.is_charged(lease_id)) == (("failed", "processing_error"), False)
    late = await shop.device.result(lease_id, **same(reply))
    assert (late.status, late.body["recorded"]) == (409, True)
    await shop.work()
    assert (shop.acquirer.confirmed, await shop.confirmation(lease_id)) == ([], "undone")
    assert await rows(shop.service, "SELECT COUNT(*) FROM reversals WHERE status = 'reversed'") == [(0,)]


@each(
    "changes",
    [{"paid_amount": "24.91"}, {"reference_id": "1"}, {"outcome": "unknown"}],
)
async def test_a_result_that_is_not_the_approval_undoes_it(shop: Shop, changes: dict[str, Any]) -> None:
    """Another amount or reference is a conflict; an unknown outcome gives up."""
    lease_id, reply = await shop.approval()
    await shop.device.result(lease_id, **same(reply, **changes))
    assert (await shop.order(lease_id))["status_detail"] == "check_on_terminal"
    late = await shop.device.result(lease_id, **same(reply))
    assert late.code == "result_conflict"
    await shop.work()
    assert (await shop.state(lease_id), await shop.is_charged(lease_id)) == (("failed", "processing_error"), False)


async def test_a_restarted_terminal_holds_and_its_approval_is_undone(shop: Shop) -> None:
    """Unless it has a result to report, which decides."""
    lease_id, _ = await shop.approval()
    entry = {"lease_id": lease_id, "last_step": "authorizing"}
    reply = await shop.service.request(
        "POST",
        "/device/v1/hello",
        {"boot_id": str(uuid.uuid4()), "journal": [entry]},
        token=shop.device.terminal.token,
    )
    assert reply.body["leases"] == [{"lease_id": lease_id, "verdict": "hold"}]
    await shop.work()
    assert (await shop.state(lease_id), await shop.is_charged(lease_id)) == (("failed", "processing_error"), False)


async def test_a_cancel_cannot_win(shop: Shop) -> None:
    """As after every permit: it is recorded."""
    lease_id, reply = await shop.approval()
    order_id, headers = f"ORD{lease_id}", {"x-allow-cancelable-status": "at_terminal"}
    canceled = await shop.service.cancel(order_id, headers=headers)
    assert canceled.status == 202
    assert (await shop.device.result(lease_id, **same(reply))).status == 200
    assert (await shop.state(lease_id))[0] == "processed"


@pytest.mark.on_postgres
async def test_a_refund_waits_for_the_confirmation(shop: Shop) -> None:
    """It is `processing`, and no attempt is made; then it is paid back."""
    lease_id, reply = await shop.approval()
    await shop.device.result(lease_id, **same(reply))
    shop.acquirer.confirmations.append(Unknown("no answer"))
    await shop.work()
    reply = await refund(shop.service, f"ORD{lease_id}")
    assert (reply.status, reply.body["transactions"]["refunds"][0]["status"]) == (201, "processing")
    await shop.work(5)
    assert await rows(shop.service, "SELECT attempts, status FROM refunds") == [(0, "processing")]
    await shop.work(5)
    assert await shop.confirmation(lease_id) == "confirmed"
    assert (await shop.order(lease_id))["status"] == "refunded"


async def test_a_refused_payment_is_not_refunded(shop: Shop) -> None:
    """The order stays processed, operators are alerted, and a refund that waited fails."""
    lease_id, reply = await shop.approval()
    await shop.device.result(lease_id, **same(reply))
    waiting = await refund(shop.service, f"ORD{lease_id}", "1.00")
    assert waiting.status == 201
    shop.acquirer.can = replace(HOLDING, can_inquire=False)
    shop.acquirer.confirmations.append(Declined("processing_error"))
    await shop.work()
    assert (await shop.confirmation(lease_id), await shop.events()) == ("refused", ["confirmation_refused"])
    order = await shop.order(lease_id)
    assert (order["status"], order["transactions"]["refunds"][0]["status"]) == ("processed", "failed")
    reply = await refund(shop.service, f"ORD{lease_id}")
    assert (reply.status, reply.code) == (409, "cannot_refund_order")
    assert "refused to confirm" in str(reply.body)


DEADLINE = replace(HOLDING, confirm_before=600, at_deadline="blocks")
CONFIRMS, UNDOES = replace(DEADLINE, at_deadline="confirms"), replace(DEADLINE, at_deadline="undoes")


@each(
    "can, answer, status",
    [
        (DEADLINE, Unknown("no answer"), "confirming"),
        (DEADLINE, NotSent("no line"), "confirming"),
        (DEADLINE, NotFound(), "confirming"),
        (DEADLINE, NotFound(is_final=True), "refused"),
        (DEADLINE, TooLate(), "confirming"),
        (DEADLINE, Approved("1", 2491), "confirming"),
        (replace(CONFIRMS, can_inquire=False), TooLate(), "confirmed"),
        (replace(UNDOES, can_inquire=False), TooLate(), "refused"),
        (replace(DEADLINE, can_inquire=False), Declined("processing_error"), "refused"),
        (CONFIRMS, TooLate(), "confirming"),
    ],
)
async def test_what_follows_from_the_acquirers_answer(
    shop: Shop, can: Capabilities, answer: ConfirmResult, status: str
) -> None:
    """What an inquiry still calls provisional is asked again; the order is processed whatever the acquirer says."""
    shop.acquirer.can = can
    lease_id, reply = await shop.approval()
    await shop.device.result(lease_id, **same(reply))
    shop.acquirer.confirmations.append(answer)
    await shop.work()
    assert (await shop.confirmation(lease_id), (await shop.state(lease_id))[0]) == (status, "processed")
    if status == "confirming":
        await shop.work(700)
        assert await shop.confirmation(lease_id) == "confirmed"


@pytest.mark.on_postgres
async def test_a_person_is_called_before_the_deadline(shop: Shop) -> None:
    """Once; and one attempt is made a minute before it."""
    shop.acquirer.can = DEADLINE
    lease_id, reply = await shop.approval()
    await shop.device.result(lease_id, **same(reply))
    shop.acquirer.confirmations.extend([NotSent("no line")] * 9)
    for _ in range(8):
        await shop.work(60)
    assert await shop.events() == ["confirmation_needs_person"]
    count = len(shop.acquirer.chip_data)
    await shop.work(60)
    assert len(shop.acquirer.chip_data) > count


async def test_card_data_in_clear_are_dropped(shop: Shop) -> None:
    """The result counts, without what the chip said."""
    lease_id, reply = await shop.approval()
    chip_data = base64.b64encode(b"\x5a\x08\x42\x35\x64\x56\x12\x34\x56\x82").decode()
    assert (await shop.device.result(lease_id, **same(reply), chip_data=chip_data)).status == 200
    await shop.work()
    assert (shop.acquirer.chip_data, await shop.events()) == ([b""], ["chip_data_refused"])
    assert chip_data not in str(await rows(shop.service, "SELECT body FROM results"))


async def test_an_approval_after_an_unknown_outcome_is_undone(shop: Shop) -> None:
    """Also when the host calls it final by then: the terminal never heard of it."""
    shop.acquirer.may_answer.clear()
    shop.acquirer.is_answer_lost = True
    lease_id = await at_terminal(shop.device)
    shop.acquirer.may_answer.set()
    shop.acquirer.can = replace(HOLDING, idempotent=frozenset({"confirm", "reverse", "refund"}))
    assert (await authorize(shop.device, lease_id)).body["outcome"] == "unknown"
    shop.acquirer.confirmed.append(f"CNF{lease_id}")
    await shop.work()
    assert (await shop.state(lease_id), await shop.is_charged(lease_id)) == (("failed", "processing_error"), False)


@pytest.mark.on_postgres
@each("is_lost", [False, True])
async def test_an_approval_that_an_operator_knows_of_is_confirmed(shop: Shop, is_lost: bool) -> None:  # noqa: FBT001
    """Whether it is not reversed yet, or the acquirer's answer never came."""
    shop.acquirer.can = replace(HOLDING, idempotent=frozenset({"confirm", "reverse", "refund"}))
    shop.acquirer.is_answer_lost = is_lost
    shop.device = await service_device(shop.service)
    lease_id = await at_terminal(shop.device)
    await authorize(shop.device, lease_id)
    await shop.device.result(lease_id, outcome="unknown")
    shop.clock.advance(181_000)
    acquirer, now_ms = CheckedAcquirer(shop.acquirer), shop.clock.now_ms()

    async def resolve(tx: Transaction) -> None:
        order = await orders.lock(tx, shop.service.seller_id, f"ORD{lease_id}")
        assert order is not None
        change = Change(tx, now_ms, PLAIN)
        await resolving.resolve(change, order, "approved", Paid(lease_id), settings=Settings(), acquirer=acquirer)

    await shop.service.database.write(resolve)
    assert await shop.confirmation(lease_id) == "confirming"
    await shop.work()
    assert (await shop.confirmation(lease_id), await shop.is_charged(lease_id)) == ("confirmed", True)
    assert shop.acquirer.confirmed.count(f"CNF{lease_id}") == 1
