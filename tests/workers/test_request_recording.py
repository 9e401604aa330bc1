"""The worker that writes recorded requests: in batches, without a delay at the end, and never more than are kept."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from faulty_database import FaultyDatabase
from moved_time import advance
from paydesk.core import ids
from paydesk.core.clock import MovableClock
from paydesk.core.objects import Objects
from paydesk.platform.http.recording import store as recorded_store
from paydesk.platform.http.recording import worker as request_recording
from paydesk.platform.http.recording.recorder import RequestRecorder
from paydesk.platform.http.recording.store import KEPT_MAX, KEPT_MS, PRUNED_MAX, UNKNOWN_MAX, Recorded
from paydesk.platform.http.reply import Reply
from paydesk.platform.http.request import Request
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Unavailable
from paydesk.platform.worker import WorkerContext
from recording_database import RecordingDatabase
from shared_objects import KEYS
from waiting import until_found

SCOPE = {"type": "http", "method": "GET", "path": "/v1/orders", "query_string": b"", "headers": []}


def context_of(database: Any, *, development: bool = True) -> WorkerContext:
    """What the worker is given."""
    recorder = RequestRecorder(development=development)
    return WorkerContext(database, Settings(), MovableClock(), KEYS, development=development, objects=Objects(recorder))


def note(context: WorkerContext, count: int = 1) -> None:
    """Leave requests."""
    recorder = context.objects[RequestRecorder]
    for _ in range(count):
        recorder.note("list_orders", Request(SCOPE), Reply(200), "own-id", "127.0.0.1", time.perf_counter())


async def write(context: WorkerContext) -> None:
    """Let the worker write once."""
    await request_recording.write(context, context.objects[RequestRecorder])


async def count(database: Database) -> int:
    """Return how many rows there are."""
    (rows,) = await database.read(lambda tx: tx.all("SELECT COUNT(*) FROM recorded_requests"))
    return int(rows[0])


async def fill(database: Database, rows: int, created_ms: int, *, application_id: int | None = 1) -> None:
    """Insert rows of one time."""
    one = Recorded(
        *("", "own-id", "GET", "/v1/orders", "list_orders", 200, 1000, None, None, None, None, None, None, 0, None),
        *(None, "127.0.0.1", "", None, None, created_ms),
    )._replace(application_id=application_id)
    made = [one._replace(entry_id=ids.ordered_ulid(created_ms)) for _ in range(rows)]
    await database.write(lambda tx: recorded_store.add(tx, made))


@pytest.mark.parametrize("rows", [1, 3, 63, 300])
async def test_all_that_wait_are_written(database: Database, rows: int) -> None:
    """In few statements, whatever their number is."""
    recording = RecordingDatabase(database)
    context = context_of(recording)
    note(context, rows)
    await write(context)
    assert await count(database) == rows
    inserts = {sql for sql in recording.asked if "INSERT INTO recorded_requests" in sql}
    assert 1 <= len(inserts) <= len(recorded_store.ROWS_PER_STATEMENT)
    await write(context)
    assert await count(database) == rows


async def test_what_cannot_be_written_is_dropped_and_counted(database: Database) -> None:
    """Nothing waits for a database that is away; it is written again once it is back."""
    faulty = FaultyDatabase(database)
    faulty.fault = Unavailable("away")
    context = context_of(faulty)
    note(context, 300)
    await write(context)
    assert (context.objects[RequestRecorder].dropped, await count(database)) == (300, 0)
    faulty.fault = None
    note(context)
    await write(context)
    assert (context.objects[RequestRecorder].dropped, await count(database)) == (300, 1)


@pytest.mark.parametrize("development", [False, True], ids=["production", "development"])
async def test_the_worker_writes_soon_and_ends_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, development: bool
) -> None:
    """In development sooner, since a person looks at it. At the end nothing is lost."""
    other = "WRITE_SECONDS" if development else "DEVELOPMENT_WRITE_SECONDS"
    monkeypatch.setattr(request_recording, other, 600.0)
    context, stop = context_of(database, development=development), asyncio.Event()
    working = asyncio.create_task(request_recording.run(context, stop))
    await asyncio.sleep(0)
    note(context)
    await until_found(lambda: count(database))
    note(context, 2)
    stop.set()
    context.database.signals.stop()
    await working
    assert await count(database) == 3
    context.database.signals.stopping = False


async def test_without_a_recorder_the_worker_waits_for_the_end(database: Database) -> None:
    """As in commands that run workers without requests."""
    stop = asyncio.Event()
    working = asyncio.create_task(request_recording.run(replace(context_of(database), objects=Objects()), stop))
    await asyncio.sleep(0)
    advance(3_600)
    assert await count(database) == 0
    assert not working.done()
    stop.set()
    await working


async def test_old_requests_are_deleted(database: Database) -> None:
    """After seven days, in steps, however many there are."""
    context = context_of(database)
    now_ms = context.clock.now_ms()
    await fill(database, PRUNED_MAX + 7, now_ms - KEPT_MS - 1000)
    await fill(database, 5, now_ms - KEPT_MS + 60_000)
    await request_recording.prune(context)
    assert await count(database) == 5


async def test_the_last_10000_are_kept(database: Database) -> None:
    """The oldest ones are deleted first."""
    context = context_of(database)
    now_ms = context.clock.now_ms()
    await fill(database, 30, now_ms - 2000)
    await fill(database, KEPT_MAX - 10, now_ms - 1000)
    await request_recording.prune(context)
    assert await count(database) == KEPT_MAX
    oldest = "SELECT COUNT(*) FROM recorded_requests WHERE created_ms = $1"
    (rows,) = await database.read(lambda tx: tx.all(oldest, now_ms - 2000))
    assert rows[0] == 10


@pytest.mark.on_postgres
async def test_a_flood_of_unknown_callers_displaces_no_others(database: Database) -> None:
    """Of requests without an authenticated caller the last 2,000 are kept."""
    context = context_of(database)
    now_ms = context.clock.now_ms()
    await fill(database, 100, now_ms - 3000)
    await fill(database, 30, now_ms - 2000, application_id=None)
    await fill(database, KEPT_MAX, now_ms - 1000, application_id=None)
    await request_recording.prune(context)
    rows = await database.read(
        lambda tx: tx.all("SELECT created_ms, COUNT(*) FROM recorded_requests GROUP BY created_ms ORDER BY created_ms")
    )
    assert [tuple(row) for row in rows] == [(now_ms - 3000, 100), (now_ms - 1000, UNKNOWN_MAX)]
