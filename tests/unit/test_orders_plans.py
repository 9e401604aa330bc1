"""Operators' lists of orders find their rows by an index, on SQLite, whatever they are filtered by."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from paydesk.operators.order_lists import Filters
from paydesk.orders.status_labels import EXTENDED
from paydesk.storage.connect import open_database
from paydesk.storage.database import Row, Transaction
from tables import each

BY_ID = ("sqlite_autoindex_orders_1", "order_id")
CHOICES = {
    "all": (Filters(), BY_ID),
    "times": (Filters(since_ms=5, until_ms=7), BY_ID),
    "reference": (Filters(external_reference="A-1"), ("orders_by_reference", "external_reference")),
    "last digits": (Filters(last_digits="6351"), ("orders_by_last_digits", "last_digits")),
    "payer": (Filters(payer_email="p@shop.example"), ("orders_by_payer_email", "<expr>=?")),
    "failed": (Filters(status="failed", live=1), ("orders_by_status", "status")),
    "expired": (Filters(status="expired"), ("orders_by_status", "status")),
    "partially refunded": (Filters(state="partially_refunded", live=1), ("orders_by_status", "status")),
    "canceled, not expired": (Filters(state="canceled"), ("orders_by_status", "status")),
    "cancel requested": (Filters(state="cancellation_requested"), ("orders_live_on_terminal", "seller_id")),
    "processed": (Filters(state="processed"), BY_ID),
    "processed on a terminal": (
        Filters(state="processed", terminal_id="T"),
        ("COVERING INDEX orders_searched", "created_ms"),
    ),
    "open": (Filters(status="created"), ("orders_live_on_terminal", "seller_id")),
    "action required": (Filters(status="action_required"), ("orders_live_on_terminal", "seller_id")),
    "live": (Filters(live=1, since_ms=5), ("COVERING INDEX orders_searched", "created_ms")),
    "terminal": (Filters(terminal_id="T", status="failed"), ("COVERING INDEX orders_searched", "created_ms")),
    "terminal and application": (Filters(terminal_id="T", application_id=7), ("orders_searched", "created_ms")),
}


@each("name", CHOICES)
async def test_list_of_orders_has_its_index(sqlite_url: str, name: str) -> None:
    """Both statements search with it, and none goes through the table or through all orders of a seller."""
    filters, (index, column) = CHOICES[name]
    newest, values = filters.statement(EXTENDED, filters.first)
    key = (*filters.first, filters.first[0])[:3]
    database = await open_database(sqlite_url)
    for sql in newest:
        steps = await database.read(partial(_explained, sql=sql, args=(7, *key, 10, *values)))
        details = [step[3] for step in steps]
        searched = [detail for detail in details if re.match("(SEARCH|SCAN) (o|orders) ", detail)]
        assert any(f"{index} (" in detail and f"{column}" in detail for detail in searched), details
        by_key = "sqlite_autoindex_orders_1 (seller_id=? AND order_id=?)"
        assert all(index in detail or by_key in detail for detail in searched), details
    await database.close()


async def _explained(tx: Transaction, sql: str, args: tuple[Any, ...]) -> list[Row]:
    return await tx.all(f"EXPLAIN QUERY PLAN {sql}", *args)
