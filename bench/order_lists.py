"""`python -m bench.order_lists`: time each list at 1,000,000 orders, of all sellers and of one, and print its plan.

The orders have ids of their times, most are processed, and few have what a filter looks for.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.bulk import _COUNTED as COUNTED
from bench.postgres import Postgres
from paydesk.engine.orders.status_labels import EXTENDED
from paydesk.operators.orders.lists import OrderFilters
from paydesk.operators.search.hits import Hits
from paydesk.operators.search.orders import orders_by_ending
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.storage.migrate import migrate

SELLER, FEW = 1, 7
"""Of seven sellers the first has more than half of the orders."""
STEP = 100_000
BEGIN_MS = 1_780_000_000_000
EVERY_MS = 30_000

_DIGIT = "substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', CAST(1 + ((at >> {}) & 31) AS int), 1)"
_ULID = " || ".join(_DIGIT.format(shift) for shift in range(45, -1, -5))
# Of 10,000 orders one failed with a rare card on a rare terminal, one was partly refunded; one of 40 was canceled.
_STATUS = "CASE WHEN n % 10000 = 1 THEN 'failed' WHEN n % 40 = 0 THEN 'canceled' ELSE 'processed' END"
_DETAIL = """CASE WHEN n % 10000 = 1 THEN 'failed' WHEN n % 10000 = 2 THEN 'partially_refunded'
            WHEN n % 40 = 0 THEN 'canceled' ELSE 'processed' END"""
_PAYMENT = """CASE WHEN n % 10000 = 1 THEN 'high_risk' WHEN n % 10000 = 2 THEN 'partially_refunded'
             WHEN n % 40 = 0 THEN 'canceled_by_api' ELSE 'accredited' END"""

FILL = f"""
INSERT INTO orders (seller_id, order_id, application_id, live, terminal_id, status, status_detail,
                    payment_status_detail, version, currency, country, amount, amount_minor, external_reference,
                    expiration_time, config, integration_data, created_ms, updated_ms, expires_ms, permitted_ms,
                    paid_ms, paid_minor, refunded_minor, reference_id, payment_method, card, last_digits, payer_email)
SELECT CAST($3 AS bigint) + CASE WHEN n % 2 = 0 THEN 0 ELSE n / 2 % {FEW} END,
       'ORD' || {_ULID} || CAST(1000000000000000 + n AS text), 7,
       CASE WHEN n % 50000 = 3 THEN 0 ELSE 1 END,
       'NEWLAND_N950__N' || CAST(100000000 + CASE WHEN n % 50000 = 5 THEN 0 ELSE 1 + n % 400 END AS text),
       {_STATUS}, {_DETAIL}, {_PAYMENT}, 3, 'BRL', 'BRA', '24.90', 2490, 'ext_ref_' || CAST(n AS text), 'PT15M',
       '{{"point":{{"print_on_terminal":"no_ticket"}}}}', '{{}}', at, at, at + 900000, at, at, 2490, 0,
       CAST(n AS text), '{{"id":"visa","type":"credit_card","installments":1}}', '{{"last_digits":"6351"}}',
       CAST(1000 + n % 9000 AS text), CASE WHEN n % 10 = 0 THEN 'p' || CAST(n AS text) || '@shop.example' END
  FROM (SELECT CAST($1 AS bigint) + k AS n,
               CAST($4 AS bigint) + (CAST($1 AS bigint) + k) * CAST($5 AS bigint) AS at
          FROM ({COUNTED}) AS counted WHERE k < CAST($2 AS bigint)) AS numbered"""

ADD_SELLER = """
INSERT INTO sellers (seller_id, email, name, country, currency, password, created_ms)
VALUES (CAST($1 AS bigint), 's' || CAST(CAST($1 AS bigint) AS text), 'S', 'BRA', 'BRL', '', 1)"""


def chosen(orders: int) -> dict[str, OrderFilters]:
    """Return the lists to measure."""
    middle_ms = BEGIN_MS + orders // 2 * EVERY_MS
    return {
        "all": OrderFilters(),
        "since and until": OrderFilters(since_ms=middle_ms, until_ms=middle_ms + 86_400_000),
        "reference": OrderFilters(external_reference="ext_ref_500"),
        "last digits": OrderFilters(last_digits="1234"),
        "payer's address": OrderFilters(payer_email="P500@shop.example"),
        "processed": OrderFilters(status="processed"),
        "failed": OrderFilters(status="failed"),
        "canceled": OrderFilters(status="canceled"),
        "refunded: none": OrderFilters(status="refunded"),
        "expired: none": OrderFilters(status="expired"),
        "at a terminal: none": OrderFilters(status="at_terminal"),
        "action required: none": OrderFilters(status="action_required"),
        "processed, not refunded": OrderFilters(state="processed"),
        "partly refunded": OrderFilters(state="partially_refunded"),
        "live, partly refunded": OrderFilters(state="partially_refunded", live=1),
        "canceled, not expired": OrderFilters(state="canceled"),
        "cancel requested: none": OrderFilters(state="cancellation_requested"),
        "partly refunded on a terminal": OrderFilters(
            terminal_id="NEWLAND_N950__N100000002", state="partially_refunded"
        ),
        "few on a terminal": OrderFilters(terminal_id="NEWLAND_N950__N100000000"),
        "many on a terminal": OrderFilters(terminal_id="NEWLAND_N950__N100000005"),
        "unknown terminal": OrderFilters(terminal_id="NEWLAND_N950__N1"),
        "failed, few on a terminal": OrderFilters(terminal_id="NEWLAND_N950__N100000005", status="failed"),
        "live": OrderFilters(live=1),
        "test: few": OrderFilters(live=0),
        "live, failed": OrderFilters(live=1, status="failed"),
        "live, of application": OrderFilters(live=1, application_id=7),
        "of application": OrderFilters(application_id=7),
        "of application: none": OrderFilters(application_id=8),
    }


async def fill(database: Database, orders: int) -> None:
    """Insert the sellers and so many orders."""
    for seller_id in range(SELLER, SELLER + FEW):
        await database.write(partial(_run, sql=ADD_SELLER, args=(seller_id,)))
    for first in range(0, orders, STEP):
        args = (first, min(STEP, orders - first), SELLER, BEGIN_MS, EVERY_MS)
        await database.write(partial(_run, sql=FILL, args=args))


async def _run(tx: Transaction, sql: str, args: tuple[Any, ...]) -> None:
    await tx.run(sql, *args)


async def _all(tx: Transaction, sql: str, args: tuple[Any, ...]) -> Any:
    return await tx.all(sql, *args)


def calls_of(filters: OrderFilters) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return the two statements of the first page of a list with their values."""
    statements, values = filters.statement(EXTENDED, filters.first)
    return tuple(
        (sql, (*filters.first, 51, seller_id, *values)) for sql, seller_id in zip(statements, (0, SELLER), strict=True)
    )


async def measured(database: Database, filters: OrderFilters) -> tuple[int, float, float]:
    """Return the number of rows of the first page, and the milliseconds of each statement, the best of three."""
    times, found = [], 0
    for sql, args in calls_of(filters):
        best = float("inf")
        for _ in range(3):
            begun = time.perf_counter()
            found = len(await database.read(partial(_all, sql=sql, args=args)))
            best = min(best, time.perf_counter() - begun)
        times.append(best * 1000)
    return found, times[0], times[1]


async def searched(database: Database, text: str) -> tuple[int, float]:
    """Return the number of orders whose id has this end, and the milliseconds of the search, the best of three."""
    best = float("inf")
    hits: Hits = []
    for _ in range(3):
        begun = time.perf_counter()
        hits = await database.read(partial(orders_by_ending, text=text, labels=EXTENDED))
        best = min(best, time.perf_counter() - begun)
    return len(hits), best * 1000


async def explained(database: Database, sql: str, args: tuple[Any, ...], *, sqlite: bool) -> list[str]:
    """Return the steps of a plan."""
    explain = "EXPLAIN QUERY PLAN" if sqlite else "EXPLAIN"
    rows = await database.read(partial(_all, sql=f"{explain} {sql}", args=args))
    return [row[3] if sqlite else row[0] for row in rows]


async def run(url: str, orders: int, *, plans: bool) -> None:
    """Fill a database, measure every list, and print the result."""
    database = await open_database(url)
    await migrate(database, BEGIN_MS)
    begun = time.perf_counter()
    await fill(database, orders)
    if "postgres" in url:
        await database.write(partial(_run, sql="ANALYZE orders", args=()))
    console = Console(width=160)
    console.print(f"{orders} orders in {time.perf_counter() - begun:.0f} s")
    for name, filters in chosen(orders).items():
        found, all_ms, own_ms = await measured(database, filters)
        console.print(f"{name:28} {found:3} rows  of all {all_ms:8.1f} ms  of a seller {own_ms:8.1f} ms")
        if plans:
            for sql, args in calls_of(filters):
                for step in await explained(database, sql, args, sqlite="sqlite" in url):
                    console.print("      ", step, markup=False)
    (newest, *_) = await database.read(
        partial(_all, sql="SELECT MAX(order_id) FROM orders WHERE seller_id = 1", args=())
    )
    for text in (newest[0][-8:], f"{newest[0][:6]}…{newest[0][-4:]}", "ZZZZ"):
        found, search_ms = await searched(database, text)
        console.print(f"end of an id {text:15} {found:3} rows  {search_ms:8.1f} ms")
    await database.close()


def main() -> None:
    """Measure on the chosen database."""
    parser = argparse.ArgumentParser(prog="python -m bench.order_lists", description=__doc__)
    parser.add_argument("--database", default="sqlite", choices=["sqlite", "postgres"])
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--plans", action="store_true", help="print the plan of each statement")
    arguments = parser.parse_args()
    if arguments.database == "postgres":
        server = Postgres(10)
        asyncio.run(run(server.create_database("lists"), arguments.orders, plans=arguments.plans))
        server.end()
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(f"sqlite:{Path(folder) / 'lists.db'}", arguments.orders, plans=arguments.plans))


if __name__ == "__main__":
    main()
