"""The figures of one day: how many orders, with which outcome, and for which amounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.limits.recent import Recent
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.core.response import Closed, Time
from paydesk.engine.orders.search.query import DAY_MS, instant_of
from paydesk.engine.orders.status_labels import Labels
from paydesk.operators.noun import ROWS
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row, Transaction

HOUR_MS, HOURS = 3_600_000, 24
APPROVED, DECLINED = ("processed", "refunded"), "failed"
"""Statuses of orders that were paid, and of orders whose payment was declined."""

# CROSS JOIN keeps the order on SQLite: sellers first, and of each the part of an index with the orders of the day.
_OF_DAY = """
  FROM sellers s CROSS JOIN orders o
 WHERE o.seller_id = s.seller_id AND o.live = $1 AND o.created_ms >= $2 AND o.created_ms < $3"""

COUNTS = f"""
SELECT o.currency, o.status, o.status_detail, (o.created_ms - $2) / {HOUR_MS} AS hour_of_day, COUNT(*),
       COUNT(o.paid_ms), SUM(COALESCE(o.paid_minor, 0)), SUM(o.refunded_minor)
{_OF_DAY}
 GROUP BY o.currency, o.status, o.status_detail, hour_of_day"""

# The row in the middle.
MEDIAN = f"""
SELECT o.paid_ms - o.created_ms AS duration_ms {_OF_DAY} AND o.paid_ms IS NOT NULL
 ORDER BY duration_ms LIMIT 1 OFFSET $4"""


def _day(text: str) -> int:
    """Return the first instant of a day. Raises `ValueError`."""
    try:
        first_ms, last_ms = instant_of(text)
    except ValueError:
        first_ms = last_ms = 0
    if last_ms - first_ms != DAY_MS - 1 or first_ms < 0:
        raise ValueError("must be a date, such as 2026-01-31")
    return first_ms


DAY = Query(
    "day",
    {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "examples": ["2026-01-31"]},
    "The day in UTC; the default is today.",
    check=_day,
)
LIVE = Query(
    "live",
    {"type": "boolean"},
    "Live orders (`true`) or test orders (`false`); the default is live orders, in `paydesk dev` test orders.",
)


class AmountFigures(Closed, frozen=True):
    """The amounts of one currency."""

    currency: str
    processed: Annotated[str, Meta(description="What was paid, tips included; refunds are not subtracted.")]
    refunded: Annotated[str, Meta(description="What was refunded of it so far.")]


class HourFigures(Closed, frozen=True):
    """The orders that were created within one hour."""

    date: Annotated[Time, Meta(description="When the hour began.")]
    orders: int
    processed: Annotated[int, Meta(description="Paid, whether or not they were refunded later.")]
    failed: int


class FiguresDocument(Closed, frozen=True, kw_only=True):
    """The figures of the orders that were created on one day."""

    day: str
    live_mode: bool
    orders: int
    statuses: Annotated[dict[str, int], Meta(description="The number of orders by their status now.")]
    amounts: list[AmountFigures]
    hours: Annotated[list[HourFigures], Meta(description="The 24 hours of the day in UTC.")]
    approval_rate: (
        Annotated[float, Meta(description="Of the orders that were paid or declined, the part that was paid.")] | None
    ) = None
    median_ms: Annotated[int, Meta(description="The median time from creation to payment.")] | None = None


class RecentFigures(Recent):
    """The figures of days."""


async def get(call: Call) -> Answer:
    """Return the figures of a day, up to 20 s old if they take long to compute. Raises `PROPERTY_VALUE`."""
    filters = Filters((DAY, LIVE), call.query)
    filters.refuse_faults()
    begin_ms = filters.get("day", call.now_ms // DAY_MS * DAY_MS)
    live, labels = bool(filters.get("live", not call.shared.development)), call.shared.objects[Labels]
    read = call.database.read
    compute = partial(read, lambda tx: figures(tx, begin_ms, labels, live=live), heavy=True)
    return Answer(200, await call.shared.objects[RecentFigures].get((begin_ms, live), compute))


async def figures(tx: Transaction, begin_ms: int, labels: Labels, *, live: bool) -> FiguresDocument:
    """Return the figures of the day that begins then."""
    of_day = int(live), begin_ms, begin_ms + DAY_MS
    rows = await tx.all(COUNTS, *of_day)
    paid_orders = sum(row[5] for row in rows)
    median = await tx.one(MEDIAN, *of_day, (paid_orders - 1) // 2) if paid_orders else None
    statuses, paid, refunded = Counter[str](), Counter[str](), Counter[str]()
    for currency, status, detail, _, count, _, paid_minor, refunded_minor in rows:
        statuses[labels.of_status(status, detail)] += count
        paid[currency] += int(paid_minor)
        refunded[currency] += int(refunded_minor)
    hours = []
    for hour in range(HOURS):
        own, begun = [row for row in rows if row[3] == hour], rfc3339(begin_ms + hour * HOUR_MS)
        hours.append(HourFigures(begun, _count(own), _count(own, *APPROVED), _count(own, DECLINED)))
    approved, declined = _count(rows, *APPROVED), _count(rows, DECLINED)
    return FiguresDocument(
        day=rfc3339(begin_ms)[:10],
        live_mode=live,
        orders=_count(rows),
        statuses=dict(sorted(statuses.items())),
        amounts=[
            AmountFigures(
                currency, *(decimal_string(of[currency], CURRENCIES[currency].decimals) for of in (paid, refunded))
            )
            for currency in sorted(paid)
        ],
        hours=hours,
        approval_rate=round(approved / (approved + declined), 4) if approved + declined else None,
        median_ms=median[0] if median is not None else None,
    )


def _count(rows: Sequence[Row], *statuses: str) -> int:
    return sum(count for _, status, _, _, count, *_ in rows if not statuses or status in statuses)


OPERATIONS = (
    ROWS.get(
        "figures",
        "operator_figures",
        get,
        summary="Get the figures of a day",
        description=(
            "Of the orders that were created on that day, in UTC: numbers by status and hour, amounts by currency, the"
            " approval rate, and the median time to the payment. On a busy service they are up to 20 s old."
        ),
        answer=FiguresDocument,
        transaction="none",
        query=(DAY, LIVE),
        errors=(PROPERTY_VALUE,),
    ),
)
