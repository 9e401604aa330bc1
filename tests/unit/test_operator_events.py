"""Events for operators that may repeat: one row an hour for each kind and subject, one write a minute, one warning."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import structlog

from hand_clock import HandClock
from paydesk.platform import operator_events
from paydesk.platform.operator_events import EVENTS_MAX, HOUR_MS, OperatorEvent, Reporter, record
from paydesk.platform.storage.database import Database, Unavailable
from waiting import until_found

NOW_MS = 500_000 * HOUR_MS
EVENT = OperatorEvent(
    "terminal_session_conflict", "NEWLAND_N950__1", "Two devices may use one token.", 7, {"address": "203.0.113.9"}
)


@pytest.fixture
def hand() -> HandClock:
    """A clock that stands still."""
    return HandClock()


@pytest.fixture
def reporter(database: Database, hand: HandClock) -> Reporter:
    """The reporter of a node."""
    return Reporter(database, monotonic=lambda: hand() / 1e9)


async def recorded(database: Database) -> list[tuple[Any, ...]]:
    """What is there, the oldest first: kind, subject, seller and how often."""
    sql = "SELECT kind, subject, seller_id, occurrences FROM operator_events ORDER BY created_ms, subject"
    return [tuple(row) for row in await database.read(lambda tx: tx.all(sql))]


async def has_recorded(database: Database, expected: tuple[Any, ...]) -> bool:
    """Return whether this is the only row."""
    return await recorded(database) == [expected]


def row(occurrences: int, subject: str = EVENT.subject) -> tuple[Any, ...]:
    """The row of the event."""
    return EVENT.kind, subject, 7, occurrences


async def test_a_flood_is_one_row_and_one_warning(database: Database, reporter: Reporter, hand: HandClock) -> None:
    """What comes within a minute is recorded at its end, whether or not it happens again."""
    with structlog.testing.capture_logs() as logged:
        for _ in range(100):
            await reporter.report(EVENT, NOW_MS)
        hand.advance(59.9)
        await reporter.record_due()
        assert await recorded(database) == [row(1)]
        hand.advance(0.1)
        await reporter.record_due()
        assert await recorded(database) == [row(100)]
        await reporter.report(EVENT, NOW_MS)
        hand.advance(59.9)
        await reporter.record_due()
        assert await recorded(database) == [row(100)]
        hand.advance(0.1)
        await reporter.record_due()
    assert await recorded(database) == [row(101)]
    (line,) = logged
    assert (line["log_level"], line["event"], line["subject"]) == ("warning", EVENT.kind, EVENT.subject)
    assert (line["seller_id"], line["address"], line["message"]) == (7, "203.0.113.9", EVENT.message)


@pytest.mark.on_postgres
async def test_each_hour_has_its_own_count(database: Database, reporter: Reporter, hand: HandClock) -> None:
    """Repetitions are counted in the hour they happened in; the first of the next hour is recorded at once."""
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            await reporter.report(EVENT, NOW_MS)
        await reporter.report(EVENT, NOW_MS + HOUR_MS)
        assert await recorded(database) == [row(1), row(1)]
        hand.advance(60)
        await reporter.record_due()
    assert await recorded(database) == [row(3), row(1)]
    assert len(logged) == 2


async def test_a_running_reporter_records_by_itself(database: Database) -> None:
    """Each time its seconds are over, and what is left when it ends."""
    async with Reporter(database, seconds=0.05) as reporter:
        for expected in (3, 6):
            for _ in range(3):
                await reporter.report(EVENT, NOW_MS)
            await until_found(partial(has_recorded, database, row(expected)))
    async with Reporter(database) as reporter:
        for _ in range(4):
            await reporter.report(EVENT, NOW_MS)
    assert await recorded(database) == [row(10)]


async def test_subjects_and_kinds_are_counted_apart(database: Database, reporter: Reporter) -> None:
    """A flood of one hides no other."""
    other = replace(EVENT, subject="NEWLAND_N950__2")
    for event in (EVENT, EVENT, other, replace(EVENT, kind="webhook_address_refused")):
        await reporter.report(event, NOW_MS)
    expected = [row(1), row(1, other.subject), ("webhook_address_refused", EVENT.subject, 7, 1)]
    assert sorted(await recorded(database)) == sorted(expected)


@pytest.mark.on_postgres
async def test_the_table_is_bounded_and_loses_no_count(
    database: Database, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event that was reported first makes room, and what was held back of it is recorded."""
    assert EVENTS_MAX == 10_000
    monkeypatch.setattr(operator_events, "EVENTS_MAX", 2)
    others = [replace(EVENT, subject=f"NEWLAND_N950__{number}") for number in (2, 3)]
    for event in (EVENT, EVENT, EVENT, others[0], others[1]):
        await reporter.report(event, NOW_MS)
    assert await recorded(database) == [row(3), *(row(1, other.subject) for other in others)]
    await reporter.report(EVENT, NOW_MS)
    assert await recorded(database) == [row(4), *(row(1, other.subject) for other in others)]


async def test_without_a_database_it_is_logged_and_recorded_later(
    database: Database, reporter: Reporter, hand: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that it came with is answered all the same."""

    async def away(*_: object, **__: object) -> bool:
        raise Unavailable("the database is away")

    with structlog.testing.capture_logs() as logged:
        with monkeypatch.context() as patched:
            patched.setattr(database, "write", away)
            for _ in range(2):
                await reporter.report(EVENT, NOW_MS)
            hand.advance(60)
            await reporter.record_due()
        assert await recorded(database) == []
        hand.advance(60)
        await reporter.record_due()
    assert await recorded(database) == [row(2)]
    assert [line["event"] for line in logged] == [EVENT.kind]


async def test_unrecorded_events_are_logged_at_the_end(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the database refuses or does not answer; with the count."""

    async def refuses(*_: object, **__: object) -> bool:
        raise Unavailable("the database is away")

    async def hangs(*_: object, **__: object) -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(operator_events, "CLOSE_SECONDS_MAX", 0.1)
    for write in (refuses, hangs):
        with structlog.testing.capture_logs() as logged, monkeypatch.context() as patched:
            async with Reporter(database) as reporter:
                for _ in range(3):
                    await reporter.report(EVENT, NOW_MS)
                patched.setattr(database, "write", write)
        (line,) = [line for line in logged if line["event"] == "occurrences_lost"]
        assert (line["kind"], line["subject"], line["occurrences"]) == (EVENT.kind, EVENT.subject, 2)


async def test_events_that_are_not_repeatable_are_not_counted_together(database: Database) -> None:
    """Each happening has its row."""
    for _ in range(2):
        await database.write(lambda tx: record(tx, EVENT, NOW_MS))
    assert await recorded(database) == [row(1), row(1)]
