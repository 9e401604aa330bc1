"""What tests of retention share: rows of every kind that is pruned, and a sweep."""

from __future__ import annotations

import asyncio
from typing import Any

from oauth_scene import DAY_MS
from paydesk.core.clock import Clock, MovableClock
from paydesk.core.keys import Keys
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext
from paydesk.service.retention import STEP_ROWS_MAX, Sweep

NOW_MS = 1_800_000_000_000
SELLER = 1160535239


def context_of(database: Database, clock: Clock | None = None, **options: Any) -> WorkerContext:
    """What the worker is given."""
    settings = options.pop("settings", Settings())
    return WorkerContext(
        database, settings, clock or MovableClock(frozen_ms=NOW_MS), Keys(1, {1: b"k" * 32}), **options
    )


async def sweep(
    database: Database, clock: Clock | None = None, *, step_rows_max: int = STEP_ROWS_MAX, **options: Any
) -> int:
    """One sweep to its end; how many rows went."""
    return await Sweep(context_of(database, clock, **options), asyncio.Event(), step_rows_max=step_rows_max).run()


async def insert(tx: Transaction, table: str, **columns: Any) -> None:
    """One row."""
    places = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
    await tx.run(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", *columns.values())


async def add_seller(tx: Transaction, seller_id: int = SELLER) -> None:
    """A seller to be swept."""
    said = {"name": "Shop", "country": "BRA", "currency": "BRL", "password": "none", "created_ms": 0}
    await insert(tx, "sellers", seller_id=seller_id, email=f"{seller_id}@shop.example", **said)


async def add_key(
    tx: Transaction, key: str, days: float, operation: str = "create_order", seller: int = SELLER
) -> None:
    """A key that was claimed so many days ago."""
    names = {"seller_id": seller, "application_id": 7, "live": 0, "operation": operation, "object_id": ""}
    said = {"digest": b"", "status": 201, "answer": b"{}", "replays": 0, "created_ms": ago(days)}
    await insert(tx, "idempotency_keys", **names, idempotency_key=key, **said)


async def add_delivery(
    tx: Transaction, name: str, days: float | None, status: str = "delivered", *, attempts: int = 2
) -> None:
    """A delivery with its attempts that ended so many days ago, or is still to be delivered."""
    names = {"seller_id": SELLER, "delivery_id": name, "subscription_id": "s", "order_id": name, "version": 1}
    said = {"attempts": attempts, "next_ms": 0, "claimed_until_ms": 0, "created_ms": ago(90)}
    ended_ms = None if days is None else ago(days)
    await insert(tx, "deliveries", **names, **said, status=status, ended_ms=ended_ms)
    for attempt in range(1, attempts + 1):
        made = {"attempt": attempt, "started_ms": ago(90), "duration_ms": 1, "answer_body": ""}
        await insert(tx, "attempts", seller_id=SELLER, delivery_id=name, **made)


async def names_of(database: Database, table: str, column: str) -> list[Any]:
    """What is left, in order."""
    rows = await database.read(lambda tx: tx.all(f"SELECT {column} FROM {table} ORDER BY {column}"))
    return [row[0] for row in rows]


async def count(database: Database, table: str) -> int:
    """How many rows are left."""
    row = await database.read(lambda tx: tx.one(f"SELECT COUNT(*) FROM {table}"))
    assert row is not None
    number: int = row[0]
    return number


def ago(days: float) -> int:
    """The instant so many days before `NOW_MS`."""
    return NOW_MS - round(days * DAY_MS)
