"""A rule: a statement that finds the rows that violate it, in one page of orders or in a whole table."""

from __future__ import annotations

from dataclasses import dataclass

STUCK_MS_MAX = 86_400_000
KEPT_MS_MIN = 29 * 86_400_000
"""Rows are pruned after 30 days or later; a day less allows for clocks that differ."""

# The bounds of a page: greater than ($1, $2), up to and including ($3, $4).
ORDERS_OF_PAGE = "(o.seller_id, o.order_id) > ($1, $2) AND (o.seller_id, o.order_id) <= ($3, $4)"
ROWS_OF_PAGE = "(e.seller_id, e.order_id) > ($1, $2) AND (e.seller_id, e.order_id) <= ($3, $4)"

PAID = "('processed', 'refunded')"


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant. Its statement selects violations: a seller (or NULL), a subject, and the values of the message.

    If it is `timed`, its last parameter is the current time in epoch milliseconds.
    """

    name: str
    message: str
    sql: str
    timed: bool = False
