"""What is deleted, and when: the rules of all domains, and the worker that applies them to each seller in small steps.

Orders, their events, leases, results, refunds, inquiries and the operators' audit trail are history and stay. Only
the buyer's e-mail address is deleted from an order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from paydesk.console import sessions as operator_sessions
from paydesk.engine.events import store as events
from paydesk.engine.oauth import retention as tokens
from paydesk.engine.orders import expiry as orders
from paydesk.engine.payments.simulator import retention as simulator
from paydesk.engine.sellers import sessions as seller_sessions
from paydesk.engine.terminals import retention as terminals
from paydesk.engine.webhooks import retention as webhooks
from paydesk.engine.webhooks.schemas import OPERATORS
from paydesk.operators.accounts import links as operator_links
from paydesk.platform.operation import Operation
from paydesk.platform.retention import DAY_MS, Rule, prune
from paydesk.platform.storage.database import Transaction
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

Prune = Callable[..., Awaitable[int]]
"""Deletes rows that are old at `now_ms` in a transaction, at most as many as a step may, and returns how many."""
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
        await self._seller(OPERATORS)
        for prune_old in OF_OPERATORS:
            await self._steps(partial(self._of_operators, prune_old=prune_old))
        if self.rows:
            log.info("rows_pruned", rows=self.rows)
        return self.rows

    async def _steps(self, prune: Prune) -> None:
        """Prune in one step after another, until one deletes fewer rows than it may or `stop` is set."""
        loop, pruned = asyncio.get_running_loop(), self._step_rows_max
        while pruned == self._step_rows_max and not self._stop.is_set():
            work = partial(prune, now_ms=self._context.clock.now_ms())
            began = loop.time()
            pruned = await self._context.database.write(work)
            await asyncio.sleep(min((loop.time() - began) * REST_RATIO, REST_SECONDS_MAX))
            self.rows += pruned

    async def _seller(self, seller_id: int) -> None:
        await self._steps(partial(self._of_seller, seller_id=seller_id))
        page, after = tokens.FAMILIES_PER_PAGE, b""
        while page == tokens.FAMILIES_PER_PAGE and not self._stop.is_set():
            read = partial(tokens.page_of_families, seller_id=seller_id, after=after)
            families = await self._context.database.read(read, heavy=True)
            for family in families:
                if family.is_due(self._tokens_before_ms(self._context.clock.now_ms())):
                    await self._steps(partial(self._of_family, seller_id=seller_id, family=family))
            page, after = len(families), families[-1].family_id if families else b""

    async def _of_seller(self, tx: Transaction, now_ms: int, seller_id: int) -> int:
        left = self._step_rows_max
        for rule in RULES:
            if left:
                before_ms = now_ms - round(rule.keep_days(self._context.settings) * DAY_MS)
                left -= await rule.prune(tx, seller_id, before_ms, left)
        return self._step_rows_max - left

    async def _of_family(self, tx: Transaction, now_ms: int, seller_id: int, family: tokens.FamilyAge) -> int:
        return await tokens.prune_family(tx, seller_id, family, self._tokens_before_ms(now_ms), self._step_rows_max)

    async def _of_operators(self, tx: Transaction, now_ms: int, prune_old: PruneOfOperators) -> int:
        return await prune_old(tx, self._tokens_before_ms(now_ms), self._step_rows_max)

    def _tokens_before_ms(self, now_ms: int) -> int:
        return now_ms - self._context.settings.tokens_keep_days * DAY_MS


async def _sellers(tx: Transaction, after: int) -> list[int]:
    return [row[0] for row in await tx.all(SELLERS, after, SELLERS_PER_PAGE)]
