"""Operators' lists that are newest first find their rows by an index, in its order, whatever they are filtered by."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import asyncpg
from bench import bulk
from bench.order_lists import fill

from paydesk.engine.orders.status_labels import EXTENDED
from paydesk.operators.deliveries import handlers as deliveries
from paydesk.operators.newest import BY_ID, BY_TIME
from paydesk.operators.orders import outcomes
from paydesk.operators.orders.lists import BY_PAYER_EMAIL, BY_REFERENCE, OPEN, OrderFilters
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Row, Transaction
from paydesk.platform.storage.postgres.connections import BY_KEY
from paydesk.platform.storage.statements import without_comments
from plain_rows import CONFIRMATION, INQUIRY, REFUND, REVERSAL

ORDERS, DELIVERIES, OTHERS = 20_000, 10_000, 300
SELLER = 1
LIMIT = 51

NEWEST = ("orders_newest", "orders_searched")
RARE = ("orders_newest_by_status", "orders_by_status")
FILTERED = {
    "all": (OrderFilters(), NEWEST),
    "times": (OrderFilters(since_ms=5, until_ms=7), NEWEST),
    "reference": (OrderFilters(external_reference="A-1"), ("orders_by_reference",) * 2),
    "last digits": (OrderFilters(last_digits="6351"), ("orders_newest_of_card", "orders_by_last_digits")),
    "payer": (OrderFilters(payer_email="p@shop.example"), ("orders_by_payer_email",) * 2),
    "failed": (OrderFilters(status="failed", live=1), RARE),
    "expired": (OrderFilters(status="expired"), RARE),
    "partially refunded": (OrderFilters(state="partially_refunded", live=1), RARE),
    "canceled, not expired": (OrderFilters(state="canceled"), RARE),
    "cancel requested": (OrderFilters(state="cancellation_requested"), ("orders_live_on_terminal",) * 2),
    "processed": (OrderFilters(state="processed"), NEWEST),
    "processed on a terminal": (OrderFilters(state="processed", terminal_id="T"), NEWEST),
    "open": (OrderFilters(status="created"), ("orders_live_on_terminal",) * 2),
    "action required": (OrderFilters(status="action_required"), ("orders_live_on_terminal",) * 2),
    "live": (OrderFilters(live=1, since_ms=5), NEWEST),
    "terminal": (OrderFilters(terminal_id="T", status="failed"), NEWEST),
    "terminal and application": (OrderFilters(terminal_id="T", application_id=7), NEWEST),
}
SORTED = (BY_REFERENCE, BY_PAYER_EMAIL, OPEN)
"""Few orders have what these look for."""
OTHER_LISTS = {
    "deliveries": (deliveries.DELIVERIES, BY_TIME, ("", "", 0), ("deliveries_newest", "deliveries_age")),
    "failed deliveries": (deliveries.FAILED, BY_TIME, ("", "", 0), ("deliveries_newest_failed", "deliveries_failed")),
    "refunds": (outcomes.LIST_REFUNDS, BY_ID, ("",), ("refunds_newest", "refunds_pkey")),
    "reversals": (outcomes.LIST_REVERSALS, BY_ID, ("",), ("reversals_newest", "reversals_pkey")),
    "inquiries": (outcomes.LIST_INQUIRIES, BY_ID, ("true",), ("inquiries_newest", "inquiries_pkey")),
    "confirmations": (outcomes.LIST_CONFIRMATIONS, BY_ID, ("",), ("confirmations_newest", "confirmations_pkey")),
}
WITHOUT_INDEX = (
    "SELECT * FROM orders ORDER BY order_id || '' DESC LIMIT $1",
    "SELECT * FROM orders WHERE live = 1 ORDER BY created_ms DESC LIMIT $1",
)
"""The plans of these must be seen to be wrong."""

Asked = tuple[str, tuple[Any, ...], str, bool]


def asked() -> Iterator[tuple[str, Asked]]:
    """Yield every statement by its name, with its arguments, its index, and whether it may sort."""
    for name, (filters, indexes) in FILTERED.items():
        statements, values = filters.statement(EXTENDED, filters.first)
        for sql, index, seller_id in zip(statements, indexes, (0, SELLER), strict=True):
            yield f"{name}: {index}", (sql, (*filters.first, LIMIT, seller_id, *values), index, statements in SORTED)
    for name, (statements, first, other, indexes) in OTHER_LISTS.items():
        for sql, index, seller_id in zip(statements, indexes, (0, SELLER), strict=True):
            yield f"{name}: {index}", (sql, (*first, LIMIT, seller_id, *other), index, False)
    for sql in WITHOUT_INDEX:
        yield f"wrong: {sql}", (sql, (LIMIT,), "orders_newest", False)


async def test_list_has_its_index_on_sqlite(sqlite_url: str) -> None:
    """It searches with that index alone, beyond the seller, and reads the rows in its order."""
    database = await open_database(sqlite_url)
    wrong = {}
    for name, (sql, args, index, may_sort) in asked():
        steps = [row[3] for row in await database.read(partial(_explained, sql=sql, args=args))]
        if found := list(_wrong_steps(steps, index, may_sort=may_sort)):
            wrong[name] = found
    await database.close()
    _assert_only_the_wrong_ones(wrong)


async def _explained(tx: Transaction, sql: str, args: tuple[Any, ...]) -> list[Row]:
    return await tx.all(f"EXPLAIN QUERY PLAN {sql}", *args)


def _wrong_steps(steps: list[str], index: str, *, may_sort: bool) -> Iterator[str]:
    """Yield the steps that sort all rows, and those that read the list's table otherwise than by the index."""
    table = index.partition("_")[0]
    used = f"sqlite_autoindex_{table}_1" if index.endswith("_pkey") else index
    by_index = rf"SEARCH {table} USING (COVERING )?INDEX {used} \({'' if may_sort else '(?!seller_id=[?][)])'}"
    # The rows of each kind of order are limited before they are sorted.
    limited = "SCAN test_orders" in steps
    for step in steps:
        is_sort = "TEMP B-TREE" in step and not (may_sort or limited or "LAST" in step)
        if is_sort or (re.match(rf"(SEARCH|SCAN) {table}\b", step) and not re.match(by_index, step)):
            yield step


async def test_list_has_its_index_on_postgres(postgres_url: str) -> None:
    """The same, with plans for any values, as every connection of the service makes them."""
    database = await open_database(postgres_url)
    raw = await asyncpg.connect(postgres_url)
    try:
        await fill(database, ORDERS)
        await bulk.fill(database, SELLER, DELIVERIES, since_ms=1, versions=1, tables=("deliveries",))
        for sql, more in ((REFUND, ()), (INQUIRY, ()), (CONFIRMATION, ()), (REVERSAL, ("$3",))):
            rows = [(1 + number % 9, f"{number:026}", *(f"{number}" for _ in more)) for number in range(OTHERS)]
            await raw.executemany(sql, rows)
        await raw.execute("UPDATE deliveries SET status = 'exhausted' WHERE created_ms % 10 = 0")
        await raw.execute("VACUUM ANALYZE")
        await raw.execute("; ".join(f"SET {name} = {value}" for name, value in BY_KEY.items()))
        wrong = {}
        for name, (sql, args, index, may_sort) in asked():
            if found := list(_wrong_nodes(await _plan(raw, sql, args), index, may_sort=may_sort)):
                wrong[name] = found
    finally:
        await raw.close()
        await database.close()
    _assert_only_the_wrong_ones(wrong)


async def _plan(raw: asyncpg.Connection, sql: str, args: tuple[Any, ...]) -> Any:
    await raw.execute(f"PREPARE asked AS {without_comments(sql)}")
    values = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in args)
    plan = json.loads(await raw.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked({values})"))[0]["Plan"]
    await raw.execute("DEALLOCATE asked")
    return plan


def _wrong_nodes(node: dict[str, Any], index: str, *, may_sort: bool) -> Iterator[str]:
    """Yield the steps that sort all rows, and those that read the list's table otherwise than by the index."""
    kind, used, condition = node["Node Type"], node.get("Index Name", ""), node.get("Index Cond", "")
    below = node.get("Plans", ())
    if kind == "Sort" and not may_sort and not all(map(_is_limited, below)):
        yield f"sorts by {node['Sort Key']}"
    elif node.get("Relation Name") == index.partition("_")[0] and kind != "Bitmap Heap Scan" and used != index:
        yield f"{kind} {used}"
    elif used == index and not may_sort and not set(re.findall(r"\w+(?=,| [<>=])", condition)) - {"seller_id"}:
        yield f"{kind} {used} {condition}"
    elif kind == "Bitmap Heap Scan" and not may_sort:
        yield f"{kind} {node['Relation Name']}"
    for one in below:
        yield from _wrong_nodes(one, index, may_sort=may_sort)


def _is_limited(node: dict[str, Any]) -> bool:
    kind: str = node["Node Type"]
    return kind == "Limit" or (kind == "Append" and all(map(_is_limited, node["Plans"])))


def _assert_only_the_wrong_ones(wrong: dict[str, list[str]]) -> None:
    for sql in WITHOUT_INDEX:
        assert wrong.pop(f"wrong: {sql}")
    assert not wrong, json.dumps(wrong, indent=1)
