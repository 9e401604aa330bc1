"""The SQL of searches: one condition per filter, combined into a statement that counts and one that fetches a page.

Both scan a covering index within one month of one seller: a counted or skipped order costs an index entry, not a row.
"""

from __future__ import annotations

from functools import cache

from paydesk.engine.orders.order import Order
from paydesk.engine.orders.search.query import Search
from paydesk.engine.orders.store import COLUMNS
from paydesk.platform.storage.database import Transaction

WITHIN = "seller_id = $1 AND live = $2 AND created_ms >= $3 AND created_ms <= $4"

# By parameter name. The payment method is JSON written by msgspec, without spaces. An underscore in the value would
# match any character, so it is escaped.
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
    """Return the statement that counts matching orders by the index alone."""
    return f"SELECT COUNT(*) FROM orders WHERE {_where(names)}"


@cache
def page_sql(names: tuple[str, ...], *, newest_first: bool) -> str:
    """Return the statement that fetches a page: the index selects the orders, and only those rows are read."""
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


async def run(tx: Transaction, seller_id: int, search: Search, *, live: bool) -> tuple[int, list[Order]]:
    """Return the exact number of matching orders, and those of the requested page."""
    names = tuple(name for name, _ in search.filters)
    values = (
        value.replace("_", "!_") if name.startswith("payment_method") else value for name, value in search.filters
    )
    within = (seller_id, int(live), search.begin_ms, search.end_ms, *values)
    row = await tx.one(count_sql(names), *within)
    assert row is not None, "COUNT returns a row"
    total = int(row[0])
    if total <= search.offset:
        return total, []
    sql = page_sql(names, newest_first=search.newest_first)
    return total, [Order(*row) for row in await tx.all(sql, *within, search.limit, search.offset)]
