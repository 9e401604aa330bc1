"""The lookups of a search that find orders, of all sellers: by id, reference, card, and payer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.core.money import spelled
from paydesk.engine.orders.status_labels import Labels
from paydesk.operators import lists
from paydesk.operators.orders.lists import LISTED, OrderFilters, order_of
from paydesk.operators.owners import OWNER
from paydesk.operators.search.hits import RESULTS_MAX, Hits, SearchHit
from paydesk.platform.storage.database import Row, Transaction

ORDERS_READ = 50_000
"""The number of newest orders that are searched for the end of an id, divided evenly among the sellers."""

ORDER = f"SELECT {LISTED} FROM orders WHERE seller_id = $1 AND order_id = $2"

ORDER_OF_REFUND = """
SELECT seller_id, order_id FROM (
       SELECT s.seller_id,
              (SELECT r.order_id FROM refunds r WHERE r.seller_id = s.seller_id AND r.refund_id = $1) AS order_id
         FROM sellers s) AS found
WHERE order_id IS NOT NULL"""

ORDERS_OF_ACQUIRER = """
SELECT seller_id, order_id FROM (
       SELECT s.seller_id,
              (SELECT MAX(r.order_id) FROM payment_references r
                WHERE r.seller_id = s.seller_id AND r.live IN (0, 1) AND r.reference_id = $1) AS order_id
         FROM sellers s) AS found
WHERE order_id IS NOT NULL ORDER BY order_id DESC LIMIT $2"""

COUNT_SELLERS = "SELECT COUNT(*) FROM sellers"

# No index has the ends of ids: of each seller the newest $4 orders from $1 to $2 are read, in the index of the ids.
ORDERS_LIKE = """
SELECT seller_id, order_ids FROM (
       SELECT s.seller_id,
              (SELECT STRING_AGG(order_id, ' ')
                 FROM (SELECT o.order_id FROM orders o
                        WHERE o.seller_id = s.seller_id AND o.order_id >= $1 AND o.order_id <= $2
                        ORDER BY o.order_id DESC LIMIT $4) AS recent
                WHERE order_id LIKE $3) AS order_ids
         FROM sellers s) AS found
WHERE order_ids IS NOT NULL"""

_ULID_DIGIT = "[0-9A-HJKMNP-TV-Z]"
_SHORT_ID = re.compile(
    rf"(?:(?:(?:ORD|PAY)({_ULID_DIGIT}*))?(?:{lists.ELLIPSIS}|\.\.\.))?({_ULID_DIGIT}{{4,25}})",
    re.IGNORECASE | re.ASCII,
)
"""The end of an order's id, alone or after the start of the id and an ellipsis."""
_LAST = "Z" * 26


async def order(tx: Transaction, text: str, labels: Labels) -> Hits:
    """Find the order of its id, or of the id of its payment or of one of its refunds."""
    kind, order_id = text[:3].upper(), f"ORD{text[3:].upper()}"
    if not ids.ORDER_ID.fullmatch(order_id):
        return []
    if kind == "REF":
        return await _orders(tx, await tx.all(ORDER_OF_REFUND, text.upper()), labels)
    owners = await tx.all(OWNER, order_id) if kind in ("ORD", "PAY") else ()
    return await _orders(tx, [(seller_id, order_id) for (seller_id,) in owners], labels)


async def orders_by_ending(tx: Transaction, text: str, labels: Labels) -> Hits:
    """Find recent orders by the end of their id, or by the short form of it that pages show, such as `ORD01M…8VS7`."""
    short_id = _SHORT_ID.fullmatch(text)
    if short_id is None:
        return []
    first, ending = f"ORD{(short_id[1] or '').upper()}", short_id[2].upper()
    (sellers_count,) = await tx.one(COUNT_SELLERS) or (1,)
    of_each = ORDERS_READ // max(sellers_count, 1) + 1
    rows = await tx.all(ORDERS_LIKE, first, f"{first}{_LAST}", f"{first}%{ending}", of_each)
    keys = [(seller_id, order_id) for seller_id, order_ids in rows for order_id in order_ids.split()]
    return await _orders(tx, sorted(keys, key=lambda key: key[1], reverse=True)[:RESULTS_MAX], labels)


async def orders_by_reference(tx: Transaction, text: str, labels: Labels) -> Hits:
    """Find the newest orders with an external reference, and the orders of a reference of the acquirer.

    References are compared exactly; if there is none, the text is looked for in upper and in lower case.
    """
    of_application: Hits = []
    for spelling in dict.fromkeys((text, text.upper(), text.lower())):
        of_application = of_application or await _newest(tx, OrderFilters(external_reference=spelling), labels)
    if not (text.isascii() and text.isdigit()):
        return of_application
    return of_application + await _orders(tx, await tx.all(ORDERS_OF_ACQUIRER, text, RESULTS_MAX), labels)


async def orders_by_card(tx: Transaction, text: str, labels: Labels) -> Hits:
    """Find the newest orders that a card with these last four digits paid, or tried to."""
    is_card = len(text) == 4 and text.isascii() and text.isdigit()
    return await _newest(tx, OrderFilters(last_digits=text), labels) if is_card else []


async def orders_by_payer(tx: Transaction, text: str, labels: Labels) -> Hits:
    """Find the newest orders with the payer's e-mail address, in upper or lower case."""
    return await _newest(tx, OrderFilters(payer_email=text), labels) if "@" in text else []


async def _newest(tx: Transaction, filters: OrderFilters, labels: Labels) -> Hits:
    statement, values = filters.statement(labels, filters.first)
    rows = await tx.all(statement.all, *filters.first, RESULTS_MAX, 0, *values)
    return [_order(row, labels) for row in rows]


async def _orders(tx: Transaction, keys: Iterable[Row], labels: Labels) -> Hits:
    rows = [await tx.one(ORDER, seller_id, order_id) for seller_id, order_id in keys]
    return [_order(row, labels) for row in rows if row is not None]


def _order(row: Row, labels: Labels) -> SearchHit:
    one, last_digits = order_of(row)
    facts = (one.external_reference, f"card {last_digits}" if last_digits else None, one.terminal_id)
    amount, detail = f"{spelled(one.amount, one.currency)} {one.currency}", " · ".join(filter(None, facts))
    return SearchHit("order", one.order_id, amount, detail, labels.of(one), rfc3339(one.created_ms))
