"""Deferred statements: the same on both databases, so that work which reads its own fails on both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from cost import timed
from paydesk.platform.storage.database import Database, Transaction, WorkError
from paydesk.platform.storage.deferred import Deferred, DeferredStatements, refuse_same_row

ADD = "INSERT INTO terminal_owners (terminal_id, seller_id) VALUES ($1, $2)"
MOVE = "UPDATE terminal_owners SET seller_id = $2 WHERE terminal_id = $1"
REMOVE = "DELETE FROM terminal_owners WHERE terminal_id = $1"
REMOVE_ALL = "DELETE FROM terminal_owners WHERE seller_id = $1"
COUNT = "SELECT COUNT(*) FROM terminal_owners"


async def _count(tx: Transaction) -> int:
    row = await tx.one(COUNT)
    assert row is not None
    return int(row[0])


@pytest.mark.on_postgres
async def test_deferred_statements_run_at_the_end(database: Database) -> None:
    """The work does not see their rows; they are committed with it."""

    async def work(tx: Transaction) -> int:
        tx.defer(ADD, "A__1", 1)
        tx.defer(ADD, "A__2", 1)
        return await _count(tx)

    assert await database.write(work) == 0
    assert await database.read(_count) == 2


@pytest.mark.on_postgres
async def test_a_deferred_statement_counts_as_a_write(database: Database) -> None:
    """So that a refusal raised after it is known to roll something back."""

    async def work(tx: Transaction) -> int:
        before = tx.writes
        tx.defer(ADD, "A__1", 1)
        return tx.writes - before

    assert await database.write(work) == 1


@pytest.mark.on_postgres
async def test_deferred_statements_of_a_work_that_raises_do_not_run(database: Database) -> None:
    """As all that it did."""

    async def work(tx: Transaction) -> None:
        tx.defer(ADD, "A__1", 1)
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(work)
    assert await database.read(_count) == 0


@pytest.mark.on_postgres
async def test_an_error_of_a_deferred_statement_fails_its_work_only(database: Database) -> None:
    """Those beside it in the flush or batch are committed."""

    def work(number: int) -> Awaitable[None]:
        async def add(tx: Transaction) -> None:
            await tx.run(ADD, f"A__{number}", 1)
            tx.defer(ADD, "B__1" if number in (3, 4) else f"B__{number}x", 1)

        return database.write(add)

    answers = await asyncio.gather(*(work(number) for number in range(8)), return_exceptions=True)
    failed = [number for number, answer in enumerate(answers) if answer is not None]
    assert failed in ([3], [4])
    assert await database.read(_count) == 14


@pytest.mark.on_postgres
async def test_a_topic_is_notified_if_the_statement_affected_rows(database: Database) -> None:
    """Of two deferred statements, that of the one that found a row."""
    heard: list[str] = []
    database.signals.listen("", heard.append)

    async def work(tx: Transaction) -> None:
        await tx.run(ADD, "A__1", 1)
        tx.defer(MOVE, "A__1", 2, notify="expiry")
        tx.defer(MOVE, "A__2", 2, notify="deliveries")

    await database.write(work)
    await asyncio.sleep(0)
    assert heard == ["expiry"]


@pytest.mark.on_postgres
async def test_a_read_defers_nothing(database: Database) -> None:
    """A read that writes is a defect."""

    async def work(tx: Transaction) -> None:
        tx.defer(ADD, "A__1", 1)

    with pytest.raises(WorkError, match="wrote in a read"):
        await database.read(work)


@pytest.mark.on_postgres
async def test_two_deferred_changes_of_one_row_are_refused(database: Database) -> None:
    """PostgreSQL would make only one of them, without an error."""

    async def work(tx: Transaction) -> None:
        await tx.run(ADD, "A__1", 1)
        tx.defer(MOVE, "A__1", 2)
        tx.defer(MOVE, "A__1", 3)

    with pytest.raises(WorkError, match=r"may touch one row: run one of them with `tx.run`"):
        await database.write(work)
    assert await database.read(_count) == 0


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ((MOVE, ("A", 1)), (MOVE, ("A", 2)), True),
        ((MOVE, ("A", 1)), (MOVE, ("B", 1)), False),
        ((MOVE, ("A", 1)), (REMOVE, ("A",)), True),
        ((MOVE, ("A", 1)), (REMOVE, ("B",)), False),
        ((MOVE, ("A", 1)), (REMOVE_ALL, (7,)), True),
        ((ADD, ("A", 1)), (MOVE, ("A", 2)), True),
        ((ADD, ("A", 1)), (ADD, ("A", 2)), False),
        ((MOVE, ("A", 1)), ("UPDATE sellers SET name = $2 WHERE seller_id = $1", ("A", "x")), False),
        ((ADD, ("A", 1)), ("SELECT COUNT(*) FROM terminal_owners", ()), False),
    ],
)
def test_statements_that_may_touch_one_row(
    first: tuple[str, tuple[object, ...]], second: tuple[str, tuple[object, ...]], *, refused: bool
) -> None:
    """Of one table, unless they find their rows by different values of a column; and an INSERT beside a change."""
    try:
        refuse_same_row([Deferred(*first, "")], *second)
    except WorkError:
        assert refused
    else:
        assert not refused


def test_thousands_of_inserts_are_deferred_in_no_time() -> None:
    """Withdrawing all authorizations of a seller defers some for each, on the event loop."""
    deferred = DeferredStatements()

    def add_all(_: str) -> None:
        nonlocal deferred
        deferred = DeferredStatements()
        for number in range(20_000):
            deferred.add(ADD, (f"A__{number}", 1), "")

    timed(1_000, add_all, "")
    with pytest.raises(WorkError):
        deferred.add(MOVE, ("A__1", 2), "")
    assert len(deferred) == 20_000


def test_an_insert_after_a_change_is_compared() -> None:
    """It may be of the row that the change touches."""
    deferred = DeferredStatements()
    deferred.add(MOVE, ("A__1", 2), "")
    with pytest.raises(WorkError):
        deferred.add(ADD, ("A__1", 1), "")
