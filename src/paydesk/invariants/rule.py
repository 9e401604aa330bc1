"""What a rule of the ledger is: a statement that finds who breaks it, in one page of orders or in a whole table."""

from __future__ import annotations

from dataclasses import dataclass

STUCK_MS_MAX = 86_400_000
KEPT_MS_MIN = 29 * 86_400_000
"""What is pruned was kept for 30 days at least; a day is left for clocks that differ."""

# A rule of a page has its bounds: after ($1, $2), up to and with ($3, $4).
ORDERS_OF_PAGE = "(o.seller_id, o.order_id) > ($1, $2) AND (o.seller_id, o.order_id) <= ($3, $4)"
ROWS_OF_PAGE = "(e.seller_id, e.order_id) > ($1, $2) AND (e.seller_id, e.order_id) <= ($3, $4)"

PAID = "('processed', 'refunded')"


@dataclass(frozen=True, slots=True)
class Rule:
    """A statement that finds who breaks it: a seller (or NULL), a subject, and what the message's places say.

    The last parameter of one that is `timed` is now, in epoch milliseconds.
    """

    name: str
    message: str
    sql: str
    timed: bool = False
