"""Paid orders and their refunds: the client's requests, the worker, and the simulator's ledger."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, NoReturn

from paydesk.core.clock import Clock
from paydesk.core.objects import Objects
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Acquirer, Approved, Outcome, Payment
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import NO_CAPABILITIES, Capabilities
from paydesk.engine.payments.jobs import Group
from paydesk.engine.payments.refund import Refund
from paydesk.engine.payments.refunds.attempts import JOB
from paydesk.platform.jobs import JobWorker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext
from paydesk.service.acquirers import acquirers_of
from service import KEYS, Device, Reply, Service

DECLINED, LOST, UNHEARD, NOT_SENT, LATE, LATE_DECLINED, SLOW = (f"99900.{number}" for number in range(30, 37))
"""Amounts of payments whose refunds fare so at the simulated acquirer."""

BOOK = """
SELECT p.payment_id, p.refunded_minor,
       COALESCE((SELECT SUM(m.amount_minor) FROM simulator_movements m
                  WHERE m.seller_id = p.seller_id AND m.payment_id = p.payment_id AND m.kind = 'refund'
                    AND m.outcome = 'approved'), 0)
  FROM simulator_payments p"""

OURS = """
SELECT o.order_id, o.refunded_minor, o.refunding_minor, o.paid_minor,
       COALESCE((SELECT SUM(r.amount_minor) FROM refunds r
                  WHERE r.seller_id = o.seller_id AND r.order_id = o.order_id AND r.status = 'processed'), 0),
       COALESCE((SELECT SUM(r.amount_minor) FROM refunds r
                  WHERE r.seller_id = o.seller_id AND r.order_id = o.order_id AND r.status = 'processing'), 0)
  FROM orders o WHERE o.paid_minor IS NOT NULL"""

MISSING = """
SELECT r.refund_id FROM refunds r
 WHERE r.status = 'processed' AND NOT EXISTS (
       SELECT 1 FROM simulator_movements m
        WHERE m.seller_id = r.seller_id AND m.movement_key = r.refund_id AND m.outcome = 'approved'
          AND m.amount_minor = r.amount_minor AND m.reference_id = r.reference_id)"""


async def pay(device: Device, amount: str = "24.90", *, live: bool = False) -> str:
    """Create and pay an order on the terminal; return its id."""
    service = device.service
    token = service.live_access_token if live else ""
    reply = await service.request("POST", "/v1/orders", body_of(device, amount), token=token)
    assert reply.status == 201, reply
    order_id: str = reply.body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    assert (await device.authorizing(order_id[3:])).status == 200
    reply = await device.approve(order_id[3:], amount)
    assert reply.status == 200, reply
    return order_id


def body_of(device: Device, amount: str) -> dict[str, Any]:
    """Return the body that creates an order for the terminal."""
    point = {"terminal_id": device.terminal.id}
    return {"type": "point", "transactions": {"payments": [{"amount": amount}]}, "config": {"point": point}}


async def paid(service: Service, amount: str = "24.90", *, live: bool = False) -> str:
    """Create and pay an order on a new terminal; return its id."""
    return await pay(await service.device(await service.terminal(live=live)), amount, live=live)


def part_of(order_id: str, amount: str) -> dict[str, Any]:
    """Return the body that requests a partial refund."""
    return {"transactions": [{"id": f"PAY{order_id[3:]}", "amount": amount}]}


async def refund(service: Service, order_id: str, amount: str | None = None, **options: Any) -> Reply:
    """Request a refund, of a part or of all that remains."""
    body = None if amount is None else part_of(order_id, amount)
    return await service.request("POST", f"/v1/orders/{order_id}/refund", body, **options)


def only(reply: Reply) -> dict[str, Any]:
    """Return the one refund of a response."""
    (shown,) = reply.body["transactions"]["refunds"]
    return dict(shown)


@dataclass
class Refunder(Acquirer):
    """An acquirer with scripted refund outcomes, which it may delay; without one it approves."""

    words: list[Outcome | BaseException] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    """The payment's reference in each request."""
    closed: bool = False
    """Whether it lets its callers wait."""
    opens: asyncio.Event = field(default_factory=asyncio.Event)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    can: Capabilities = NO_CAPABILITIES

    @property
    def capabilities(self) -> Capabilities:
        """Return what it can do."""
        return self.can

    @property
    def acquirers(self) -> Acquirers:
        """Return it as the acquirer of test orders."""
        return Acquirers(test=self)

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Its next word."""
        assert payment.payment_id.startswith("PAY")
        self.asked.append(key)
        self.references.append(reference_id)
        self.was_asked.set()
        if self.closed:
            await self.opens.wait()
        word = self.words.pop(0) if self.words else Approved("115019989861", amount_minor)
        if isinstance(word, BaseException):
            raise word
        return word

    async def authorize(self, *_: Any, **__: Any) -> NoReturn:
        """Fail: nothing authorizes here."""
        raise AssertionError

    inquire = reverse = authorize


def worker(
    service: Service,
    *,
    wall: Clock | None = None,
    settings: Settings | None = None,
    refunder: Refunder | None = None,
) -> JobWorker[Group, Refund]:
    """Return the refund worker of a service that runs without it."""
    settings = settings or Settings()
    acquirers = refunder.acquirers if refunder is not None else acquirers_of(settings, service.database, service.clock)
    context = WorkerContext(service.database, settings, service.clock, KEYS, objects=Objects(acquirers))
    return JobWorker(context, JOB, wall=wall)


async def work(service: Service, **options: Any) -> int:
    """Process the due refunds once; return their number."""
    return await worker(service, **options).step()


async def notifications(service: Service, order_id: str) -> list[tuple[str, Any]]:
    """Return the action and the refunds of each of the order's notifications."""
    sql = "SELECT body FROM order_events WHERE seller_id = $1 AND order_id = $2 ORDER BY version"
    rows = await service.database.read(lambda tx: tx.all(sql, service.seller_id, order_id))
    bodies = [json.loads(row[0]) for row in rows]
    return [(body["action"], body["data"]["transactions"].get("refunds")) for body in bodies]


async def alerts(service: Service, order_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the message and evidence of each alert about the order's refunds."""
    sql = "SELECT message, body FROM operator_events WHERE seller_id = $1 AND subject = $2 AND kind = $3"
    rows = await service.database.read(lambda tx: tx.all(sql, service.seller_id, order_id, "refund_needs_person"))
    return [(message, json.loads(body)) for message, body in rows]


async def expire_leases(service: Service) -> None:
    """Expire the leases of all refunds, as after the death of their nodes."""
    await service.scene.run("UPDATE refunds SET claimed_until_ms = 0 WHERE seller_id = $1", service.seller_id)


async def ledgers_agree(database: Database) -> None:
    """Check the invariants, and that the simulator's ledger has every refund once."""

    async def read(tx: Transaction) -> tuple[list[Any], list[Any], list[Any]]:
        return await tx.all(OURS), await tx.all(BOOK), await tx.all(MISSING)

    ours, book, missing = await database.read(read)
    assert not missing, "confirmed here, and not in the acquirer's book"
    given = {payment_id: (taken, moved) for payment_id, taken, moved in book}
    for order_id, refunded, refunding, paid_minor, processed, processing in ours:
        assert (refunded, refunding) == (processed, processing), order_id
        assert refunded + refunding <= paid_minor, order_id
        taken, moved = given.get(f"PAY{order_id[3:]}", (0, 0))
        assert taken == moved <= paid_minor, order_id
        # What is under way may have happened there already.
        assert refunded <= taken <= refunded + refunding, order_id
    assert await check.check(database) == []
