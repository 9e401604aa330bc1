"""Insert millions of orders with their events, deliveries, keys and leases by SQL, as a database has after a year.

Every second order belongs to the seller whose calls are measured, the others to 99 more sellers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from paydesk.platform.storage.database import Database, Transaction

CHUNK = 100_000
SELLERS = 99
TERMINALS = 100_000
VERSIONS_MAX = 3

# One column per digit: a chunk of numbers in one statement, for both databases. $1 is the first, $2 the count.
_DIGITS = "(SELECT 0 AS d UNION ALL " + " UNION ALL ".join(f"SELECT {digit}" for digit in range(1, 10)) + ")"
_COUNTED = "SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS k FROM " + ", ".join(
    f"{_DIGITS} AS {name}" for name in "abcef"
)
# `many` is a number as text of fixed length; `mixed` has all of them in another order, as random keys do.
NUMBERS = f"""(SELECT n, CAST(1000000000 + n AS text) AS many,
        CAST(1000000000 + (n * 7919) % 999999937 AS text) AS mixed,
        CASE WHEN n % 2 = 0 THEN CAST($3 AS bigint) ELSE 1 + n % {SELLERS} END AS seller_id
   FROM (SELECT CAST($1 AS bigint) + k AS n FROM ({_COUNTED}) AS counted WHERE k < CAST($2 AS bigint)) AS numbered
 ) AS numbers"""
_ORDER_ID = "'ORD01JB000000000000' || many"
_EVENT_ID = "'0f1d7c3e-5b2a-4c1f-8e6d-' || mixed || version"
_VERSIONS = "(SELECT 1 AS version UNION ALL SELECT 2 UNION ALL SELECT 3) AS versions"
# $4 is the first instant, rows are 1 s apart; $5 a text of the size of a body, $6 the number of versions.
_AT = "CAST($4 AS bigint) + n * 1000"

ORDERS = f"""
INSERT INTO orders (seller_id, order_id, application_id, live, terminal_id, status, status_detail,
                    payment_status_detail, version, currency, country, amount, amount_minor, external_reference,
                    expiration_time, config, integration_data, created_ms, updated_ms, expires_ms, permitted_ms,
                    paid_ms, paid_minor, refunded_minor, reference_id, payment_method, card)
SELECT seller_id, {_ORDER_ID}, 7, 0, 'NEWLAND_N950__N' || CAST(100000000 + n % {TERMINALS} AS text), 'processed',
       'processed', 'accredited', 3, 'BRL', 'BRA', '24.90', 2490, 'ext_ref_' || many, 'PT15M',
       '{{"point":{{"print_on_terminal":"no_ticket"}}}}', '{{}}', {_AT}, {_AT}, {_AT} + 900000, {_AT}, {_AT}, 2490, 0,
       mixed, '{{"id":"visa","type":"credit_card","installments":1}}', '{{"last_digits":"6351"}}'
  FROM {NUMBERS}"""

EVENTS = f"""
INSERT INTO order_events (seller_id, order_id, version, event_id, action, move, status, status_detail,
                          payment_status_detail, body, created_ms, application_id, live, number)
SELECT seller_id, {_ORDER_ID}, version, {_EVENT_ID}, 'order.processed', 'approve', 'processed', 'processed',
       'accredited', CAST($5 AS text), {_AT}, 7, 0, (n - 1) * CAST($6 AS bigint) + version
  FROM {NUMBERS} CROSS JOIN {_VERSIONS} WHERE version <= CAST($6 AS bigint)"""

DELIVERIES = f"""
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms, ended_ms)
SELECT seller_id, {_EVENT_ID} || '.6a1c0e34-7d2b-4d5e-8c07-3b4f7b1f5a10', '6a1c0e34-7d2b-4d5e-8c07-3b4f7b1f5a10',
       {_ORDER_ID}, version, 'delivered', 1, {_AT}, 0, {_AT}, {_AT}
  FROM {NUMBERS} CROSS JOIN {_VERSIONS} WHERE version <= CAST($5 AS bigint)"""

KEYS = f"""
INSERT INTO idempotency_keys (seller_id, application_id, live, operation, object_id, idempotency_key, digest, status,
                              answer, replays, created_ms)
SELECT seller_id, 7, 0, 'create_order', '', 'bulk-' || mixed, CAST($5 AS bytea), 201, CAST($5 AS bytea), 0, {_AT}
  FROM {NUMBERS}"""

LEASES = f"""
INSERT INTO leases (seller_id, lease_id, order_id, terminal_id, session, acknowledged_ms, seq, step, ended_ms, ended_by)
SELECT seller_id, '01JB000000000000' || many, {_ORDER_ID},
       'NEWLAND_N950__N' || CAST(100000000 + n % {TERMINALS} AS text), 1, {_AT}, 3, 'authorizing', {_AT}, 'result'
  FROM {NUMBERS}"""


def order_id(number: int) -> str:
    """Return the id of the order with that number."""
    return f"ORD01JB000000000000{1_000_000_000 + number}"


TABLES = ("orders", "order_events", "deliveries", "idempotency_keys", "leases")


async def fill(  # noqa: PLR0913 - how much of what, each by name
    database: Database,
    seller_id: int,
    orders: int,
    *,
    first: int = 0,
    since_ms: int,
    versions: int = VERSIONS_MAX,
    body_bytes: int = 700,
    tables: Collection[str] = TABLES,
    on_progress: Callable[[int], object] = lambda _: None,
) -> None:
    """Insert the orders `first` to `orders`, 1 s apart; `on_progress` is called with the number inserted so far."""
    body = "x" * body_bytes
    for start in range(first, orders, CHUNK):
        count = min(CHUNK, orders - start)
        common = (start, count, seller_id, since_ms)
        statements = {
            "orders": (ORDERS, common),
            "order_events": (EVENTS, (*common, body, versions)),
            "deliveries": (DELIVERIES, (*common, versions)),
            "idempotency_keys": (KEYS, (*common, body.encode())),
            "leases": (LEASES, common),
        }
        for table in tables:
            await database.write(partial(_run, statement=statements[table]))
        on_progress(start + count)


async def _run(tx: Transaction, statement: tuple[str, tuple[object, ...]]) -> None:
    sql, args = statement
    await tx.run(sql, *args)
