"""The statements that list orders, newest first. `OrderFilters` chooses the one that reads the fewest rows.

All statements have the same parameters up to $13. An order's id begins with the time of its creation, so a range of
times is a range of ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paydesk.core import ids
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import LIVE, PARTIALLY_REFUNDED, STATES
from paydesk.engine.orders.status_labels import EXTENDED, Labels
from paydesk.engine.orders.store import COLUMNS, LIVE_STATUSES
from paydesk.operators.lists import NUMBER_MAX, Key
from paydesk.operators.newest import BY_ID, OF_ALL, Newest, newest
from paydesk.platform.storage.database import Row

LISTED = f"order_id, seller_id, {COLUMNS.removeprefix('seller_id, order_id, ')}, last_digits"
"""The columns of a row of the list."""
ANY = -1
"""The value of the filter `live` that selects test orders and live orders."""
RARE = ("canceled", "failed", "refunded")
"""The statuses of `orders_by_status`. Nearly all other orders are processed, so that a list of those reads few rows."""
CONDITIONS_OF_STATE = {
    **{state.payment_detail: (state.status, "", state.payment_detail) for state in STATES if state.status in LIVE},
    **{state.detail: (state.status, state.detail, "") for state in STATES if state.status not in LIVE},
}
"""The states by name, each with its status, its detail and the payment's detail; empty ones are not compared.

A state is finer than a status: the list of orders in the console has a word for each.
"""
_INSTANT_MS_MAX = 2**48 - 1

_FILTERS = f"""
($5 = '' OR terminal_id = $5) AND ($6 = '' OR orders.status = $6) AND ($7 = '' OR status_detail = $7)
       AND status_detail NOT IN ($8, $9) AND CAST($10 AS bigint) IN ({ANY}, live)
       AND CAST($11 AS bigint) IN (0, application_id) AND ($13 = '' OR payment_status_detail = $13)"""


def _list(indexed: str, *, few: bool = False) -> Newest:
    key = "order_id || ''" if few else "order_id"
    return newest("orders", LISTED, BY_ID, _FILTERS, f"{key} >= $12 AND {indexed}", few=few)


BY_REFERENCE = _list("external_reference = $14", few=True)
BY_LAST_DIGITS = _list("last_digits = $14")
BY_PAYER_EMAIL = _list("payer_email IS NOT NULL AND LOWER(payer_email) = LOWER($14)", few=True)
OPEN = _list(f"orders.status IN ({LIVE_STATUSES})", few=True)
_RARE = " OR ".join(f"orders.status = '{name}'" for name in RARE)
_RARE += f" OR orders.status_detail = '{PARTIALLY_REFUNDED.detail}'"
WITH_RARE_STATUS = _list(f"({_RARE}) AND orders.status = $14")


def _by_kind(condition: str = "1 = 1") -> Newest:
    """Return the statements that read test orders and live orders along an index each, and merge them.

    The index of a seller's orders has them by time: $14 and $15 are the last and the first instant.
    """

    def merged(whose: str, order: str, key: str) -> str:
        parts = (
            f"""
SELECT * FROM (
       SELECT {LISTED} FROM orders
        WHERE live = {live} AND CAST($10 AS bigint) IN ({ANY}, {live}) AND {whose}
          AND ({key}, seller_id) < ($1, $2) AND {key} >= $12 AND {condition}
          AND CASE WHEN {_FILTERS} THEN 1 ELSE 0 END <> 0
        ORDER BY {order} LIMIT $3) AS {name}"""
            for live, name in enumerate(("test_orders", "live_orders"))
        )
        return f"{' UNION ALL'.join(parts)} ORDER BY {order} LIMIT $3"

    return Newest(
        merged(
            f"{OF_ALL.format('', '$4')} AND CAST($14 AS bigint) >= CAST($15 AS bigint)",
            "order_id DESC, seller_id DESC",
            "order_id",
        ),
        # An expression, so that no index of ids is preferred to that of times.
        merged(
            "seller_id = $4 AND created_ms <= $14 AND created_ms >= $15",
            "created_ms DESC, order_id DESC",
            "order_id || ''",
        ),
    )


ALL, ON_TERMINAL = _by_kind(), _by_kind("terminal_id = $5")


@dataclass(frozen=True, slots=True)
class OrderFilters:
    """The filters of a list of orders. Empty texts, `ANY`, 0 and None select all."""

    status: str = ""
    state: str = ""
    terminal_id: str = ""
    external_reference: str = ""
    last_digits: str = ""
    payer_email: str = ""
    application_id: int = 0
    live: int = ANY
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def first(self) -> Key:
        """Return the key before the newest order of the list."""
        if self.until_ms is None:
            return BY_ID
        return _first_id(self.until_ms + 1), NUMBER_MAX

    def statement(self, labels: Labels, after: Key) -> tuple[Newest, list[Any]]:
        """Return the statements of the page after a key, and the filters' values."""
        status, detail, *excluded = conditions(self.status, labels)
        payment_detail = ""
        if self.state:
            status, detail, payment_detail = CONDITIONS_OF_STATE[self.state]
        since = "" if self.since_ms is None else _first_id(self.since_ms)
        values = [self.terminal_id, status, detail, *excluded, self.live, self.application_id, since, payment_detail]
        for statement, value in (
            (BY_REFERENCE, self.external_reference),
            (BY_LAST_DIGITS, self.last_digits),
            (BY_PAYER_EMAIL, self.payer_email),
        ):
            if value:
                return statement, [*values, value]
        row_status = status or next((state.status for state in STATES if state.detail == detail), "")
        if row_status in LIVE:
            return OPEN, values
        if (row_status in RARE or detail == PARTIALLY_REFUNDED.detail) and not self.terminal_id:
            return WITH_RARE_STATUS, [*values, row_status]
        last_ms = ids.instant_of(str(after[0])[3:])
        instants = (_INSTANT_MS_MAX if last_ms is None else last_ms, self.since_ms or 0)
        return (ON_TERMINAL if self.terminal_id else ALL), [*values, *instants]


def order_of(row: Row) -> tuple[Order, str | None]:
    """Return the order of a row with the columns `LISTED`, and the last digits of its card."""
    order_id, seller_id, *columns, last_digits = row
    return Order(seller_id, order_id, *columns), last_digits


def conditions(label: str, labels: Labels) -> tuple[str, str, str, str]:
    """Return the status and the status_detail of the rows with this label, and two details to exclude."""
    if not label:
        return "", "", "", ""
    compared = (labels if label in labels.all else EXTENDED).conditions_of(label)
    one, other = (*(detail for name, detail in compared if name == "not_status_detail"), "", "")[:2]
    return dict(compared).get("status", ""), dict(compared).get("status_detail", ""), one, other


def _first_id(instant_ms: int) -> str:
    """Return the smallest id of an order created at that time."""
    return f"ORD{ids.first_ulid(min(max(instant_ms, 0), _INSTANT_MS_MAX))}"
