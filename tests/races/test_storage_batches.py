"""Works that share a batch on PostgreSQL: each has the result of running alone, and a failure affects no other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from functools import partial

import asyncpg
import pytest

from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Transaction, Unavailable, Work, WorkError
from paydesk.platform.storage.postgres.batch import BatchUnit, take
from paydesk.platform.storage.postgres.database import READS_MAX, WRITES_MAX, PostgresDatabase
from paydesk.platform.storage.postgres.sets import tagged
from waiting import until_found

COUNT = 40
LOCKED_OUT = """SELECT COUNT(*) FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock'"""


class Refused(Exception):
    """What a work raises to undo itself."""


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """A database with a table of counters, and one counter for each work."""
    database = PostgresDatabase(postgres_url)
    await database.check()
    await database.write(lambda tx: tx.run("CREATE TABLE counters (n bigint PRIMARY KEY, value bigint NOT NULL)"))
    await database.write(lambda tx: tx.run("INSERT INTO counters SELECT g, 0 FROM generate_series(0, 99) g"))
    yield database
    await database.close()


def counter(number: int) -> tuple[ConflictKey, ...]:
    """The conflict key of a counter."""
    return (ConflictKey(("counter", number)),)


def raising(number: int, *, then: Exception | None = None) -> Work[int]:
    """Read a counter, raise it by one, read it again; and then perhaps raise an exception."""

    async def work(tx: Transaction) -> int:
        before = await tx.one("SELECT value FROM counters WHERE n = $1", number)
        assert before is not None
        assert await tx.run("UPDATE counters SET value = $2 WHERE n = $1", number, before[0] + 1) == 1
        after = await tx.one("SELECT value FROM counters WHERE n = $1", number)
        assert after is not None
        assert after[0] == before[0] + 1
        if then is not None:
            raise then
        tx.notify(f"counter:{number}")
        value: int = after[0]
        return value

    return work


async def values(database: PostgresDatabase) -> dict[int, int]:
    """Every counter that was raised."""
    rows = await database.read(lambda tx: tx.all("SELECT n, value FROM counters WHERE value > 0"))
    return {row[0]: row[1] for row in rows}


async def transactions(database: PostgresDatabase) -> int:
    """How many transactions wrote rows that are there."""
    row = await database.read(lambda tx: tx.one("SELECT COUNT(DISTINCT xmin::text) FROM counters WHERE value > 0"))
    assert row is not None
    count: int = row[0]
    return count


async def test_works_with_disjoint_conflict_keys_share_commits(postgres: PostgresDatabase) -> None:
    """Forty works need few transactions, and each has its own answer."""
    answers = await asyncio.gather(*(postgres.write(raising(n), conflict_keys=counter(n)) for n in range(COUNT)))
    assert answers == [1] * COUNT
    assert await values(postgres) == dict.fromkeys(range(COUNT), 1)
    assert await transactions(postgres) <= 4


async def test_works_with_equal_conflict_keys_run_in_sequence(postgres: PostgresDatabase) -> None:
    """A read and a write of forty works on one counter lose no update."""
    answers = await asyncio.gather(*(postgres.write(raising(7), conflict_keys=counter(7)) for _ in range(COUNT)))
    assert sorted(answers) == list(range(1, COUNT + 1))


async def test_a_refusal_after_a_write_rolls_back_that_work_only(postgres: PostgresDatabase) -> None:
    """The neighbours are kept, and nothing of the one that refused."""
    works = [raising(n, then=Refused() if n % 10 == 3 else None) for n in range(COUNT)]
    answers = await asyncio.gather(
        *(postgres.write(work, conflict_keys=counter(n)) for n, work in enumerate(works)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [Refused if n % 10 == 3 else int for n in range(COUNT)]
    assert await values(postgres) == {n: 1 for n in range(COUNT) if n % 10 != 3}


async def test_a_failed_statement_does_not_fail_its_batch(postgres: PostgresDatabase) -> None:
    """A database error is its own work's error."""

    async def divides(tx: Transaction) -> None:
        await tx.one("SELECT 1 / $1::int", 0)

    async def awaits_a_other(_: Transaction) -> None:
        await asyncio.sleep(0)

    broken = [
        postgres.write(divides, conflict_keys=counter(-1)),
        postgres.write(awaits_a_other, conflict_keys=counter(-2)),
    ]
    good = [postgres.write(raising(n), conflict_keys=counter(n)) for n in range(COUNT)]
    first, second, *answers = await asyncio.gather(*broken, *good, return_exceptions=True)
    assert isinstance(first, asyncpg.DivisionByZeroError)
    assert isinstance(second, WorkError)
    assert answers == [1] * COUNT


async def test_a_locked_row_does_not_delay_the_batch(postgres: PostgresDatabase) -> None:
    """The work that needs it waits alone, and goes through once the row is free."""

    async def adds_one(tx: Transaction) -> int:
        row = await tx.one("UPDATE counters SET value = value + 1 WHERE n = 0 RETURNING value")
        assert row is not None
        value: int = row[0]
        return value

    other = await asyncpg.connect(postgres._connections._url)
    try:
        async with other.transaction():
            await other.execute("UPDATE counters SET value = 100 WHERE n = 0")
            waiting = asyncio.create_task(postgres.write(adds_one, conflict_keys=counter(0)))
            others = (postgres.write(raising(n), conflict_keys=counter(n)) for n in range(1, COUNT))
            assert await asyncio.gather(*others) == [1] * (COUNT - 1)
            assert not waiting.done()
        assert await waiting == 101
    finally:
        await other.close()


async def test_locked_rows_do_not_block_further_batches(postgres: PostgresDatabase) -> None:
    """Works that come one at a time, and each meet a held row, leave the flushes to the others."""
    other, watcher = [await asyncpg.connect(postgres._connections._url) for _ in range(2)]
    try:
        async with other.transaction():
            await other.execute("UPDATE counters SET value = 100 WHERE n < 4")
            waiting = []
            for n in range(4):
                waiting.append(asyncio.create_task(postgres.write(raising(n), conflict_keys=counter(n))))
                await until_found(partial(_are_locked_out, watcher, n + 1))
            others = (postgres.write(raising(n), conflict_keys=counter(n)) for n in range(4, COUNT))
            assert await asyncio.gather(*others) == [1] * (COUNT - 4)
            assert not any(work.done() for work in waiting)
        # What each has read before, or what the other transaction left.
        assert set(await asyncio.gather(*waiting)) <= {1, 101}
    finally:
        await other.close()
        await watcher.close()


async def _are_locked_out(watcher: asyncpg.Connection, count: int) -> bool:
    """Return whether so many transactions wait for a lock; one of several units waits for 0.1 s, then alone."""
    return bool(await watcher.fetchval(LOCKED_OUT) == count)


async def test_waiters_are_notified_after_the_commit_of_their_batch(postgres: PostgresDatabase) -> None:
    """Each work's topics, and only of those that were kept."""
    woken: list[str] = []
    postgres.signals.listen("counter:", woken.append)
    works = [raising(n, then=Refused() if n == 5 else None) for n in range(10)]
    await asyncio.gather(
        *(postgres.write(work, conflict_keys=counter(n)) for n, work in enumerate(works)), return_exceptions=True
    )
    await asyncio.sleep(0)
    assert sorted(woken) == sorted(f"counter:{n}" for n in range(10) if n != 5)


async def test_units_with_equal_conflict_keys_keep_their_order_in_separate_batches() -> None:
    """Neither is what is busy elsewhere, nor what would overtake one that waits."""

    async def work(_: Transaction) -> None:
        return None

    def keys(names: str) -> set[ConflictKey]:
        return {ConflictKey((name,)) for name in names}

    units = {name: BatchUnit(work, keys(name), asyncio.Future()) for name in ("a", "ab", "b", "c", "d", "c2")}
    waiting = deque(units.values())
    assert take(waiting, 10, keys("d")) == [units["a"], units["c"]]
    assert list(waiting) == [units["ab"], units["b"], units["d"], units["c2"]]


async def test_tasks_of_batches_are_used_again_and_end_at_close(postgres: PostgresDatabase) -> None:
    """One after the other needs one task; many at once the most that there are; closing leaves none."""
    for n in range(5):
        assert await postgres.write(raising(n), conflict_keys=counter(n)) == 1
        await values(postgres)
    first = {*postgres._writes.tasks}, {*postgres._reads.tasks}
    assert [len(tasks) for tasks in first] == [1, 1]
    await asyncio.gather(*(postgres.write(raising(n), conflict_keys=counter(n)) for n in range(5, COUNT)))
    await asyncio.gather(*(values(postgres) for _ in range(COUNT)))
    tasks = postgres._writes.tasks | postgres._reads.tasks
    assert [len(batches.tasks) for batches in (postgres._writes, postgres._reads)] == [WRITES_MAX, READS_MAX]
    assert first[0] | first[1] <= tasks
    assert not any(task.done() for task in tasks)
    await postgres.close()
    assert all(task.done() for task in tasks)
    assert not postgres._writes.tasks | postgres._reads.tasks


async def test_a_close_waits_for_the_batches_and_the_queue(postgres: PostgresDatabase) -> None:
    """The unit of a batch that waits for a row, and one that waits for that unit, are answered first."""
    other = await asyncpg.connect(postgres._connections._url)
    watcher = await asyncpg.connect(postgres._connections._url)
    try:
        async with other.transaction():
            await other.execute("LOCK TABLE counters")
            first = asyncio.create_task(postgres.write(raising(1), conflict_keys=counter(1)))
            await until_found(partial(_are_locked_out, watcher, 1))
            second = asyncio.create_task(postgres.write(raising(1), conflict_keys=counter(1)))
            await asyncio.sleep(0)
            closing = asyncio.create_task(postgres.close())
            await asyncio.sleep(0)
            with pytest.raises(Unavailable, match="closed"):
                await postgres.write(raising(2), conflict_keys=counter(2))
            assert not closing.done()
        assert sorted(await asyncio.gather(first, second)) == [1, 2]
        await closing
        assert not postgres._writes.tasks
    finally:
        await other.close()
        await watcher.close()


@pytest.mark.parametrize("is_unwound", [False, True])
async def test_canceled_tasks_of_batches_are_replaced(postgres: PostgresDatabase, *, is_unwound: bool) -> None:
    """As at the end of `asyncio.run`, which cancels every task, where a last write may follow."""
    await asyncio.gather(*(postgres.write(raising(n), conflict_keys=counter(n)) for n in range(COUNT)))
    canceled = {*postgres._writes.tasks}
    assert len(canceled) == WRITES_MAX
    for task in canceled:
        task.cancel()
    if is_unwound:
        await asyncio.wait(canceled)
    answers = await asyncio.gather(*(postgres.write(raising(n), conflict_keys=counter(n)) for n in range(COUNT)))
    assert answers == [2] * COUNT
    assert len(postgres._writes.tasks) <= WRITES_MAX
    await postgres.close()


@pytest.mark.parametrize(
    ("kind", "sql", "expected"),
    [
        (
            "one",
            "SELECT a FROM t WHERE b = $1",
            "WITH found AS (SELECT a FROM t WHERE b = $1) SELECT CAST($2 AS integer)",
        ),
        ("run", "UPDATE t SET a = $2 WHERE b = $1", "WHERE b = $1 RETURNING 1) SELECT CAST($3 AS integer)"),
        ("all", "SELECT 1 -- $9 is none", "SELECT CAST($1 AS integer), found.*"),
        ("one", "SELECT $1, $12", "CAST($13 AS integer)"),
    ],
)
def test_a_tagged_statement_returns_its_number(kind: str, sql: str, expected: str) -> None:
    """One parameter more, behind its own."""
    assert expected in tagged(kind, sql)
