"""Orders as CSV (RFC 4180), for spreadsheets: the same filters as the list, newest first."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from paydesk import audit
from paydesk.core.card_numbers import MASK
from paydesk.core.clock import rfc3339
from paydesk.core.errors import PROPERTY_VALUE, TOO_MANY_REQUESTS
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.core.redaction import redacted
from paydesk.operation import Answer, Call, Operation, Query
from paydesk.operators import lists
from paydesk.operators.newest import found_rows
from paydesk.operators.order_lists import Filters
from paydesk.operators.orders import FILTER_QUERY, filters_of
from paydesk.operators.rows import BASE
from paydesk.orders.order import Order
from paydesk.orders.status_labels import Labels
from paydesk.storage.database import Row, Transaction

ROWS_MAX = 10_000
SLICE_ROWS = 250
"""What is read and written at once, which takes a few milliseconds."""
PAYER_EMAIL = "payer_email"
CSV = "text/csv; charset=utf-8"
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins with one of these is a formula for spreadsheets, which may send data elsewhere."""
COLUMNS = (
    *("id", "created_date", "status", "status_detail", "live_mode", "currency", "amount", "paid_amount", "tip_amount"),
    *("refunded_amount", "paid_date", "external_reference", "description", "terminal_id", "seller_id", "client_id"),
    *("payment_method_id", "payment_method_type", "installments", "first_digits", "last_digits", "reference_id"),
    *("authorization_code", "payer_email", "last_updated_date"),
)
LIMIT = Query(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": ROWS_MAX},
    "The maximum number of orders.",
)
_, _AFTER = lists.paging(("", 0))


async def export_orders(call: Call) -> Answer:
    """Return orders as CSV. If there are more, the header `Link` has the address of the rest.

    They are read and written in slices, between which other requests are served. The audit trail has each export,
    because it has personal data of many buyers. Raises `TOO_MANY_REQUESTS` while another one of the operator runs.
    """
    filters, limit = filters_of(call.query), LIMIT.number(call.query) or ROWS_MAX
    with _alone(call):
        parts, count, query, cursor = [written((), has_header=True)], 0, call.query, None
        while count < limit:
            rows, cursor = await _slice(call, filters, query, min(limit - count, SLICE_ROWS))
            parts.append(written(cells(row, call.shared.labels) for row in rows))
            count += len(rows)
            if cursor is None:
                break
            query = {**query, "after": cursor}
        after = {"filters": _audited(call.query), "rows": count}
        await call.database.write(lambda tx: audit.record(call, tx, "orders.export", "orders", after=after))
    since = rfc3339(call.now_ms)[:10]
    headers = [("content-disposition", f'attachment; filename="orders-{since}.csv"')]
    if cursor is not None:
        sent = [(name, value) for name, value in parse_qsl(call.query_string) if name != "after"]
        rest = urlencode([*sent, ("after", cursor)])
        headers.append(("link", f'<{BASE}/exports/orders?{rest}>; rel="next"'))
    return Answer(200, b"".join(parts), tuple(headers), CSV)


@contextmanager
def _alone(call: Call) -> Iterator[None]:
    """Let this be the operator's only export in this process. Raises `TOO_MANY_REQUESTS`."""
    exporting, operator_id = call.shared.exporting, call.caller.operator_id
    if operator_id in exporting:
        raise TOO_MANY_REQUESTS.with_reason(
            "exports at once",
            message="Another export of yours is under way. Export again once it has ended.",
            headers=(("retry-after", "1"),),
        )
    exporting.add(operator_id)
    try:
        yield
    finally:
        exporting.discard(operator_id)


async def _slice(
    call: Call, filters: Filters, query: Mapping[str, str], limit: int
) -> tuple[Sequence[Row], str | None]:
    """Return rows of the list and the cursor of the next ones."""
    statement, values = filters.statement(call.shared.labels, lists.after(query, filters.first))

    async def read(tx: Transaction) -> tuple[Sequence[Row], str | None]:
        return await found_rows(tx, query, statement, filters.first, limit, *values)

    return await call.database.read(read, heavy=True)


def _audited(query: Mapping[str, str]) -> dict[str, str]:
    """Return the filters as the audit trail has them: without the buyer's address, secrets and card numbers."""
    names = {one.name for one in (*FILTER_QUERY, _AFTER)}
    return {name: MASK if name == PAYER_EMAIL else redacted(value) for name, value in query.items() if name in names}


def written(rows: Iterable[Mapping[str, Any]], *, has_header: bool = False) -> bytes:
    """Return the rows as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\r\n")
    if has_header:
        writer.writeheader()
    for row in rows:
        writer.writerow({name: harmless(value) for name, value in row.items()})
    return text.getvalue().encode()


def harmless(value: Any) -> Any:
    """Return the cell, with an apostrophe before a text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def cells(row: Row, labels: Labels) -> dict[str, Any]:
    """Return the cells of a row of the list."""
    *columns, last_digits = row
    order = Order(*columns)
    decimals = CURRENCIES[order.currency].decimals
    method = msgspec.json.decode(order.payment_method) if order.payment_method else {}
    card = msgspec.json.decode(order.card) if order.card else {}
    return {
        "id": order.order_id,
        "created_date": rfc3339(order.created_ms),
        "status": labels.of(order),
        "status_detail": order.payment_status_detail,
        "live_mode": "true" if order.live else "false",
        "currency": order.currency,
        "amount": order.amount,
        "paid_amount": _amount(order.paid_minor, decimals),
        "tip_amount": _amount(order.tip_minor, decimals),
        "refunded_amount": _amount(order.refunded_minor, decimals),
        "paid_date": "" if order.paid_ms is None else rfc3339(order.paid_ms),
        "external_reference": order.external_reference or "",
        "description": order.description or "",
        "terminal_id": order.terminal_id,
        "seller_id": order.seller_id,
        "client_id": order.application_id,
        "payment_method_id": method.get("id", ""),
        "payment_method_type": method.get("type", ""),
        "installments": method.get("installments", ""),
        "first_digits": card.get("first_digits", ""),
        "last_digits": last_digits or card.get("last_digits", ""),
        "reference_id": order.reference_id or "",
        "authorization_code": order.authorization_code or "",
        "payer_email": order.payer_email or "",
        "last_updated_date": rfc3339(order.updated_ms),
    }


def _amount(minor: int | None, decimals: int) -> str:
    return "" if minor is None else decimal_string(minor, decimals)


OPERATIONS = (
    Operation(
        method="GET",
        path=f"{BASE}/exports/orders",
        name="operator_export_orders",
        summary="Export orders as CSV",
        description=(
            f"Newest first, with the filters of the list; at most {ROWS_MAX:,} orders. If there are more, the header"
            ' `Link` has the address of the next ones, with `rel="next"`. RFC 4180, UTF-8, with a header row; a text'
            " that a spreadsheet would take for a formula begins with an apostrophe. An operator's exports run one at a"
            " time: a second one at once gets 429. The audit trail records who exported how many orders with which"
            " filters."
        ),
        surface="operator",
        handler=export_orders,
        transaction="none",
        query=(*FILTER_QUERY, LIMIT, _AFTER),
        media_type=CSV,
        errors=(PROPERTY_VALUE,),
    ),
)
