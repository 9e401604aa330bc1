"""A search sorts, skips and counts along an index alone, whatever is asked for; orders are read of one page only.

The seller has half of all orders, and they are all of the month that is searched: no range is as large.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import asyncpg
import pytest
from bench import bulk

from paydesk.engine.orders.search.store import CONDITIONS, count_sql, page_sql
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Row, Transaction
from paydesk.platform.storage.postgres.connections import BY_KEY
from paydesk.platform.storage.statements import without_comments
from waiting import HANGS_SECONDS

ORDERS = 100_000
SELLER = 1_000_001
SINCE_MS = 1_800_000_000_000
VALUES = {
    "external_reference": "ext_ref_1000000010",
    "status": "processed",
    "status_detail": "processed",
    "not_status_detail": "expired",
    "payment_method_id": "visa",
    "payment_method_type": "credit!_card",
    "terminal_id": "NEWLAND_N950__N100000010",
}
ASKED = [
    (),
    *((name,) for name in CONDITIONS),
    *itertools.combinations(("status", "payment_method_id", "terminal_id", "external_reference"), 2),
    ("status", "not_status_detail", "not_status_detail"),
    tuple(CONDITIONS),
]
WITHOUT_INDEX = (
    "SELECT COUNT(*) FROM orders WHERE seller_id = $1 AND live = $2 AND created_ms >= $3 AND description = $4"
)
"""The plans of this one must be seen to be wrong."""
INDEXES = {"orders_searched", "orders_by_reference"}
IN_ORDER = ("Index Only Scan", "Index Scan")


def searches() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield every statement of a search with its arguments."""
    for names in ASKED:
        values = (SELLER, 0, SINCE_MS, SINCE_MS + ORDERS * 1000, *(VALUES[name] for name in names))
        yield count_sql(names), values
        for newest_first in (True, False):
            yield page_sql(names, newest_first=newest_first), (*values, 50, 1000)


async def test_a_search_uses_its_index_on_sqlite(sqlite_url: str) -> None:
    """Every range is bounded by dates, only a page is sorted, and counting uses the index alone."""
    database = await open_database(sqlite_url)
    wrong = {}
    for sql, args in (*searches(), (WITHOUT_INDEX, (SELLER, 0, SINCE_MS, "x"))):
        steps = [row[3] for row in await database.read(partial(_explained, sql=sql, args=args))]
        if found := [step for step in steps if not _is_bounded(step)]:
            wrong[sql] = found
    await database.close()
    assert wrong.pop(WITHOUT_INDEX)
    assert not wrong, json.dumps(wrong, indent=1)


async def _explained(tx: Transaction, sql: str, args: tuple[Any, ...]) -> list[Row]:
    return await tx.all(f"EXPLAIN QUERY PLAN {sql}", *args)


def _is_bounded(step: str) -> bool:
    """Return whether the step is by key, or within dates along an index that covers it or has one reference."""
    if step.startswith(("LIST SUBQUERY", "USE TEMP B-TREE FOR ORDER BY")):
        # Of the page: a step of the subquery that sorts would say so after its own search.
        return True
    if "sqlite_autoindex_orders_1 (seller_id=? AND order_id=?)" in step:
        return True
    if not step.endswith("created_ms>? AND created_ms<?)"):
        return False
    return "USING COVERING INDEX orders_searched" in step or "INDEX orders_by_reference" in step


async def test_skipped_orders_are_not_sorted_on_sqlite(sqlite_url: str) -> None:
    """The subquery is in index order: only the page itself is sorted."""
    database = await open_database(sqlite_url)
    for sql, args in searches():
        rows = await database.read(partial(_explained, sql=sql, args=args))
        sorts = [row for row in rows if "TEMP B-TREE" in row[3]]
        assert all(row[1] == 0 for row in sorts), [row[3] for row in rows]
    await database.close()


async def test_a_search_uses_its_index_on_postgres(postgres_url: str) -> None:
    """No step of a plan reads orders that are not on the page."""
    database = await open_database(postgres_url, timeout_seconds=HANGS_SECONDS)
    raw = await asyncpg.connect(postgres_url)
    try:
        await raw.execute("ALTER TABLE orders SET UNLOGGED")
        await bulk.fill(database, SELLER, ORDERS, since_ms=SINCE_MS, tables=("orders",))
        await raw.execute("VACUUM ANALYZE orders")
        # As every connection of the service plans.
        await raw.execute("; ".join(f"SET {name} = {value}" for name, value in BY_KEY.items()))
        wrong = {}
        for sql, args in (*searches(), (WITHOUT_INDEX, (SELLER, 0, SINCE_MS, "x"))):
            if found := list(_unbounded(await _plan(raw, sql, args))):
                wrong[sql] = found
    finally:
        await raw.close()
        await database.close()
    assert wrong.pop(WITHOUT_INDEX)
    assert not wrong, json.dumps(wrong, indent=1)


async def _plan(raw: asyncpg.Connection, sql: str, args: tuple[Any, ...]) -> Any:
    await raw.execute(f"PREPARE asked AS {without_comments(sql)}")
    values = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in args)
    plan = json.loads(await raw.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked({values})"))[0]["Plan"]
    await raw.execute("DEALLOCATE asked")
    return plan


def _unbounded(node: dict[str, Any]) -> Iterator[str]:
    """Yield the steps of a plan that read orders, or an index without a bound."""
    kind, index, condition = node["Node Type"], node.get("Index Name", ""), node.get("Index Cond", "")
    if kind == "Seq Scan" or (index in INDEXES and "created_ms <=" not in condition):
        yield f"{kind} {index} {condition}"
    elif index == "orders_searched" and kind != "Index Only Scan":
        yield f"{kind} {index} reads orders"
    elif kind == "Limit" and any(below["Node Type"] not in IN_ORDER for below in node["Plans"]):
        yield f"sorts what is skipped: {node['Plans'][0]['Node Type']}"
    for below in node.get("Plans", ()):
        yield from _unbounded(below)


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_is_tested(name: str) -> None:
    """A new filter needs a value here."""
    assert name in VALUES
