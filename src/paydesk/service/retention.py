"""What is deleted, and when: the rules, and the worker that applies them to each seller in small steps.

Orders, their events, leases, results, refunds, inquiries and the operators' audit trail are history and stay. Only
the buyer's e-mail address is deleted from an order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from paydesk.console import sessions as operator_sessions
from paydesk.core import ids
from paydesk.engine.events import store as events
from paydesk.engine.oauth import retention as tokens
from paydesk.engine.payments.simulator.rules import OPERATIONS
from paydesk.engine.webhooks.delivery import parking
from paydesk.operators.accounts import links as operator_links
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Transaction, Work
from paydesk.platform.worker import WorkerContext

DAY_MS = 86_400_000
PAUSED_KEEP_DAYS = 30
"""Of notifications of paused subscriptions, by the contract. Older ones end as exhausted."""
REFUND_KEYS_KEEP_DAYS_MIN = 120
"""An order can be refunded for 90 days after its payment, and a refund's key must outlive that."""
PAYER_EMAILS_KEEP_DAYS = 120
"""Of orders, after their creation: an order can be refunded for 90 days."""
UNUSED_REQUESTS_KEEP_MINUTES = 60
"""Of consent requests that were not decided in time, after their creation."""
SIMULATOR_KEEP_DAYS = 180
"""Of the simulator ledger: no request about an order reaches the simulated acquirer after that time."""

STEP_ROWS_MAX = 100
REST_RATIO = 3.0
"""The pause after a step, as a multiple of its duration: pruning takes at most a quarter of one core."""
REST_SECONDS_MAX = 5.0
SELLERS_PER_PAGE = 500
FIRST_SWEEP_SECONDS_MAX = 60.0
SWEEP_INTERVAL_SECONDS = 3600.0
JITTER = 0.2

SELLERS = "SELECT seller_id FROM sellers WHERE seller_id > $1 ORDER BY seller_id LIMIT $2"

log = structlog.get_logger("retention")
T = TypeVar("T")
Prune = Callable[[Transaction, int, int, int], Awaitable[int]]
"""Deletes rows of a seller that ended before an instant, at most a number of them, and returns how many."""

# Statements ------------------------------------------------------------------------------------------------------


def _delete(table: str, key: str, age: str, where: str = "TRUE") -> str:
    """Return the statement that deletes the oldest rows `o` of seller $1 with `age` below $2, at most $3.

    Rows that another transaction has locked are skipped, so that any number of nodes can prune at once.
    """
    columns = ", ".join(f"o.{column}" for column in key.split(", "))
    return f"""DELETE FROM {table} WHERE seller_id = $1 AND ({key}) IN (WITH old AS MATERIALIZED (
    SELECT {columns} FROM {table} o WHERE o.seller_id = $1 AND o.{age} < $2 AND {where}
     ORDER BY o.{age} LIMIT $3 FOR UPDATE OF o SKIP LOCKED) SELECT * FROM old)"""


def prune(table: str, key: str, age: str, where: str = "TRUE") -> Prune:
    """Return a function that deletes a table's old rows. `where` is a further condition on the row `o`."""
    sql = _delete(table, key, age, where)

    async def run_it(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
        return await tx.run(sql, seller_id, before_ms, limit)

    return run_it


def _keys_of(operation: str) -> Prune:
    key = "application_id, live, operation, object_id, idempotency_key"
    return prune("idempotency_keys", key, "created_ms", f"o.operation = '{operation}'")


# A later session took over before $2; until then a terminal with the older boot id is refused as stale. The sum keeps
# SQLite from searching the later session by its age, through all sessions of the seller's terminals.
SUPERSEDED = """EXISTS (SELECT 1 FROM terminal_sessions n WHERE n.seller_id = $1 AND n.terminal_id = o.terminal_id
                      AND n.session > o.session AND n.created_ms + 0 < $2)"""

# A consent request that was not decided, or refused as expired.
UNUSED = "(o.decided_ms IS NULL OR o.decided_ms >= o.expires_ms)"

# The attempts of deliveries that ended before $2, at most $3, then the deliveries without attempts. A delivery that is
# being sent again stays until its attempt is recorded.
PRUNE_ATTEMPTS = """DELETE FROM attempts WHERE seller_id = $1 AND (delivery_id, attempt) IN (WITH old AS MATERIALIZED (
    SELECT a.delivery_id, a.attempt FROM deliveries d
      JOIN attempts a ON a.seller_id = d.seller_id AND a.delivery_id = d.delivery_id
     WHERE d.seller_id = $1 AND d.ended_ms < $2 AND d.resend_ms IS NULL
     ORDER BY d.ended_ms LIMIT $3 FOR UPDATE OF d SKIP LOCKED) SELECT * FROM old)"""
PRUNE_DELIVERIES = _delete(
    "deliveries",
    "delivery_id",
    "ended_ms",
    "o.resend_ms IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.seller_id = $1 AND a.delivery_id = o.delivery_id)",
)

# Payments with an id below $2 (ids begin with their orders' time), then movements of deleted payments.
PRUNE_PAYMENTS = _delete("simulator_payments", "payment_id", "payment_id")
PRUNE_MOVEMENTS = _delete(
    "simulator_movements",
    "movement_key",
    "payment_id",
    "NOT EXISTS (SELECT 1 FROM simulator_payments p WHERE p.seller_id = $1 AND p.payment_id = o.payment_id)",
)
# Requests of operation $4 from before $2, at most $3, but for the newest: its ordinal is counted on from.
PRUNE_REQUESTS = """DELETE FROM simulator_requests
 WHERE seller_id = $1 AND operation = $4 AND created_ms < $2 AND request_key IN (WITH old AS MATERIALIZED (
    SELECT o.request_key FROM simulator_requests o
     WHERE o.seller_id = $1 AND o.operation = $4
       AND o.ordinal < (SELECT MAX(n.ordinal) FROM simulator_requests n WHERE n.seller_id = $1 AND n.operation = $4)
     ORDER BY o.ordinal LIMIT $3 FOR UPDATE OF o SKIP LOCKED) SELECT * FROM old)"""


# The buyers' e-mail addresses of orders created before $2, at most $3. The orders stay.
PRUNE_PAYER_EMAILS = """UPDATE orders SET payer_email = NULL
 WHERE seller_id = $1 AND order_id IN (WITH old AS MATERIALIZED (
    SELECT o.order_id FROM orders o WHERE o.seller_id = $1 AND o.created_ms < $2 AND o.payer_email IS NOT NULL
     ORDER BY o.created_ms LIMIT $3 FOR UPDATE OF o SKIP LOCKED) SELECT * FROM old)"""


async def _prune_payer_emails(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete the buyers' e-mail addresses of orders created before `before_ms`."""
    return await tx.run(PRUNE_PAYER_EMAILS, seller_id, before_ms, limit)


async def _prune_deliveries(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete deliveries that ended before `before_ms`, each after its attempts."""
    attempts = await tx.run(PRUNE_ATTEMPTS, seller_id, before_ms, limit)
    if attempts == limit:
        return limit
    return attempts + await tx.run(PRUNE_DELIVERIES, seller_id, before_ms, limit - attempts)


async def _exhaust_paused(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """End pending deliveries of paused subscriptions that were created before `before_ms`. They are deleted later."""
    return await parking.exhaust_old(tx, seller_id, before_ms, before_ms + PAUSED_KEEP_DAYS * DAY_MS, limit)


async def _prune_simulator(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Delete payments of orders created before `before_ms`, then their movements, then earlier requests."""
    before = f"PAY{ids.first_ulid(before_ms)}"
    pruned = await tx.run(PRUNE_PAYMENTS, seller_id, before, limit)
    if pruned < limit:
        pruned += await tx.run(PRUNE_MOVEMENTS, seller_id, before, limit - pruned)
    for operation in OPERATIONS:
        if pruned < limit:
            pruned += await tx.run(PRUNE_REQUESTS, seller_id, before_ms, limit - pruned, operation)
    return pruned


# Rules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """For how many days rows are kept after their end, and how they are deleted."""

    keep_days: Callable[[Settings], float]
    prune: Prune


def _refund_keys_keep_days(settings: Settings) -> int:
    return max(settings.idempotency_keep_days, REFUND_KEYS_KEEP_DAYS_MIN)


def _tokens_keep_days(settings: Settings) -> int:
    return settings.tokens_keep_days


def _unused_requests_keep_days(settings: Settings) -> float:
    """Return the days from the end of `consent_minutes` to an hour after the page was shown."""
    return max(UNUSED_REQUESTS_KEEP_MINUTES - settings.consent_minutes, 0) / (24 * 60)


RULES = (
    Rule(lambda settings: settings.idempotency_keep_days, _keys_of("create_order")),
    Rule(lambda settings: settings.idempotency_keep_days, _keys_of("cancel_order")),
    Rule(lambda settings: settings.idempotency_keep_days, _keys_of("operator_cancel_order")),
    Rule(_refund_keys_keep_days, _keys_of("refund_order")),
    Rule(_refund_keys_keep_days, _keys_of("operator_refund_order")),
    Rule(lambda settings: settings.idempotency_keep_days, _keys_of("create_action")),
    Rule(lambda settings: settings.idempotency_keep_days, _keys_of("cancel_action")),
    Rule(
        lambda settings: settings.idempotency_keep_days,
        prune("print_actions", "action_id", "updated_ms", "o.content IS NULL"),
    ),
    Rule(lambda _: PAUSED_KEEP_DAYS, _exhaust_paused),
    Rule(lambda settings: settings.deliveries_keep_days, _prune_deliveries),
    Rule(lambda settings: settings.events_keep_days, events.prune),
    Rule(lambda _: PAYER_EMAILS_KEEP_DAYS, _prune_payer_emails),
    Rule(lambda _: SIMULATOR_KEEP_DAYS, _prune_simulator),
    Rule(_tokens_keep_days, prune("codes", "digest", "expires_ms")),
    Rule(_tokens_keep_days, prune("seller_sessions", "digest", "expires_ms")),
    Rule(_tokens_keep_days, prune("consent_requests", "digest", "expires_ms")),
    Rule(_unused_requests_keep_days, prune("consent_requests", "digest", "expires_ms", UNUSED)),
    Rule(_tokens_keep_days, prune("device_tokens", "digest", "revoked_ms")),
    Rule(_tokens_keep_days, prune("terminal_sessions", "terminal_id, boot_id", "created_ms", SUPERSEDED)),
)
"""Token families have an age of their own, see `oauth.retention`."""

PruneOfOperators = Callable[[Transaction, int, int], Awaitable[int]]
OF_OPERATORS: tuple[PruneOfOperators, ...] = (operator_sessions.prune, operator_links.prune)
"""Delete rows without a seller that expired before an instant, at most a number of them. Kept as tokens are."""

# The worker ------------------------------------------------------------------------------------------------------


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Sweep about once an hour until `stop` is set, each node at random times."""
    pause = FIRST_SWEEP_SECONDS_MAX * random.random()  # noqa: S311 - jitter, not a secret
    while not stop.is_set():
        with context.database.signals.subscribe("clock", "stop") as waiter:
            await waiter.wait(pause)
        if not stop.is_set():
            await Sweep(context, stop).run()
        pause = SWEEP_INTERVAL_SECONDS * (1 + JITTER * random.random())  # noqa: S311 - jitter, not a secret


class Sweep:
    """One pass over all sellers. Any number of nodes may run one: rows that one has locked the others skip.

    Every step reads the clock: one that jumped raises `ClockNotTrusted`, which ends the sweep.
    """

    def __init__(self, context: WorkerContext, stop: asyncio.Event, *, step_rows_max: int = STEP_ROWS_MAX) -> None:
        self._context, self._stop, self._step_rows_max = context, stop, step_rows_max
        self.rows = 0

    async def run(self) -> int:
        """Delete old rows, seller by seller, and return how many. Ends early when `stop` is set."""
        page, after = SELLERS_PER_PAGE, 0
        while page == SELLERS_PER_PAGE and not self._stop.is_set():
            sellers = await self._context.database.read(partial(_sellers, after=after), heavy=True)
            page, after = len(sellers), max(sellers, default=0)
            # Nodes that start at the same time take different sellers.
            random.shuffle(sellers)
            for seller_id in sellers:
                await self._seller(seller_id)
        for prune_old in OF_OPERATORS:
            await self._operators(prune_old)
        if self.rows:
            log.info("rows_pruned", rows=self.rows)
        return self.rows

    async def _seller(self, seller_id: int) -> None:
        pruned = self._step_rows_max
        while pruned == self._step_rows_max and not self._stop.is_set():
            pruned = await self._step(partial(self._prune, seller_id=seller_id, now_ms=self._context.clock.now_ms()))
            self.rows += pruned
        await self._families(seller_id)

    async def _operators(self, prune_old: PruneOfOperators) -> None:
        pruned = self._step_rows_max
        while pruned == self._step_rows_max and not self._stop.is_set():
            pruned = await self._step(self._of_operators(prune_old))
            self.rows += pruned

    def _of_operators(self, prune_old: PruneOfOperators) -> Work[int]:
        before_ms = self._tokens_before_ms()
        return lambda tx: prune_old(tx, before_ms, self._step_rows_max)

    async def _prune(self, tx: Transaction, seller_id: int, now_ms: int) -> int:
        left = self._step_rows_max
        for rule in RULES:
            if left:
                before_ms = now_ms - round(rule.keep_days(self._context.settings) * DAY_MS)
                left -= await rule.prune(tx, seller_id, before_ms, left)
        return self._step_rows_max - left

    async def _families(self, seller_id: int) -> None:
        page, after = tokens.FAMILIES_PER_PAGE, b""
        while page == tokens.FAMILIES_PER_PAGE and not self._stop.is_set():
            read = partial(tokens.page_of_families, seller_id=seller_id, after=after)
            families = await self._context.database.read(read, heavy=True)
            for family in families:
                await self._family(seller_id, family)
            page, after = len(families), families[-1].family_id if families else b""

    async def _family(self, seller_id: int, family: tokens.FamilyAge) -> None:
        pruned = self._step_rows_max if family.is_due(self._tokens_before_ms()) else 0
        while pruned == self._step_rows_max and not self._stop.is_set():
            before_ms, limit = self._tokens_before_ms(), self._step_rows_max
            work = partial(tokens.prune_family, seller_id=seller_id, family=family, before_ms=before_ms, limit=limit)
            pruned = await self._step(work)
            self.rows += pruned

    async def _step(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await self._context.database.write(work)
        await asyncio.sleep(min((loop.time() - began) * REST_RATIO, REST_SECONDS_MAX))
        return result

    def _tokens_before_ms(self) -> int:
        return self._context.clock.now_ms() - self._context.settings.tokens_keep_days * DAY_MS


async def _sellers(tx: Transaction, after: int) -> list[int]:
    return [row[0] for row in await tx.all(SELLERS, after, SELLERS_PER_PAGE)]
