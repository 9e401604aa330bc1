"""What is deleted, and when: the rules of all domains, and the worker that applies them to each seller in small steps.

Orders, their events, leases, results, refunds, inquiries and the operators' audit trail are history and stay. Only
the buyer's e-mail address is deleted from an order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import structlog

from paydesk.console import sessions as operator_sessions
from paydesk.engine.events import store as events
from paydesk.engine.oauth import retention as tokens
from paydesk.engine.orders import expiry as orders
from paydesk.engine.payments.simulator import retention as simulator
from paydesk.engine.sellers import sessions as seller_sessions
from paydesk.engine.terminals import retention as terminals
from paydesk.engine.webhooks import retention as webhooks
from paydesk.operators.accounts import links as operator_links
from paydesk.platform.operation import Operation
from paydesk.platform.retention import DAY_MS, Rule, prune
from paydesk.platform.storage.database import Transaction, Work
from paydesk.platform.worker import WorkerContext
from paydesk.service.api import OWN

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


def _of_keys(operation: Operation) -> Rule:
    """Return the rule of an operation's idempotency keys."""
    key = "application_id, live, operation, object_id, idempotency_key"
    pruned = prune("idempotency_keys", key, "created_ms", f"o.operation = '{operation.name}'")
    return Rule(lambda settings: max(settings.idempotency_keep_days, operation.keys_kept_days_min), pruned)


RULES: tuple[Rule, ...] = (
    *(_of_keys(operation) for operation in OWN.documented if operation.idempotent),
    *webhooks.RULES,
    *events.RULES,
    *orders.RULES,
    *simulator.RULES,
    *tokens.RULES,
    *seller_sessions.RULES,
    *terminals.RULES,
)

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
