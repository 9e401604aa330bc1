"""What the workers do next without a request: the earliest deadline or attempt that is still to come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paydesk.engine.orders import expiry
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.expiry import Deadline
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmations, inquiries, reversals
from paydesk.engine.payments.lifecycles import CONFIRMATIONS, INQUIRIES, REFUNDS, REVERSALS
from paydesk.engine.payments.refunds import attempts as refunds
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.webhooks import schedule
from paydesk.engine.webhooks.delivery import store as deliveries
from paydesk.platform.storage.database import Transaction
from paydesk_dev.schemas import DueKind

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

ROWS_MAX = 500
CLOCK_MS_MAX = 4_102_444_800_000
"""The end of 2099. The clock of development does not go beyond it."""

COUNT_CONFIRMATIONS = f"SELECT count(*) FROM confirmations WHERE {CONFIRMATIONS.open} AND next_ms = $1"
COUNT_REFUNDS = f"SELECT count(*) FROM refunds WHERE {REFUNDS.open} AND next_ms = $1"
COUNT_INQUIRIES = f"SELECT count(*) FROM inquiries WHERE {INQUIRIES.open} AND next_ms = $1"
COUNT_REVERSALS = f"SELECT count(*) FROM reversals WHERE {REVERSALS.open} AND next_ms = $1"
COUNT_DELIVERIES = f"SELECT count(*) FROM deliveries WHERE {schedule.PENDING} AND next_ms = $1"


@dataclass(frozen=True, slots=True)
class Due:
    """How many of a kind become due at a time."""

    kind: DueKind
    due_ms: int
    count: int


FindNext = Callable[[Transaction, "Settings", int], Awaitable[tuple[int, int] | None]]
"""Returns the next time of a kind after now, and how many are due then; None if there is none."""


def _order(deadline: Deadline, begin_ms: Callable[[Order], int | None]) -> FindNext:
    async def find_next(tx: Transaction, settings: Settings, now_ms: int) -> tuple[int, int] | None:
        after_ms = deadline.after_seconds(settings) * 1000
        waiting = await orders.due(tx, deadline.sql, CLOCK_MS_MAX, ROWS_MAX)
        return _earliest(((begin_ms(order) or 0) + after_ms for order in waiting), now_ms)

    return find_next


def _attempt(next_ms: Callable[[Transaction, int], Awaitable[int | None]], count: str) -> FindNext:
    async def find_next(tx: Transaction, _settings: Settings, now_ms: int) -> tuple[int, int] | None:
        # Deliveries that wait for an earlier one, or for a paused subscription, have a later time. There may be many.
        due_ms = await next_ms(tx, now_ms)
        if due_ms is None or due_ms > CLOCK_MS_MAX:
            return None
        row = await tx.one(count, due_ms)
        assert row is not None, "an aggregate has a row"
        return due_ms, row[0]

    return find_next


async def _print_action(tx: Transaction, _settings: Settings, now_ms: int) -> tuple[int, int] | None:
    waiting = await action_store.overdue(tx, CLOCK_MS_MAX, ROWS_MAX)
    return _earliest((action.expires_ms for action in waiting), now_ms)


KINDS: dict[DueKind, FindNext] = {
    "order_expiry": _order(expiry.EXPIRY, lambda order: order.expires_ms),
    "outcome_deadline": _order(expiry.UNKNOWN_OUTCOME, lambda order: order.permitted_ms),
    "cancel_deadline": _order(expiry.CANCEL_TIMEOUT, lambda order: order.cancel_requested_ms),
    "print_action_expiry": _print_action,
    "confirmation": _attempt(confirmations.JOB.next_ms, COUNT_CONFIRMATIONS),
    "refund_attempt": _attempt(refunds.JOB.next_ms, COUNT_REFUNDS),
    "inquiry": _attempt(inquiries.JOB.next_ms, COUNT_INQUIRIES),
    "reversal_attempt": _attempt(reversals.JOB.next_ms, COUNT_REVERSALS),
    "webhook_delivery": _attempt(deliveries.next_due_ms, COUNT_DELIVERIES),
}
"""One entry for each worker that waits for a time of the service's clock."""


async def find(tx: Transaction, settings: Settings, now_ms: int) -> Due | None:
    """Return what becomes due next, after `now_ms` and before the year 2100, or None."""
    earliest: Due | None = None
    for kind, find_next in KINDS.items():
        at = await find_next(tx, settings, now_ms)
        if at is not None and at[0] <= CLOCK_MS_MAX and (earliest is None or at[0] < earliest.due_ms):
            earliest = Due(kind, *at)
    return earliest


def _earliest(times: Iterable[int], now_ms: int) -> tuple[int, int] | None:
    later = [due_ms for due_ms in times if due_ms > now_ms]
    return (min(later), later.count(min(later))) if later else None
