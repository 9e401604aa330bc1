"""Orders of all sellers, newest first, optionally filtered; and whose an order is."""

from __future__ import annotations

from functools import partial
from typing import Any

from paydesk.core import ids
from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Answer, Call, Query
from paydesk.operators import lists
from paydesk.operators.newest import BY_ID, DESCRIPTION, newest, page
from paydesk.orders.errors import ORDER_NOT_FOUND
from paydesk.orders.order import Order
from paydesk.orders.presentation import OrderDocument, order_document
from paydesk.orders.schemas import EXTERNAL_REFERENCE_PATTERN
from paydesk.orders.searching import FILTERS, TERMINAL_ID_PATTERN
from paydesk.orders.status_labels import EXTENDED, Labels
from paydesk.orders.store import COLUMNS
from paydesk.storage.database import Row, Transaction

# Operators send only the order's id: one primary key lookup per seller, which no plan replaces by a scan.
OWNER = """
SELECT seller_id FROM (
       SELECT s.seller_id, (SELECT 1 FROM orders o WHERE o.seller_id = s.seller_id AND o.order_id = $1) AS is_owner
         FROM sellers s) AS owners
WHERE is_owner = 1"""

_QUERY = (
    Query("status", {"enum": list(EXTENDED.all)}, "Only orders with this status."),
    Query("terminal_id", {"type": "string", "pattern": TERMINAL_ID_PATTERN}, "Only orders on this terminal."),
    Query(
        "external_reference",
        {"type": "string", "pattern": EXTERNAL_REFERENCE_PATTERN},
        "Only orders with this reference.",
    ),
    lists.OF_SELLER,
    *lists.paging(BY_ID),
)

_FILTERS = """
($6 = '' OR terminal_id = $6) AND ($7 = '' OR orders.status = $7) AND ($8 = '' OR status_detail = $8)
       AND status_detail NOT IN ($9, $10)"""

LIST = newest("orders", COLUMNS, "order_id", "order_id", _FILTERS)
REFERENCED = newest("orders", COLUMNS, "order_id", "order_id", _FILTERS, "external_reference = $11")


async def find_all(call: Call) -> Answer:
    """List the orders, newest first."""
    terminal_id, reference = _filter(call, "terminal_id"), _filter(call, "external_reference")
    labels = call.shared.labels
    args: list[Any] = [terminal_id, *_status_filter(call.query.get("status", ""), labels)]
    if reference:
        args.append(reference)
    return await page(call, REFERENCED if reference else LIST, BY_ID, partial(_present, labels), *args)


async def owner_of(tx: Transaction, order_id: str) -> int:
    """Return the id of the seller who has this order. Raises `ORDER_NOT_FOUND`."""
    # An invalid id may contain characters that PostgreSQL refuses.
    row = await tx.one(OWNER, order_id) if ids.ORDER_ID.fullmatch(order_id) else None
    if row is None:
        raise ORDER_NOT_FOUND.with_reason("no seller has this order")
    return int(row[0])


def _filter(call: Call, name: str) -> str:
    """Return a search parameter, or an empty text when it is absent. Raises `PROPERTY_VALUE`."""
    sent = call.query.get(name)
    try:
        return "" if sent is None else str(FILTERS[name](sent))
    except ValueError as error:
        raise PROPERTY_VALUE.with_reason(f"{name} is malformed", f"'{name}' - {error}") from None


def _status_filter(status: str, labels: Labels) -> tuple[str, str, str, str]:
    """Return the status and the status_detail of the rows with this label, and two details to exclude."""
    if not status:
        return "", "", "", ""
    if status not in labels.all:
        raise PROPERTY_VALUE.with_reason("unknown status", f"'status' - must be one of {', '.join(labels.all)}")
    conditions = labels.conditions_of(status)
    one, other = (*(detail for name, detail in conditions if name == "not_status_detail"), "", "")[:2]
    return dict(conditions).get("status", ""), dict(conditions).get("status_detail", ""), one, other


def _present(labels: Labels, row: Row) -> OrderDocument:
    return order_document(Order(*row), labels)


PAGES = lists.Pages(lists.Page[OrderDocument], find_all, _QUERY, DESCRIPTION)
