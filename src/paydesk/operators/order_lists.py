"""The statements that list orders, newest first. `Filters` chooses the one that reads the fewest rows.

All statements have the same parameters up to $14. An order's id begins with the time of its creation, so a range of
times is a range of ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paydesk.core import ids
from paydesk.operators.lists import NUMBER_MAX, Key
from paydesk.operators.newest import BY_ID, Newest, newest
from paydesk.orders.status import LIVE, PARTIALLY_REFUNDED, STATES
from paydesk.orders.status_labels import EXTENDED, Labels
from paydesk.orders.store import COLUMNS, LIVE_STATUSES

LISTED = f"{COLUMNS}, last_digits"
"""What a row of the list has."""
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

_STATUS = """
($6 = '' OR terminal_id = $6) AND ($7 = '' OR {0}.status = $7) AND ($8 = '' OR status_detail = $8)
       AND status_detail NOT IN ($9, $10)"""
_FILTERS = f"""{_STATUS.format("orders")}
       AND CAST($11 AS bigint) IN ({ANY}, live) AND CAST($12 AS bigint) IN (0, application_id)
       AND ($14 = '' OR payment_status_detail = $14)"""
_SINCE = "orders.order_id {}>= $13"


def _list(indexed: str = "", *, few: bool = False) -> Newest:
    since = _SINCE.format("|| '' " if few else "")
    condition = f"{since} AND {indexed}" if indexed else since
    return newest("orders", LISTED, "order_id", "order_id", _FILTERS, condition, few=few)


ALL = _list()
BY_REFERENCE = _list("external_reference = $15", few=True)
BY_LAST_DIGITS = _list("last_digits = $15")
BY_PAYER_EMAIL = _list("payer_email IS NOT NULL AND LOWER(payer_email) = LOWER($15)")
OPEN = _list(f"orders.status IN ({LIVE_STATUSES})", few=True)
_RARE = " OR ".join(f"orders.status = '{name}'" for name in RARE)
_RARE += f" OR orders.status_detail = '{PARTIALLY_REFUNDED.detail}'"
WITH_RARE_STATUS = _list(f"({_RARE}) AND orders.status = $15")


def _searched(*, of_application: bool) -> Newest:
    """Return the statements that read the index `orders_searched` alone until the rows of the page are found.

    $15 and $16 are the last and the first instant; $14 is empty, because open orders have another statement. The
    index has one part for live orders and one for test orders.
    """

    def found(seller: str, live: int, limit: str) -> str:
        application = "o.application_id" if of_application else "0"
        return f"""
SELECT order_id FROM (
       SELECT o.order_id FROM orders o
        WHERE o.seller_id = {seller} AND o.live = {live} AND CAST($11 AS bigint) IN ({ANY}, {live})
          AND o.created_ms <= $15 AND o.created_ms >= $16 AND o.order_id || '' <= $2 AND o.order_id || '' >= $13
          AND (o.order_id || '' < $2 OR o.seller_id < $3 OR (o.seller_id = $3 AND o.order_id || '' < $4))
          AND {_STATUS.format("o")} AND CAST($12 AS bigint) = {application} AND $14 = ''
        ORDER BY o.created_ms DESC, o.order_id DESC LIMIT {limit}) AS {"live" if live else "test"}_orders"""

    def both(seller: str, limit: str) -> str:
        return f"({found(seller, 0, limit)} UNION ALL {found(seller, 1, limit)}) AS found"

    heads = f"""
SELECT seller_id, head FROM (
       SELECT s.seller_id, (SELECT MAX(order_id) FROM {both("s.seller_id", "1")}) AS head
         FROM sellers s WHERE s.seller_id >= $1) AS newest
 WHERE head IS NOT NULL ORDER BY head DESC, seller_id DESC LIMIT $5"""
    rows = f"""
SELECT order_id, order_id, {LISTED} FROM orders
 WHERE seller_id = $1
   AND order_id IN (SELECT order_id FROM {both("$1", "$5")} ORDER BY order_id DESC LIMIT $5)
 ORDER BY order_id DESC"""
    return Newest(heads, rows)


SEARCHED, SEARCHED_OF_APPLICATION = _searched(of_application=False), _searched(of_application=True)


@dataclass(frozen=True, slots=True)
class Filters:
    """What to list. Empty texts, `ANY`, 0 and None select all."""

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
        if self.terminal_id or self.live != ANY:
            last_ms = ids.instant_of(str(after[0])[3:])
            instants = (_INSTANT_MS_MAX if last_ms is None else last_ms, self.since_ms or 0)
            return (SEARCHED_OF_APPLICATION if self.application_id else SEARCHED), [*values, *instants]
        return ALL, values


def conditions(label: str, labels: Labels) -> tuple[str, str, str, str]:
    """Return the status and the status_detail of the rows with this label, and two details to exclude."""
    if not label:
        return "", "", "", ""
    found = (labels if label in labels.all else EXTENDED).conditions_of(label)
    one, other = (*(detail for name, detail in found if name == "not_status_detail"), "", "")[:2]
    return dict(found).get("status", ""), dict(found).get("status_detail", ""), one, other


def _first_id(instant_ms: int) -> str:
    """Return the smallest id of an order created at that time."""
    return f"ORD{ids.first_ulid(min(max(instant_ms, 0), _INSTANT_MS_MAX))}"
