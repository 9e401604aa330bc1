"""Jobs that call the acquirer: the open rows of a table, each claimed by one node for an attempt.

Every attempt of a job has the same idempotency key at the acquirer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import Any, TypeVar

import msgspec
import structlog

from paydesk.core.crash_points import reached
from paydesk.core.lifecycle import Lifecycle
from paydesk.engine.orders.change import Change
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.lifecycles import CONFIRMATIONS, INQUIRIES, REFUNDS, REVERSALS
from paydesk.engine.payments.refund import Refund
from paydesk.platform.jobs import Claim, Job, JobWorker
from paydesk.platform.metrics.database import COUNTED_MAX, Reading, jobs, owed
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext

DUE_ROWS_MAX = 2_000
"""Among them are rows of each acquirer, also when many rows of a silent acquirer are due."""
LEASE_MARGIN_SECONDS = 5
"""For the commits between an inquiry and a reversal after it."""
CONCURRENT_JOBS_MAX, CONCURRENT_AT_ONE_ACQUIRER_MAX = 16, 8
"""Jobs of a kind on one node: an acquirer that is silent does not hold up the others."""

Group = tuple[int, int, str | None]
"""A seller's jobs at one acquirer: the seller, whether they are live, and the acquirer's name in the orders."""

NEVER_MS = 253_402_300_799_000
"""The time of the next attempt of a job that only a person can end: the end of the year 9999."""

RELEASE_ALL = tuple(
    f"UPDATE {jobs.table} SET claimed_until_ms = 0 WHERE claimed_until_ms > 0 AND {jobs.open}"
    for jobs in (INQUIRIES, REVERSALS, REFUNDS, CONFIRMATIONS)
)

log = structlog.get_logger("acquirer")


class OpenJob(msgspec.Struct, frozen=True):
    """The first columns of an open row of `inquiries`, `reversals` or `confirmations`."""

    seller_id: int
    order_id: str
    live: int
    attempts: int
    created_ms: int


T = TypeVar("T", bound=OpenJob | Refund)


class AcquirerJob(Job[Group, T]):
    """A kind of job at the acquirer: the open rows of a table, claimed by seller and acquirer, and their attempts.

    `row` has the columns that a claim returns; `key` names the column that identifies a seller's row; `process` makes
    an attempt of a claimed row. Rows that are `excluded`, a condition in SQL, wait.
    """

    topic = "money"
    log = log
    failure = "job_failed"

    def __init__(
        self,
        noun: str,
        lifecycle: Lifecycle,
        row: type[T],
        key: str,
        process: Callable[[WorkerContext, AcquirerJob[T], T], Awaitable[None]],
        *,
        excluded: str = "FALSE",
    ) -> None:
        self._noun, self._row, self._key, self._process = noun, row, key, process
        table, is_open = lifecycle.table, lifecycle.open
        is_due = f"{is_open} AND NOT {excluded}"
        # $1 is the service's time, $2 the machine's.
        self.groups_due = f"""
SELECT due.seller_id, due.live, o.acquirer
  FROM (SELECT seller_id, order_id, live, next_ms FROM {table}
         WHERE {is_due} AND next_ms <= $1 AND claimed_until_ms <= $2 ORDER BY next_ms LIMIT $3) due
  JOIN orders o ON o.seller_id = due.seller_id AND o.order_id = due.order_id
 ORDER BY due.next_ms"""
        self.next_due = f"SELECT min(next_ms) FROM {table} WHERE {is_open} AND next_ms > $1"
        self.claim_due = f"""
UPDATE {table} SET claimed_until_ms = $4, attempts = attempts + 1
 WHERE seller_id = $1 AND {key} IN (WITH chosen AS MATERIALIZED (
       SELECT {key} FROM {table}
        WHERE seller_id = $1 AND {is_due} AND next_ms <= $2 AND claimed_until_ms <= $3 AND live = $6
          AND (SELECT o.acquirer FROM orders o WHERE o.seller_id = $1 AND o.order_id = {table}.order_id)
              IS NOT DISTINCT FROM CAST($7 AS text)
        ORDER BY next_ms LIMIT $5 FOR UPDATE OF {table} SKIP LOCKED) SELECT * FROM chosen)
RETURNING {", ".join(row.__struct_fields__)}"""
        # Of live rows, then of test rows: how many are open, counted up to a limit, and the oldest. The first one due.
        live, test = (f"FROM {table} WHERE live = {mode} AND {is_open} AND seller_id > 0" for mode in (1, 0))
        self.read_open = f"""
SELECT (SELECT COUNT(*) FROM (SELECT 1 {live} LIMIT {COUNTED_MAX}) AS counted), (SELECT MIN(created_ms) {live}),
       (SELECT COUNT(*) FROM (SELECT 1 {test} LIMIT {COUNTED_MAX}) AS counted), (SELECT MIN(created_ms) {test}),
       (SELECT next_ms FROM {table} WHERE {is_due} ORDER BY next_ms LIMIT 1)"""
        kind = noun.removesuffix(" of")
        columns = *jobs(kind, live=True), *jobs(kind, live=False), *owed(f"payments.{table}")
        self.reading = Reading(self.read_open, columns)
        # `attempts` guards against an attempt whose lease has expired: only the latest attempt may reschedule.
        self.postpone_open = f"""
UPDATE {table} SET next_ms = $4, claimed_until_ms = 0
 WHERE seller_id = $1 AND {key} = $2 AND attempts = $3 AND {is_open}"""
        self.alert_open = f"""
UPDATE {table} SET alerted_ms = $3 WHERE seller_id = $1 AND {key} = $2 AND {is_open} AND alerted_ms IS NULL"""

    async def run(self, context: WorkerContext, stop: asyncio.Event) -> None:
        """Process jobs until `stop` is set."""
        await JobWorker(context, self).run(stop)

    def lease_seconds(self, context: WorkerContext) -> float:
        """Return how long a claim lasts: for two answers of the slowest acquirer, and the commits."""
        return 2 * context.objects[Acquirers].answer_seconds_max + LEASE_MARGIN_SECONDS

    async def groups(self, database: Database, now_ms: int, wall_ms: int) -> AsyncGenerator[Group, None]:
        """Yield the sellers and acquirers that have due, unclaimed rows; the longest overdue first."""
        rows = await database.read(lambda tx: tx.all(self.groups_due, now_ms, wall_ms, DUE_ROWS_MAX))
        for seller_id, live, acquirer in dict.fromkeys(tuple(row) for row in rows):
            yield seller_id, live, acquirer

    def free(self, group: Group, running: Collection[Group]) -> int:
        """Return how many more attempts may start."""
        at_acquirer = sum(other[1:] == group[1:] for other in running)
        return min(CONCURRENT_JOBS_MAX - len(running), CONCURRENT_AT_ONE_ACQUIRER_MAX - at_acquirer)

    async def claim(self, tx: Transaction, group: Group, claim: Claim) -> list[T]:
        """Claim due rows of the group, for one attempt each."""
        seller_id, live, acquirer = group
        times = claim.now_ms, claim.wall_ms, claim.until_ms
        rows = await tx.all(self.claim_due, seller_id, *times, claim.limit, live, acquirer)
        return [self._row(*row) for row in rows]

    async def next_ms(self, tx: Transaction, now_ms: int) -> int | None:
        """Return when the next row becomes due."""
        row = await tx.one(self.next_due, now_ms)
        return row[0] if row else None

    async def attempt(self, context: WorkerContext, row: T) -> None:
        """Make one attempt."""
        reached("claimed")
        await self._process(context, self, row)

    def name(self, row: T) -> str:
        """Return the job's name in the log."""
        return f"{self._noun} {self._id(row)}"

    def row_facts(self, row: T) -> dict[str, Any]:
        """Return the seller and the order of the row in the log."""
        return {"order": row.order_id, "seller_id": row.seller_id}

    async def postpone(self, tx: Transaction, row: T, next_ms: int) -> None:
        """Schedule the next attempt for `next_ms`, unless a later attempt has begun."""
        await tx.run(self.postpone_open, row.seller_id, self._id(row), row.attempts, next_ms)

    async def mark_alerted(self, change: Change, row: T) -> bool:
        """Record that operators are alerted; False if they were before, or the job has ended."""
        return bool(await change.tx.run(self.alert_open, row.seller_id, self._id(row), change.now_ms))

    def _id(self, row: T) -> str:
        identity: str = getattr(row, self._key)
        return identity


async def release_all(database: Database) -> None:
    """Release the claims of a killed node, before the node starts: a SQLite file has one node at a time."""
    if database.name != "sqlite":
        return

    async def work(tx: Transaction) -> None:
        for sql in RELEASE_ALL:
            await tx.run(sql)

    await database.write(work)


def next_attempt_ms(attempts: int, now_ms: int, pauses_seconds: tuple[int, ...]) -> int:
    """Return when to retry after `attempts` attempts; the last pause repeats."""
    return now_ms + pauses_seconds[min(attempts, len(pauses_seconds)) - 1] * 1000


def describe(outcome: Any) -> str:
    """Return the kind and reason of a result for the log, without card data."""
    reason = getattr(outcome, "reason", "") or getattr(outcome, "detail", "")
    return f"{type(outcome).__name__}{reason and f': {reason}'}"
