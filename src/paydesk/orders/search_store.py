"""The SQL of searches: one condition a filter, put together to a statement that counts and one that fetches a page.

Both go along an index that has all that is asked for, within one month of one seller: what is counted or skipped costs
an entry of the index, never an order.
"""

from __future__ import annotations

from functools import cache

from paydesk.orders import status_labels
from paydesk.orders.order import Order
from paydesk.orders.searching import Search
from paydesk.orders.store import COLUMNS
from paydesk.storage.database import Transaction

WITHIN = "seller_id = $1 AND live = $2 AND created_ms >= $3 AND created_ms <= $4"

# By the name of what is filtered. The JSON of a payment method is msgspec's own, so what is looked for stands in it
# as it is written here; an underscore would match anything, and is escaped.
CONDITIONS = {
    "external_reference": "external_reference = {}",
    "status": "status = {}",
    "status_detail": "status_detail = {}",
    "not_status_detail": "status_detail <> {}",
    "payment_method_id": "payment_method LIKE '%\"id\":\"' || CAST({} AS text) || '\"%' ESCAPE '!'",
    "payment_method_type": "payment_method LIKE '%\"type\":\"' || CAST({} AS text) || '\"%' ESCAPE '!'",
    "terminal_id": "terminal_id = {}",
}


@cache
def count_sql(names: tuple[str, ...]) -> str:
    """Counts what is found, off the index alone."""
    return f"SELECT COUNT(*) FROM orders WHERE {_where(names)}"


@cache
def page_sql(names: tuple[str, ...], *, newest_first: bool) -> str:
    """Fetches a page: the index says which orders stand on it, and only those are read."""
    order = "DESC" if newest_first else "ASC"
    by_date = f"ORDER BY created_ms {order}, order_id {order}"
    limit, offset = (f"${len(names) + place}" for place in (5, 6))
    return f"""
SELECT {COLUMNS} FROM orders
WHERE seller_id = $1 AND order_id IN (
      SELECT order_id FROM orders WHERE {_where(names)} {by_date} LIMIT {limit} OFFSET {offset})
{by_date}"""


def _where(names: tuple[str, ...]) -> str:
    conditions = (CONDITIONS[name].format(f"${place}") for place, name in enumerate(names, start=5))
    return " AND ".join((WITHIN, *conditions))


async def count(tx: Transaction, seller_id: int, search: Search, *, live: bool) -> int:
    """How many orders the search finds, exactly."""
    names, values = _filters(search)
    row = await tx.one(count_sql(names), seller_id, int(live), search.begin_ms, search.end_ms, *values)
    assert row is not None, "a count is a row"
    return int(row[0])


async def page(tx: Transaction, seller_id: int, search: Search, *, live: bool) -> list[Order]:
    """The orders that stand on the page that is asked for."""
    names, values = _filters(search)
    rows = await tx.all(
        page_sql(names, newest_first=search.newest_first),
        seller_id,
        int(live),
        search.begin_ms,
        search.end_ms,
        *values,
        search.limit,
        search.offset,
    )
    return [Order(*row) for row in rows]


def _filters(search: Search) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the conditions, and what they compare with."""
    pairs: list[tuple[str, str]] = []
    for name, value in search.filters:
        if name == "status":
            pairs += _told_as(value)
        else:
            pairs.append((name, value.replace("_", "!_") if name.startswith("payment_method") else value))
    return tuple(name for name, _ in pairs), tuple(value for _, value in pairs)


def _told_as(status: str) -> list[tuple[str, str]]:
    """The rows whose status is told as this one."""
    detail, others = status_labels.within(status)
    if detail is not None:
        return [("status_detail", detail)]
    return [("status", status), *(("not_status_detail", other) for other in others)]
