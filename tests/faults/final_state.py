"""What the database says of a run once it is over, as plain data."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import webhooks_scene
from faults.records import Records, Shown
from paydesk.engine.oauth import store as oauth
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction

ORDERS = """
SELECT order_id, terminal_id, external_reference, status, status_detail, payment_status_detail, version, permitted_ms,
       reference_id, live FROM orders"""

EVENTS = """
SELECT order_id, version, status, status_detail, payment_status_detail, event_id, body FROM order_events
 ORDER BY order_id, version"""

KEYS = "SELECT operation, object_id, idempotency_key, status, answer FROM idempotency_keys"

RESULTS = """
SELECT r.lease_id, r.result_id, r.outcome, r.verdict,
       CASE WHEN EXISTS (SELECT 1 FROM reversals v WHERE v.seller_id = r.seller_id AND v.lease_id = r.lease_id
                            AND v.result_id = r.result_id) THEN 1 ELSE 0 END,
       CASE WHEN EXISTS (SELECT 1 FROM inquiries i WHERE i.seller_id = r.seller_id
                            AND i.order_id = 'ORD' || r.lease_id
                            AND (i.ended_ms IS NULL OR i.ended_ms >= r.created_ms)) THEN 1 ELSE 0 END
  FROM results r"""

REFUNDS = """
SELECT r.refund_id, r.order_id, r.amount, r.amount_minor, r.status, COALESCE(o.paid_minor, 0),
       (SELECT m.amount_minor FROM simulator_movements m
         WHERE m.seller_id = r.seller_id AND m.movement_key = r.refund_id AND m.outcome = 'approved')
  FROM refunds r JOIN orders o ON o.seller_id = r.seller_id AND o.order_id = r.order_id"""

BOOK = """
SELECT payment_id, outcome, reference_id, CASE WHEN reversed_ms IS NULL THEN 0 ELSE 1 END,
       CASE WHEN card IS NULL THEN 0 ELSE 1 END, amount_minor, refunded_minor, live FROM simulator_payments"""

# Jobs at the acquirer of test orders. Live ones have no acquirer here: operators resolve those.
UNFINISHED = """
SELECT (SELECT COUNT(*) FROM refunds WHERE status = 'processing')
     + (SELECT COUNT(*) FROM inquiries WHERE live = 0 AND ended_ms IS NULL)
     + (SELECT COUNT(*) FROM reversals WHERE live = 0 AND status = 'pending')"""

DELIVERIES = "SELECT order_id, version, subscription_id, status FROM deliveries"

LIVE = """
SELECT COUNT(*) FROM orders
 WHERE status IN ('created', 'at_terminal') AND (live = 0 OR payment_status_detail <> 'check_on_terminal')"""


@dataclass(frozen=True, slots=True)
class Event:
    """One step of an order's history."""

    version: int
    shown: Shown
    event_id: str
    body: str


@dataclass(frozen=True, slots=True)
class OrderFact:
    """An order as it is in the end."""

    order_id: str
    terminal_id: str
    reference: str
    shown: Shown
    version: int
    granted: bool
    payment_reference: str
    events: tuple[Event, ...]
    live: bool = False


@dataclass(frozen=True, slots=True)
class BookFact:
    """A payment in the acquirer's book; `charged`: a card was there, so it did not learn of it from us alone."""

    outcome: str
    reference_id: str
    reversed_: bool
    charged: bool
    amount_minor: int
    refunded_minor: int
    live: bool


@dataclass(frozen=True, slots=True)
class ResultFact:
    """A result as it was recorded; `reversed_` and `inquired`: it is being reversed or inquired about."""

    outcome: str
    verdict: str
    reversed_: bool
    inquired: bool


@dataclass(frozen=True, slots=True)
class RefundFact:
    """A refund as it is in the end, what its order was paid, and what the acquirer gave back for it, if anything."""

    order_id: str
    amount: str
    amount_minor: int
    status: str
    paid_minor: int
    moved_minor: int | None


@dataclass(frozen=True, slots=True)
class FamilyFact:
    """Where a refresh token stands: its generation, its family's newest, and whether the family was revoked."""

    generation: int
    newest: int
    revoked: str


@dataclass
class Facts:
    """Everything, by who it belongs to."""

    orders: dict[str, OrderFact] = field(default_factory=dict)
    keys: dict[tuple[str, str, str], tuple[int, bytes]] = field(default_factory=dict)
    results: dict[tuple[str, str], ResultFact] = field(default_factory=dict)
    refunds: dict[str, RefundFact] = field(default_factory=dict)
    book: dict[str, BookFact] = field(default_factory=dict)
    """By the order that each payment is of."""
    deliveries: dict[tuple[str, int, str], str] = field(default_factory=dict)
    families: dict[str, FamilyFact] = field(default_factory=dict)


async def read(database: Database, records: Records) -> Facts:
    """Read it off; of the families, how those of the records stand."""
    return await database.read(lambda tx: _read(tx, records), heavy=True)


async def _read(tx: Transaction, records: Records) -> Facts:
    facts = Facts()
    events: dict[str, list[Event]] = defaultdict(list)
    for order_id, version, *shown, event_id, body in await tx.all(EVENTS):
        events[order_id].append(Event(version, (shown[0], shown[1], shown[2]), event_id, body))
    for row in await tx.all(ORDERS):
        shown_now = (row[3], row[4], row[5])
        facts.orders[row[0]] = OrderFact(
            row[0],
            row[1],
            row[2] or "",
            shown_now,
            row[6],
            row[7] is not None,
            row[8] or "",
            tuple(events[row[0]]),
            bool(row[9]),
        )
    for operation, object_id, key, status, answer in await tx.all(KEYS):
        facts.keys[operation, object_id, key] = (status, bytes(answer or b""))
    for lease_id, result_id, outcome, verdict, reversed_, inquired in await tx.all(RESULTS):
        facts.results[f"ORD{lease_id}", result_id] = ResultFact(outcome, verdict, bool(reversed_), bool(inquired))
    for row in await tx.all(REFUNDS):
        facts.refunds[row[0]] = RefundFact(*row[1:])
    for payment_id, outcome, reference_id, reversed_, charged, *minor, live in await tx.all(BOOK):
        facts.book[f"ORD{payment_id[3:]}"] = BookFact(
            outcome, reference_id, bool(reversed_), bool(charged), minor[0], minor[1], bool(live)
        )
    for order_id, version, subscription_id, status in await tx.all(DELIVERIES):
        facts.deliveries[order_id, version, subscription_id] = status
    for family in records.families:
        token = family.newest_refresh_token
        stands = await oauth.find_refresh_token(tx, token)
        if stands is not None:
            revoked = stands.revoked_reason or ""
            facts.families[token] = FamilyFact(stands.generation, stands.newest_generation, revoked)
    return facts


async def unsettled(database_url: str) -> tuple[int, int]:
    """How many notifications are open, and how much of orders: live, inquired about, being reversed or refunded."""
    database = await open_database(database_url, exclusive=False)
    try:
        return await database.read(_unsettled)
    finally:
        await database.close()


async def _unsettled(tx: Transaction) -> tuple[int, int]:
    rows = [await tx.one(statement) for statement in (LIVE, UNFINISHED)]
    return await webhooks_scene.pending_count(tx), sum(row[0] for row in rows if row is not None)
