"""Orders as CSV or JSON lines: the same filters as the list, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode

from paydesk.core.clock import rfc3339
from paydesk.core.errors import PROPERTY_VALUE, TOO_MANY_REQUESTS
from paydesk.core.text.card_numbers import MASK
from paydesk.core.text.redaction import redacted
from paydesk.engine.orders.status_labels import Labels
from paydesk.operators import audit, lists
from paydesk.operators.lists import Key
from paydesk.operators.noun import BASE
from paydesk.operators.orders.export.formats import FORMATS, values
from paydesk.operators.orders.handlers import FILTER_QUERY, chosen_by
from paydesk.operators.orders.lists import OrderFilters
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Operation, Query
from paydesk.platform.storage.database import Row, Transaction

ROWS_MAX = 10_000
SLICE_ROWS = 250
"""The rows that are read and written at once, which takes a few milliseconds."""
PAYER_EMAIL = "payer_email"
FORMAT = Query(
    "format",
    {"enum": list(FORMATS), "default": "csv"},
    "`csv` for spreadsheets, `jsonl` for programs: unchanged values.",
)
LIMIT = Query(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": ROWS_MAX},
    "The maximum number of orders.",
)
_, _AFTER = lists.paging(("", 0))
QUERY = (*FILTER_QUERY, FORMAT, LIMIT, _AFTER)


async def export_orders(call: Call) -> Answer:
    """Return orders as CSV or JSON lines. If there are more, the header `Link` has the address of the rest.

    They are read and written in slices, between which other requests are served. The audit trail has each export,
    because it has personal data of many buyers. Raises `TOO_MANY_REQUESTS` while another one of the operator runs.
    """
    filters = Filters(QUERY, call.query)
    listed, limit, chosen = chosen_by(filters), filters.get("limit"), FORMATS[filters.get("format")]
    after: Key | None = lists.after(filters, listed.first)
    filters.refuse_faults()
    with _alone(call):
        parts, count = [chosen.header], 0
        while after is not None and count < limit:
            rows, after = await _slice(call, filters, listed, after, min(limit - count, SLICE_ROWS))
            parts.append(chosen.written([values(row, call.shared.objects[Labels]) for row in rows]))
            count += len(rows)
        # Without the buyer's address, secrets and card numbers.
        names = {one.name for one in (*FILTER_QUERY, _AFTER)}
        sent = [(name, value) for name, value in call.query.items() if name in names]
        audited = {name: MASK if name == PAYER_EMAIL else redacted(value) for name, value in sent}
        done = {"filters": audited, "rows": count}
        await call.database.write(lambda tx: audit.record(call, tx, "orders.export", "orders", after=done))
    since = rfc3339(call.now_ms)[:10]
    headers = [("content-disposition", f'attachment; filename="orders-{since}.{chosen.suffix}"')]
    if after is not None:
        sent = [(name, value) for name, value in parse_qsl(call.query_string) if name != "after"]
        rest = urlencode([*sent, ("after", lists.written(after))])
        headers.append(("link", f'<{BASE}/exports/orders?{rest}>; rel="next"'))
    return Answer(200, b"".join(parts), tuple(headers), chosen.media_type)


class Exporting(set[str]):
    """The operators whose export is under way."""


@contextmanager
def _alone(call: Call) -> Iterator[None]:
    """Let this be the operator's only export in this process. Raises `TOO_MANY_REQUESTS`."""
    exporting, operator_id = call.shared.objects[Exporting], call.caller.operator_id
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
    call: Call, filters: Filters, listed: OrderFilters, after: Key, limit: int
) -> tuple[Sequence[Row], Key | None]:
    """Return rows of the list, and the key of the last one if there are more."""
    statement, args = listed.statement(call.shared.objects[Labels], after)
    sql, seller_id = statement.chosen(filters)

    async def read(tx: Transaction) -> tuple[Sequence[Row], Key | None]:
        return await lists.rows_after(tx, sql, after, limit, seller_id, *args)

    return await call.database.read(read, heavy=True)


OPERATIONS = (
    Operation(
        method="GET",
        path=f"{BASE}/exports/orders",
        name="operator_export_orders",
        summary="Export orders as CSV or JSON lines",
        description=(
            f"Newest first, with the filters of the list; at most {ROWS_MAX:,} orders. If there are more, the header"
            ' `Link` has the address of the next ones, with `rel="next"`. CSV is RFC 4180, UTF-8, with a header row; it'
            " has an apostrophe before what a spreadsheet would take for a formula, also after a semicolon in a text."
            " JSON lines have an object per order with the same names, without those that have no value, and unchanged"
            " texts. An operator's exports run one at a time: a second one at once gets 429. The audit trail records"
            " who exported how many orders with which filters."
        ),
        surface="operator",
        handler=export_orders,
        transaction="none",
        query=QUERY,
        media_type=FORMATS["csv"].media_type,
        further_media_types=(FORMATS["jsonl"].media_type,),
        errors=(PROPERTY_VALUE,),
    ),
)
