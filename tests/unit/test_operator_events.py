"""Events for operators that may repeat: one row an hour for each kind and subject, one write a minute, one warning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import structlog

from hand_clock import HandClock
from paydesk.operator_events import HOUR_MS, SUBJECTS_MAX, OperatorEvent, Reporter, record
from paydesk.storage.database import Database, Unavailable

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


def row(occurrences: int, subject: str = EVENT.subject) -> tuple[Any, ...]:
    """The row of the event."""
    return EVENT.kind, subject, 7, occurrences


async def test_a_flood_is_one_row_and_one_warning(database: Database, reporter: Reporter, hand: HandClock) -> None:
    """What came within a minute is counted with the next that comes after it."""
    with structlog.testing.capture_logs() as logged:
        for _ in range(100):
            await reporter.report(EVENT, NOW_MS)
        assert await recorded(database) == [row(1)]
        hand.advance(60)
        await reporter.report(EVENT, NOW_MS)
        assert await recorded(database) == [row(101)]
        hand.advance(59.9)
        await reporter.report(EVENT, NOW_MS)
    assert await recorded(database) == [row(101)]
    (line,) = logged
    assert (line["log_level"], line["event"], line["subject"]) == ("warning", EVENT.kind, EVENT.subject)
    assert (line["seller_id"], line["address"], line["message"]) == (7, "203.0.113.9", EVENT.message)


async def test_another_hour_is_another_event(database: Database, reporter: Reporter, hand: HandClock) -> None:
    """It begins with what was held back, and is logged anew."""
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            await reporter.report(EVENT, NOW_MS)
        hand.advance(3600)
        await reporter.report(EVENT, NOW_MS + HOUR_MS)
    assert await recorded(database) == [row(1), row(3)]
    assert len(logged) == 2


async def test_subjects_and_kinds_are_counted_apart(database: Database, reporter: Reporter) -> None:
    """A flood of one hides no other."""
    other = replace(EVENT, subject="NEWLAND_N950__2")
    for event in (EVENT, EVENT, other, replace(EVENT, kind="webhook_address_refused")):
        await reporter.report(event, NOW_MS)
    expected = [row(1), row(1, other.subject), ("webhook_address_refused", EVENT.subject, 7, 1)]
    assert sorted(await recorded(database)) == sorted(expected)


async def test_the_table_of_subjects_is_bounded(sqlite_url: str) -> None:
    """The subject that was reported first is forgotten first."""
    from paydesk.storage.connect import open_database

    database = await open_database(sqlite_url)
    reporter = Reporter(database)
    due = [reporter._due(replace(EVENT, subject=str(number))) for number in range(SUBJECTS_MAX + 1)]
    assert set(due) == {1}
    assert len(reporter._waiting) == SUBJECTS_MAX
    assert [reporter._due(replace(EVENT, subject=subject)) for subject in ("0", str(SUBJECTS_MAX))] == [1, 0]
    await database.close()


async def test_without_a_database_it_is_logged(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request that it came with is answered all the same."""

    async def away(*_: object, **__: object) -> bool:
        raise Unavailable("the database is away")

    reporter = Reporter(database)
    monkeypatch.setattr(database, "write", away)
    with structlog.testing.capture_logs() as logged:
        await reporter.report(EVENT, NOW_MS)
    assert [line["event"] for line in logged] == [EVENT.kind]


async def test_an_event_of_its_own_is_never_counted_with_another(database: Database) -> None:
    """Each happening has its row."""
    for _ in range(2):
        await database.write(lambda tx: record(tx, EVENT, NOW_MS))
    assert await recorded(database) == [row(1), row(1)]
