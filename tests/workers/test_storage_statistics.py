"""New tables are analyzed, so that requests find their rows by key from the first minute on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.engine.device.polling import missed_wakeups
from paydesk.platform.health import statistics
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from tables import each
from waiting import HANGS_SECONDS

FILL = """
INSERT INTO idempotency_keys (seller_id, application_id, live, operation, object_id, idempotency_key, digest, replays,
                              created_ms)
SELECT 7, 1, 0, 'create_order', '', 'key-' || n, '', 0, n FROM generate_series(1, 5000) n"""
KEEP = """
UPDATE idempotency_keys SET status = given.a2 FROM unnest($1::text[], $2::bigint[]) AS given (a1, a2)
 WHERE seller_id = 7 AND application_id = 1 AND live = 0 AND operation = 'create_order' AND object_id = ''
   AND idempotency_key = given.a1"""


def context_of(database: Database) -> WorkerContext:
    """What a worker is given."""
    return WorkerContext(database, Settings(), MovableClock(), Keys(1, {1: b"k" * 32}))


async def test_a_new_table_is_analyzed_once(postgres_url: str) -> None:
    """As soon as there is something in it; then a row is found by its whole key, also in a set."""
    database = await open_database(postgres_url)
    try:
        assert await statistics.step(context_of(database)) == 0, "nothing is in any of them"
        await database.write(lambda tx: tx.run(FILL))
        assert await statistics.step(context_of(database)) == 1
        assert await statistics.step(context_of(database)) == 0
        plan = await database.read(lambda tx: tx.all(f"EXPLAIN {KEEP}", ["key-1"], [201]))
        assert "idempotency_keys_pkey" in "\n".join(row[0] for row in plan), plan
    finally:
        await database.close()


@each(
    "worker, pauses",
    [
        (statistics, ("POLL_INTERVAL_SECONDS",)),
        (missed_wakeups, ("SCAN_SECONDS", "SCAN_CONNECTED_SECONDS")),
    ],
)
async def test_a_stop_during_the_first_look_is_not_missed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, worker: Any, pauses: tuple[str, ...]
) -> None:
    """The worker does not wait for its next one."""
    for name in pauses:
        monkeypatch.setattr(worker, name, 3600)
    database = await open_database(postgres_url)
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(context_of(database), stop))
    await asyncio.sleep(0)
    stop.set()
    database.signals.stop()
    async with asyncio.timeout(HANGS_SECONDS):
        await working
    await database.close()


async def test_sqlite_needs_no_statistics(sqlite_url: str) -> None:
    """The worker waits for the end."""
    database = await open_database(sqlite_url)
    stop = asyncio.Event()
    working = asyncio.create_task(statistics.run(context_of(database), stop))
    await asyncio.sleep(0)
    assert not working.done()
    stop.set()
    await working
    await database.close()
