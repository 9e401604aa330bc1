"""`python -m bench.database_metrics`: what `/metrics/database` costs the database at 1,000,000 orders, by statement.

The orders have events and deliveries that have ended. Few are open: an order on each of 2,000 terminals, 500 jobs of
each kind, 500 notifications of 50 subscriptions, of 20,000 terminals. `--backlog` has 20,000 of each, and 50,000
terminals. Printed is CPU time, which does not depend on what else the machine does: of the thread with SQLite, or of
PostgreSQL's process.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import bulk
from bench.bulk import NUMBERS
from bench.postgres import Postgres
from paydesk.core.clock import SystemClock
from paydesk.platform.metrics.database import DatabaseMetrics
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Row, Transaction
from paydesk.platform.storage.migrate import migrate
from paydesk.service.readings import READINGS

SELLER, SINCE_MS, STEP = 1_000_001, 1_780_000_000_000, 10_000
RUNS = 5

# $1 is the first number, $2 how many, $3 the seller that has half of them, $4 an instant; every second one is live.
_JOB = "n % 2, 1, CAST($4 AS bigint) + n, CAST($4 AS bigint) + n"
OPEN = {
    "orders": f"""
INSERT INTO orders (seller_id, order_id, application_id, live, terminal_id, status, status_detail,
                    payment_status_detail, version, currency, country, amount, amount_minor, expiration_time, config,
                    integration_data, created_ms, updated_ms, expires_ms, refunded_minor)
SELECT seller_id, 'ORD01JC000000000000' || many, 7, 1, 'NEWLAND_N950__N' || many, 'created', 'created', 'created', 1,
       'BRL', 'BRA', '24.90', 2490, 'PT15M', '{{"point":{{"print_on_terminal":"no_ticket"}}}}', '{{}}',
       CAST($4 AS bigint) + n, CAST($4 AS bigint) + n, CAST($4 AS bigint) + n, 0 FROM {NUMBERS}""",
    "inquiries": f"""
INSERT INTO inquiries (seller_id, order_id, reason, live, attempts, next_ms, created_ms)
SELECT seller_id, 'ORD01JC000000000000' || many, '', {_JOB} FROM {NUMBERS}""",
    "reversals": f"""
INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, amount_minor, reference_id, status, live,
                       attempts, next_ms, created_ms)
SELECT seller_id, many, 'ORD01JC000000000000' || many, many, '1', 100, '1', 'pending', {_JOB} FROM {NUMBERS}""",
    "refunds": f"""
INSERT INTO refunds (seller_id, refund_id, order_id, application_id, idempotency_key, amount, amount_minor, status,
                     unsent, claimed_until_ms, live, attempts, next_ms, created_ms)
SELECT seller_id, many, 'ORD01JC000000000000' || many, 7, '', '1.00', 100, 'processing', 0, 0, {_JOB}
  FROM {NUMBERS}""",
    "confirmations": f"""
INSERT INTO confirmations (seller_id, order_id, status, amount_minor, currency, reference_id, approved_ms, decide_by_ms,
                           live, attempts, next_ms, created_ms)
SELECT seller_id, 'ORD01JC000000000000' || many, 'provisional', 100, 'BRL', '1', n, n, {_JOB} FROM {NUMBERS}""",
    "order_events": f"""
INSERT INTO order_events (seller_id, order_id, version, event_id, action, move, status, status_detail,
                          payment_status_detail, body, created_ms, application_id, live)
SELECT seller_id, 'ORD01JC000000000000' || many, 1, mixed, 'order.created', 'create', 'created', 'created', 'created',
       'x', CAST($4 AS bigint) + n, 7, 1 FROM {NUMBERS}""",
    "deliveries": f"""
INSERT INTO deliveries (seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms,
                        claimed_until_ms, created_ms)
SELECT seller_id, mixed, CAST(n % 50 AS text), 'ORD01JC000000000000' || many, 1, 'pending', 0,
       CAST($4 AS bigint) + n, 0, CAST($4 AS bigint) + n FROM {NUMBERS}""",
}
TERMINALS = f"""
INSERT INTO terminals (seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual, operating_mode, session,
                       last_seen_ms, created_ms)
SELECT seller_id, 'NEWLAND_N950__N' || many, 1, 1, n, 'terminal', 0, 'PDV', 1, CAST($4 AS bigint), 1 FROM {NUMBERS}"""
SUBSCRIPTIONS = f"""
INSERT INTO subscriptions (subscription_id, application_id, live, topic, url, actions, secret_generation, created_ms)
SELECT CAST(n AS text), seller_id, n % 2, 'orders', 'https://shop.example/hooks', '[]', 1, CAST($4 AS bigint)
  FROM {NUMBERS}"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows are open, of each kind, and how many terminals there are."""

    orders: int = 2_000
    jobs: int = 500
    terminals: int = 20_000


USUAL, BACKLOG = Sizes(), Sizes(orders=20_000, jobs=20_000, terminals=50_000)


async def fill(database: Database, orders: int, sizes: Sizes = USUAL) -> None:
    """Insert so many orders that have ended, and what is open."""
    await bulk.fill(database, SELLER, orders, since_ms=SINCE_MS, versions=1, body_bytes=50, tables=bulk.TABLES[:3])
    await insert(database, TERMINALS, sizes.terminals)
    await insert(database, SUBSCRIPTIONS, 50)
    for table, sql in OPEN.items():
        await insert(database, sql, sizes.orders if table == "orders" else sizes.jobs)
    if database.name == "postgres":
        await database.write(lambda tx: tx.run("ANALYZE"))


async def insert(database: Database, sql: str, count: int) -> None:
    """Insert so many rows in steps."""
    for first in range(0, count, STEP):
        args = (first, min(STEP, count - first), SELLER, SINCE_MS)
        await database.write(partial(_run, sql=sql, args=args))


async def _run(tx: Transaction, sql: str, args: tuple[Any, ...]) -> None:
    await tx.run(sql, *args)


async def _all(tx: Transaction, sql: str, args: tuple[Any, ...]) -> list[Row]:
    return await tx.all(sql, *args)


async def explained(database: Database, sql: str, args: tuple[Any, ...]) -> list[str]:
    """Return the steps of a plan."""
    is_sqlite = database.name == "sqlite"
    explain = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
    rows = await database.read(partial(_all, sql=f"{explain} {sql}", args=args), heavy=True)
    return [row[3] if is_sqlite else row[0] for row in rows]


class Timed:
    """The transaction behind it, with the CPU time of each statement."""

    def __init__(self, tx: Transaction, process: int | None, seconds: dict[str, float], args: dict[str, Any]) -> None:
        self._tx, self._process, self._seconds, self._args = tx, process, seconds, args

    async def one(self, sql: str, *args: Any) -> Row | None:
        """Run and time it."""
        rows = await self.all(sql, *args)
        return rows[0] if rows else None

    async def all(self, sql: str, *args: Any) -> list[Row]:
        """Run and time it."""
        begun = self._cpu_seconds()
        rows = await self._tx.all(sql, *args)
        self._seconds[sql] = self._seconds.get(sql, 0) + self._cpu_seconds() - begun
        self._args[sql] = args
        return rows

    def _cpu_seconds(self) -> float:
        if self._process is None:
            return time.thread_time()
        return int(Path(f"/proc/{self._process}/schedstat").read_text().split()[0]) / 1e9


class TimedDatabase:
    """The database behind it, whose reads are timed."""

    def __init__(self, database: Database) -> None:
        self._database, self.name = database, database.name
        self.seconds: dict[str, float] = {}
        self.args: dict[str, tuple[Any, ...]] = {}

    async def read(self, work: Any, *, heavy: bool = False) -> Any:
        """Run `work`."""

        async def timed(tx: Transaction) -> Any:
            row = await tx.one("SELECT pg_backend_pid()") if self.name == "postgres" else None
            return await work(Timed(tx, row[0] if row else None, self.seconds, self.args))

        return await self._database.read(timed, heavy=heavy)


async def run(url: str, orders: int, sizes: Sizes, *, plans: bool) -> None:
    """Fill a database, read the page, and print what each statement costs, the best of some runs."""
    database = await open_database(url, timeout_seconds=600)
    await migrate(database, SINCE_MS)
    await fill(database, orders, sizes)
    best: dict[str, float] = {}
    timed, page = TimedDatabase(database), ""
    for _ in range(RUNS):
        timed = TimedDatabase(database)
        page = await DatabaseMetrics(timed, SystemClock(), Settings(), READINGS).page()  # type: ignore[arg-type]
        best = {sql: min(seconds, best.get(sql, seconds)) for sql, seconds in timed.seconds.items()}
    console = Console(width=160)
    console.print(page, markup=False, highlight=False)
    for sql, seconds in sorted(best.items(), key=lambda one: -one[1]):
        console.print(f"{seconds * 1000:7.2f} ms  {' '.join(sql.split())[:140]}", markup=False, highlight=False)
        for step in await explained(database, sql, timed.args[sql]) if plans else ():
            console.print("            ", step, markup=False, highlight=False)
    console.print(f"{sum(best.values()) * 1000:7.2f} ms  in all, at {orders:,} orders on {database.name}")
    await database.close()


def main() -> None:
    """Measure on the chosen database."""
    parser = argparse.ArgumentParser(prog="python -m bench.database_metrics", description=__doc__)
    parser.add_argument("--database", default="sqlite", choices=["sqlite", "postgres"])
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--backlog", action="store_true", help="20,000 open rows of each kind, 50,000 terminals")
    parser.add_argument("--plans", action="store_true", help="print the plan of each statement")
    arguments = parser.parse_args()
    sizes = BACKLOG if arguments.backlog else USUAL
    measured = partial(run, orders=arguments.orders, sizes=sizes, plans=arguments.plans)
    if arguments.database == "postgres":
        server = Postgres(10)
        try:
            asyncio.run(measured(server.create_database("metrics")))
        finally:
            server.end()
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measured(f"sqlite:{Path(folder) / 'metrics.db'}"))


if __name__ == "__main__":
    main()
