"""Units of work, the same on both databases: raise to undo, return to keep, and await nothing but the transaction."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from types import CellType, FunctionType
from typing import Any

import pytest

from paydesk.core.clock import Clock, MovableClock, SystemClock
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Database, Transaction, Unavailable, WorkError
from unread_clocks import ClockReadInUnitOfWork

ADD = "INSERT INTO terminal_owners (terminal_id, seller_id) VALUES ($1, $2)"
COUNT = "SELECT COUNT(*) FROM terminal_owners"

Work = Callable[[Transaction], Awaitable[Any]]


async def _count(database: Database) -> int:
    row = await database.read(lambda tx: tx.one(COUNT))
    assert row is not None
    return int(row[0])


def _add(name: str) -> Work:
    return lambda tx: tx.run(ADD, name, 1)


@pytest.mark.on_postgres
async def test_a_work_that_returns_is_committed(database: Database) -> None:
    """A work that returns is committed."""

    async def work(tx: Transaction) -> str:
        assert await tx.run(ADD, "A__1", 1) == 1
        return "kept"

    assert await database.write(work) == "kept"
    assert await _count(database) == 1


@pytest.mark.on_postgres
async def test_a_work_that_raises_is_rolled_back(database: Database) -> None:
    """A work that raises is rolled back, and its caller gets the exception."""

    async def work(tx: Transaction) -> None:
        await tx.run(ADD, "A__1", 1)
        raise LookupError("undo")

    with pytest.raises(LookupError, match="undo"):
        await database.write(work)
    assert await _count(database) == 0


@pytest.mark.on_postgres
async def test_rows_are_their_values_in_order(database: Database) -> None:
    """`one` is a row or None, `all` a list, `run` the number of rows touched."""

    async def work(tx: Transaction) -> None:
        assert await tx.one("SELECT terminal_id FROM terminal_owners") is None
        assert await tx.all("SELECT terminal_id FROM terminal_owners") == []
        assert await tx.run(ADD, "A__1", 1) == 1
        assert await tx.run(ADD + " ON CONFLICT DO NOTHING", "A__1", 1) == 0
        returned = await tx.one(ADD + " RETURNING seller_id, terminal_id", "A__2", 2)
        assert returned is not None
        assert tuple(returned) == (2, "A__2")
        names = [name for (name,) in await tx.all("SELECT terminal_id FROM terminal_owners ORDER BY 1 FOR UPDATE")]
        assert names == ["A__1", "A__2"]
        assert await tx.run("DELETE FROM terminal_owners WHERE seller_id = $1 OR terminal_id = $2", 2, "A__1") == 2

    await database.write(work)


@pytest.mark.on_postgres
async def test_bytes_stay_bytes(database: Database) -> None:
    """A digest goes in and comes out as bytes."""

    async def work(tx: Transaction) -> Any:
        insert = "INSERT INTO device_tokens (seller_id, digest, terminal_id, created_ms) VALUES ($1, $2, 'A__1', 0)"
        await tx.run(insert, 1, b"\x00\xff")
        return await tx.one("SELECT digest, revoked_ms FROM device_tokens WHERE digest = $1", b"\x00\xff")

    assert tuple(await database.write(work)) == (b"\x00\xff", None)


@pytest.mark.on_postgres
async def test_an_error_rolls_back_that_work_only(database: Database) -> None:
    """Of many writes at once only those that raise are undone."""

    def work(number: int) -> Work:
        async def add(tx: Transaction) -> int:
            await tx.run(ADD, f"A__{number}", 1)
            if number % 3 == 0:
                raise LookupError(number)
            return number

        return add

    answers = await asyncio.gather(*(database.write(work(number)) for number in range(30)), return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, int)] == [n for n in range(30) if n % 3]
    assert sum(isinstance(answer, LookupError) for answer in answers) == 10
    assert await _count(database) == 20


@pytest.mark.on_postgres
async def test_a_failed_statement_rolls_back_that_work_only(database: Database) -> None:
    """A database error is its own work's alone."""
    answers = await asyncio.gather(
        *(database.write(_add(name)) for name in ("A__1", "A__2", "A__1", "A__3")), return_exceptions=True
    )
    assert [answer for answer in answers if isinstance(answer, int)] == [1, 1, 1]
    assert await _count(database) == 3


@pytest.mark.on_postgres
async def test_a_topic_is_notified_after_the_commit(database: Database) -> None:
    """Who is woken finds what was written."""
    seen = []
    with database.signals.subscribe("terminal:A__1") as waiter:

        async def work(tx: Transaction) -> None:
            tx.notify("terminal:A__1")
            await tx.run(ADD, "A__1", 1)

        async def wait() -> None:
            assert await waiter.wait(5)
            seen.append(await _count(database))

        waiting = asyncio.create_task(wait())
        await database.write(work)
        await waiting
    assert seen == [1]


@pytest.mark.on_postgres
async def test_a_rolled_back_work_notifies_nothing(database: Database) -> None:
    """A work that raises notifies no topic."""
    heard: list[str] = []
    database.signals.listen("", heard.append)

    async def work(tx: Transaction) -> None:
        tx.notify("expiry")
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(work)
    await database.write(_add("A__1"))
    await asyncio.sleep(0)
    assert heard == []


@pytest.mark.on_postgres
@pytest.mark.parametrize("heavy", [False, True])
async def test_a_read_sees_acknowledged_writes(database: Database, heavy: bool) -> None:  # noqa: FBT001 - a parameter
    """A write is found by the next read, light or heavy."""
    await database.write(_add("A__1"))
    row = await database.read(lambda tx: tx.one(COUNT), heavy=heavy)
    assert row is not None
    assert tuple(row) == (1,)


@pytest.mark.on_postgres
@pytest.mark.parametrize("heavy", [False, True])
async def test_a_read_does_not_write(database: Database, heavy: bool) -> None:  # noqa: FBT001 - a parameter
    """A read that writes is a defect."""
    with pytest.raises(WorkError, match="wrote in a read"):
        await database.read(_add("A__1"), heavy=heavy)
    assert await _count(database) == 0


@pytest.mark.on_postgres
async def test_wrong_arguments_raise_the_drivers_error(database: Database) -> None:
    """A statement with too few arguments is a defect, not a database out of reach."""
    with pytest.raises(Exception, match=r"argument|bindings") as raised:
        await database.write(lambda tx: tx.run(ADD, "A__1"))
    assert not isinstance(raised.value, Unavailable)


@pytest.mark.on_postgres
async def test_a_work_runs_in_its_callers_context(database: Database) -> None:
    """What the caller bound to its context is seen in the work, also in a shared flush."""
    variable: ContextVar[int] = ContextVar("variable")

    async def work(_tx: Transaction) -> int:
        return variable.get()

    async def caller(number: int) -> None:
        variable.set(number)
        assert await database.write(work) == number
        assert await database.read(work) == number
        assert await database.read(work, heavy=True) == number

    await asyncio.gather(*(caller(number) for number in range(10)))


@pytest.mark.on_postgres
async def test_a_work_that_runs_again_runs_in_its_callers_context(database: Database) -> None:
    """After a rollback PostgreSQL runs it alone, and not in the context of the caller that was first."""
    variable: ContextVar[int] = ContextVar("variable")
    runs = Counter[int]()

    async def caller(number: int) -> None:
        variable.set(number)

        async def work(tx: Transaction) -> int:
            await tx.run(ADD, f"A__{number}", 1)
            runs[number] += 1
            # On SQLite the first that fails ends the common run, and all run again, each with a savepoint.
            assert runs[number] > 1 or (database.name == "sqlite" and number > 0)
            return variable.get()

        assert await database.write(work, conflict_keys=(conflict_keys.terminal(f"A__{number}"),)) == number

    await asyncio.gather(*(caller(number) for number in range(10)))


async def _sleep(_tx: Transaction) -> None:
    await asyncio.sleep(0)


async def _wait_for_a_future(_tx: Transaction) -> None:
    await asyncio.get_running_loop().create_future()


async def _swallow(tx: Transaction) -> None:
    await tx.run(ADD, "A__1", 1)
    with suppress(Exception):
        await tx.run(ADD, "A__1", 1)


@pytest.mark.on_postgres
@pytest.mark.parametrize("work", [_sleep, _wait_for_a_future, _swallow])
async def test_a_work_that_breaks_the_rules_is_rolled_back(database: Database, work: Work) -> None:
    """Awaiting something else and going on after a database error are defects, and nothing is kept."""

    async def breaks_the_rules(tx: Transaction) -> None:
        await tx.run(ADD, "A__0", 1)
        await work(tx)

    neighbour = asyncio.create_task(database.write(_add("A__2")))
    with pytest.raises(WorkError):
        await database.write(breaks_the_rules)
    await neighbour
    assert await _count(database) == 1


@pytest.mark.on_postgres
async def test_a_work_within_a_work_is_refused(database: Database) -> None:
    """A unit of work does not begin another one."""

    async def outer(_tx: Transaction) -> None:
        await database.write(_add("A__1"))

    with pytest.raises(WorkError):
        await database.write(outer)
    await database.write(_add("A__2"))
    assert await _count(database) == 1


@pytest.mark.on_postgres
async def test_a_transaction_ends_with_its_work(database: Database) -> None:
    """A transaction that was kept cannot be used."""
    kept: list[Transaction] = []

    async def work(tx: Transaction) -> None:
        kept.append(tx)

    await database.write(work)
    await database.read(work)
    for tx in kept:
        with pytest.raises(WorkError):
            await tx.one(COUNT)
        with pytest.raises(WorkError):
            tx.notify("expiry")


@pytest.mark.on_postgres
async def test_a_canceled_caller_does_not_affect_others(database: Database) -> None:
    """Of canceled writes each is kept or not, and those beside them are all kept."""
    writes = [asyncio.create_task(database.write(_add(f"A__{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    for write in writes[::2]:
        write.cancel()
    answers = await asyncio.gather(*writes, return_exceptions=True)
    assert answers[1::2] == [1] * 10
    await database.write(_add("B__1"))
    assert 11 <= await _count(database) <= 21


@pytest.mark.on_postgres
async def test_a_closed_database_refuses(database: Database) -> None:
    """After the end nothing is taken on, and what was under way is finished."""
    write = asyncio.create_task(database.write(_add("A__1")))
    await asyncio.sleep(0)
    await database.close()
    assert await write == 1
    for late in (database.write(_add("A__2")), database.read(_add("A__2"))):
        with pytest.raises(Unavailable):
            await late
    await database.close()


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    "clock", [SystemClock(), MovableClock(frozen_ms=1), WatchedClock()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("by_write", [True, False])
async def test_a_work_that_reads_a_clock_fails_the_tests(database: Database, clock: Clock, *, by_write: bool) -> None:
    """Before its first statement and after it, in a function of the service; outside units it may be read."""

    def read_here() -> int:
        return clock.now_ms()

    read = FunctionType(read_here.__code__, {"__name__": "paydesk.engine.orders"}, closure=(CellType(clock),))

    async def at_once(_: Transaction) -> Any:
        return read()

    async def later(tx: Transaction) -> Any:
        await tx.one(COUNT)
        return read()

    for work in (at_once, later):
        with pytest.raises(ClockReadInUnitOfWork):
            await (database.write(work) if by_write else database.read(work))
    assert await _count(database) == 0
    assert read() > 0
