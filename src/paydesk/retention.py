"""What is forgotten, and when: the table of it, and the worker that goes from seller to seller in small steps.

Orders, their events, leases, results, refunds, inquiries and what operators did are the history: they stay.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import structlog

from paydesk.core import idempotency
from paydesk.events import store as events
from paydesk.oauth import retention as tokens
from paydesk.oauth.consent import requests, sessions
from paydesk.sandbox.simulator import retention as book
from paydesk.settings import Settings
from paydesk.storage.database import Transaction, Work
from paydesk.terminals import retention as terminals
from paydesk.webhooks import retention as deliveries

if TYPE_CHECKING:
    from paydesk.core.worker import WorkerContext

DAY_MS = 86_400_000
REFUND_KEYS_KEEP_DAYS_MIN = 120
"""An order can be refunded for 90 days after its payment, and a refund's key must outlive that."""
BOOK_KEEP_DAYS = 180
"""Of the simulated acquirer: nothing of an order is asked of it so long after."""

STEP_ROWS_MAX = 100
REST_RATIO = 3.0
"""A step is followed by a rest three times as long: at most a quarter of one core, and less where a node is busy."""
REST_SECONDS_MAX = 5.0
SELLERS_PER_PAGE = 500
FIRST_SWEEP_SECONDS_MAX = 60.0
SWEEP_AGAIN_SECONDS = 3600.0
JITTER = 0.2

SELLERS = "SELECT seller_id FROM sellers WHERE seller_id > $1 ORDER BY seller_id LIMIT $2"

log = structlog.get_logger("retention")
T = TypeVar("T")
Prune = Callable[[Transaction, int, int, int], Awaitable[int]]
"""Forgets rows of a seller that ended before an instant, at most so many; how many."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows of one kind, and for how many days they are kept after their end."""

    kind: str
    keep_days: Callable[[Settings], int]
    prune: Prune


def _keys_of(operation: str) -> Prune:
    return partial(idempotency.prune, operation=operation)


RULES = (
    Rule("keys of creates", lambda settings: settings.idempotency_keep_days, _keys_of("create_order")),
    Rule("keys of cancels", lambda settings: settings.idempotency_keep_days, _keys_of("cancel_order")),
    Rule(
        "keys of refunds",
        lambda settings: max(settings.idempotency_keep_days, REFUND_KEYS_KEEP_DAYS_MIN),
        _keys_of("refund_order"),
    ),
    Rule("deliveries", lambda settings: settings.deliveries_keep_days, deliveries.prune_deliveries),
    Rule("places in the feeds of events", lambda settings: settings.events_keep_days, events.forget),
    Rule("the simulated acquirer's book", lambda _: BOOK_KEEP_DAYS, book.prune),
    Rule("codes", lambda settings: settings.tokens_keep_days, tokens.prune_codes),
    Rule("sellers' sessions", lambda settings: settings.tokens_keep_days, sessions.prune),
    Rule("what sellers were asked", lambda settings: settings.tokens_keep_days, requests.prune),
    Rule("device tokens", lambda settings: settings.tokens_keep_days, terminals.prune_device_tokens),
    Rule("sessions", lambda settings: settings.tokens_keep_days, terminals.prune_sessions),
)


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Sweep now and then until told to stop; each node at times of its own."""
    pause = FIRST_SWEEP_SECONDS_MAX * random.random()  # noqa: S311 - jitter spreads load, it hides nothing
    while not stop.is_set():
        with context.database.signals.subscribe("clock", "stop") as waiter:
            await waiter.wait(pause)
        if not stop.is_set():
            await Sweep(context, stop).run()
        pause = SWEEP_AGAIN_SECONDS * (1 + JITTER * random.random())  # noqa: S311 - the same


class Sweep:
    """One pass over all sellers. Any number of nodes may be at it: what one holds the others leave alone.

    Every step asks for the time anew: a clock that jumped meanwhile raises, and ends the sweep.
    """

    def __init__(self, context: WorkerContext, stop: asyncio.Event, *, step_rows_max: int = STEP_ROWS_MAX) -> None:
        self._context, self._stop, self._step_rows_max = context, stop, step_rows_max
        self.rows = 0

    async def run(self) -> int:
        """Forget what is old enough, seller by seller; how many rows. Ends early when told to stop."""
        page, after = SELLERS_PER_PAGE, 0
        while page == SELLERS_PER_PAGE and not self._stop.is_set():
            sellers = await self._context.database.read(partial(_sellers, after=after), heavy=True)
            page, after = len(sellers), max(sellers, default=0)
            # Nodes that begin together part.
            random.shuffle(sellers)
            for seller_id in sellers:
                await self._seller(seller_id)
        if self.rows:
            log.info("forgotten", rows=self.rows)
        return self.rows

    async def _seller(self, seller_id: int) -> None:
        pruned = self._step_rows_max
        while pruned == self._step_rows_max and not self._stop.is_set():
            pruned = await self._step(partial(self._prune, seller_id=seller_id, now_ms=self._context.clock.now_ms()))
            self.rows += pruned
        await self._families(seller_id)

    async def _prune(self, tx: Transaction, seller_id: int, now_ms: int) -> int:
        left = self._step_rows_max
        for rule in RULES:
            if left:
                before_ms = now_ms - rule.keep_days(self._context.settings) * DAY_MS
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
