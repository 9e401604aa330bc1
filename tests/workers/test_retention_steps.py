"""Pruning goes in small steps, on any number of nodes, and may be cut off anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.platform.health.clock import ClockJumped, WatchedClock
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, T, Transaction, Work
from paydesk.service import retention
from paydesk.service.retention import Sweep
from retention_scene import NOW_MS, SELLER, add_delivery, add_key, add_seller, context_of, count, sweep

KEYS = 100
DELIVERIES = 20
ROWS = KEYS + DELIVERIES * 3
STEP = 7


async def _fill(tx: Transaction) -> None:
    """Two sellers: keys of both, deliveries of one; all of it old."""
    await add_seller(tx)
    await add_seller(tx, SELLER + 1)
    for number in range(KEYS):
        await add_key(tx, f"key {number}", 40 + number / KEYS, seller=SELLER + number % 2)
    for number in range(DELIVERIES):
        await add_delivery(tx, f"delivery {number}", 40 + number / KEYS)


async def _left(database: Database) -> int:
    return sum([await count(database, table) for table in ("idempotency_keys", "deliveries", "attempts")])


class Watched:
    """A database that records the results of its writes and calls `before` each of them."""

    def __init__(self, database: Database, before: Callable[[], None] = lambda: None) -> None:
        self._database, self._before = database, before
        self.name, self.signals, self.silence = database.name, database.signals, database.silence
        self.results: list[Any] = []

    async def write(self, work: Work[T], **options: Any) -> T:
        """Run `work` and remember its result."""
        self._before()
        result = await self._database.write(work, **options)
        self.results.append(result)
        return result

    async def read(self, work: Work[T], **options: Any) -> T:
        """Run `work`."""
        return await self._database.read(work, **options)

    async def check_writable(self) -> None:
        """Ask the database."""
        await self._database.check_writable()

    async def close(self) -> None:
        """Close it."""
        await self._database.close()


@pytest.mark.on_postgres
async def test_a_step_is_bounded(database: Database) -> None:
    """No transaction takes more rows than it may, and all that is old goes in the end."""
    await database.write(_fill)
    watched = Watched(database)
    assert await sweep(watched, step_rows_max=STEP) == ROWS
    assert max(watched.results) == STEP
    assert len(watched.results) >= ROWS // STEP
    assert await _left(database) == 0


async def test_two_nodes_prune_at_once(database: Database, database_url: str) -> None:
    """Two nodes sweep at the same time: everything goes, each row once, and neither fails."""
    await database.write(_fill)
    other = await open_database(database_url) if database.name == "postgres" else database
    try:
        rows = await asyncio.gather(sweep(database, step_rows_max=STEP), sweep(other, step_rows_max=STEP))
    finally:
        if other is not database:
            await other.close()
    assert sum(rows) == ROWS
    assert await _left(database) == 0


@pytest.mark.parametrize("steps", [1, 12])
async def test_an_interrupted_sweep_is_continued(database: Database, steps: int) -> None:
    """A node that dies between two steps leaves whole rows and a sound ledger; the next sweep takes the rest."""
    await database.write(_fill)
    countdown = iter(range(steps))

    def die() -> None:
        if next(countdown, None) is None:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await sweep(Watched(database, die), step_rows_max=STEP)
    left = await _left(database)
    assert ROWS - steps * STEP <= left < ROWS
    orphans = "SELECT 1 FROM attempts a LEFT JOIN deliveries d ON d.delivery_id = a.delivery_id WHERE d.version IS NULL"
    assert await database.read(lambda tx: tx.all(orphans)) == []
    assert await check.check(database, NOW_MS) == []
    assert await sweep(database, step_rows_max=STEP) == left


async def test_a_sweep_ends_on_stop(database: Database) -> None:
    """After `stop` no step begins."""
    await database.write(_fill)
    stop = asyncio.Event()
    watched = Watched(database, stop.set)
    assert await Sweep(context_of(watched), stop, step_rows_max=STEP).run() == STEP
    assert len(watched.results) == 1


async def test_nothing_is_deleted_after_a_clock_jump(database: Database) -> None:
    """A sweep ends when the node's clock jumps in the middle of it, and none begins until it is back."""
    await database.write(_fill)
    ahead_ns = [0]
    clock = WatchedClock(lambda: NOW_MS * 1_000_000 + ahead_ns[0], lambda: 0)

    def jump() -> None:
        ahead_ns[0] = 40 * 86_400 * 10**9

    with pytest.raises(ClockJumped):
        await sweep(Watched(database, jump), clock, step_rows_max=STEP)
    assert await _left(database) == ROWS - STEP
    with pytest.raises(ClockJumped):
        await sweep(database, clock)
    assert await _left(database) == ROWS - STEP
    ahead_ns[0] = 0
    assert await sweep(database, clock) == ROWS - STEP


async def test_the_worker_sweeps_when_the_clock_is_moved(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """In development, moving the clock notifies the worker."""
    monkeypatch.setattr(retention, "FIRST_SWEEP_SECONDS_MAX", 3600.0)
    await database.write(_fill)
    stop, clock = asyncio.Event(), MovableClock(frozen_ms=NOW_MS)
    worker = asyncio.create_task(retention.run(context_of(database, clock), stop))
    try:
        while await _left(database):
            database.signals.notify(["clock"])
            await asyncio.sleep(0.01)
    finally:
        stop.set()
        database.signals.stop()
        await worker
