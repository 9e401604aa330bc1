"""PostgreSQL under fire: lost connections, lost commits, deadlocks, locks, servers that go and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from cut_wire import Cut, CutWire
from event_loops import turns
from machine_deadlines import moved_deadlines
from moved_time import MovableLoop, advance
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable, UnsafeDatabase
from paydesk.platform.storage.postgres.connections import _check
from paydesk.platform.storage.postgres.database import PostgresDatabase
from postgres_server import PostgresServer
from waiting import until, until_found

ADD = "INSERT INTO terminal_owners (terminal_id, seller_id) VALUES ($1, $2)"
RAISE = "UPDATE terminal_owners SET seller_id = seller_id + 1 WHERE terminal_id = $1"
COUNT = "SELECT COUNT(*) FROM terminal_owners"
ARE_WAITING = """
SELECT COUNT(DISTINCT pid) = $1 FROM pg_locks JOIN pg_stat_activity USING (pid)
 WHERE datname = current_database() AND NOT granted"""
WAITS_FOR_STANDBY = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'"
DEADLINE_SECONDS = 15
GATE = "SELECT pg_advisory_xact_lock(1)"


@asynccontextmanager
async def _opened(url: str, **options: Any) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url, **options)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def wire(postgres_url: str, tmp_path: Path) -> AsyncIterator[CutWire]:
    """A wire to a fresh, migrated database."""
    async with CutWire(postgres_url, tmp_path).laid() as wire:
        yield wire


async def _add(database: Database, name: str, *, at_once: bool = False) -> int:
    async def deferring(tx: Transaction) -> int:
        tx.defer(ADD, name, 1)
        return 1

    if at_once:
        return await database.write(deferring, conflict_keys=(conflict_keys.terminal(name),))
    return await database.write(lambda tx: tx.run(ADD, name, 1))


async def _count(url: str) -> int:
    async with _connected(url) as connection:
        return int(await connection.fetchval(COUNT))


async def _until_waiting(url: str, sessions: int = 1) -> None:
    """Wait until so many sessions of this database wait for a lock; others of the server may wait at any time."""
    async with _connected(url) as connection:
        await until_found(lambda: connection.fetchval(ARE_WAITING, sessions))


async def test_a_connection_lost_before_the_commit_is_retried(wire: CutWire, postgres_url: str) -> None:
    """Nothing can have been done, so the caller notices nothing."""
    async with _opened(wire.url) as database:
        plans: list[tuple[Cut, bytes]] = [
            ("before", b"BEGIN"),
            ("after", b"BEGIN"),
            ("before", b"A__2"),
            ("after", b"A__3"),
        ]
        for position, (cut, at) in enumerate(plans):
            wire.plan(cut, at)
            assert await _add(database, f"A__{position}") == 1
            assert wire.times == 0
    assert await _count(postgres_url) == 4


async def test_a_connection_that_is_always_lost_is_unavailable(wire: CutWire, postgres_url: str) -> None:
    """A unit is run again a few times, not for ever."""
    async with _opened(wire.url) as database:
        wire.plan("before", b"A__1", times=1000)
        with pytest.raises(Unavailable):
            await _add(database, "A__1")
        wire.times = 0
        assert await _add(database, "A__2") == 1
    assert await _count(postgres_url) == 1


@pytest.mark.parametrize(("cut", "kept"), [("before", 0), ("after", 1)])
async def test_a_lost_commit_is_unknown(wire: CutWire, postgres_url: str, cut: Cut, kept: int) -> None:
    """The outcome of a COMMIT without a response is unknown: the caller gets that error, and it is not retried."""
    async with _opened(wire.url) as database:
        wire.plan(cut, b"COMMIT")
        with pytest.raises(Unavailable, match="unknown"):
            await _add(database, "A__1")
        assert await _count(postgres_url) == kept
        assert await _add(database, "A__2") == 1


@pytest.mark.parametrize("at", [b"A__2", b"COMMIT"])
async def test_a_missed_deadline_drops_the_connection(wire: CutWire, at: bytes) -> None:
    """After the deadline of a round trip the connection is dropped, and no cancel request is sent."""
    with moved_deadlines():
        async with _opened(wire.url) as database:
            assert await _add(database, "A__1") == 1
            wire.plan("silence", at)
            write = await _silenced(wire, database, "A__2")
            advance(DEADLINE_SECONDS)
            with pytest.raises(Unavailable):
                await write
            assert await _add(database, "A__3") == 1
            # One of them asked whether the server answers.
            await until(lambda: wire.connections == 3)
            assert wire.cancel_requests == 0


async def _silenced(wire: CutWire, database: Database, name: str) -> asyncio.Task[int]:
    """Begin a write that gets no answer; return once the server has it."""
    write = asyncio.create_task(_add(database, name))
    await until(lambda: wire.times == 0)
    return write


async def test_each_round_trip_has_the_whole_time(wire: CutWire) -> None:
    """Its deadline counts from its own beginning, though the connection's timer was set by an earlier one."""
    with moved_deadlines():
        async with _opened(wire.url) as database:
            assert await _add(database, "A__1") == 1
            advance(DEADLINE_SECONDS - 1)
            wire.plan("silence", b"A__2")
            write = await _silenced(wire, database, "A__2")
            advance(DEADLINE_SECONDS - 1)
            await turns()
            assert not write.done()
            advance(1)
            with pytest.raises(Unavailable, match=f"within {DEADLINE_SECONDS} s"):
                await write


async def test_a_connection_has_one_timer_until_it_is_closed(postgres_url: str) -> None:
    """Hundreds of round trips set and cancel none of their own, and an idle connection has none after its time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovableLoop)

    def timers() -> int:
        return sum("_check_deadline" in repr(timer) for timer in loop.timers)

    before = timers()
    with moved_deadlines():
        async with _opened(postgres_url, connections_max=1) as database:
            for number in range(100):
                await _add(database, f"A__{number}")
            assert timers() == before + 1
            advance(DEADLINE_SECONDS)
            await until(lambda: timers() == before)
            await _add(database, "B__1")
            assert timers() == before + 1
        assert sum(not timer.cancelled() for timer in loop.timers if "_check_deadline" in repr(timer)) == 0


async def test_moved_time_leaves_a_statement_its_own(postgres_url: str) -> None:
    """A test that moves time does not drop the connections of what is under way."""
    async with _opened(postgres_url) as database, _connected(postgres_url) as rival:
        await rival.execute("BEGIN; LOCK TABLE terminal_owners")
        write = asyncio.create_task(_add(database, "A__1"))
        await _until_waiting(postgres_url)
        advance(3_600)
        await rival.execute("COMMIT")
        assert await write == 1


async def test_a_canceled_caller_sends_no_cancel_request(wire: CutWire, postgres_url: str) -> None:
    """The unit of a canceled caller is finished, and its connection is used again."""
    async with _opened(wire.url, connections_max=1) as database:
        async with _connected(postgres_url) as rival:
            await rival.execute("BEGIN; LOCK TABLE terminal_owners")
            write = asyncio.create_task(_add(database, "A__1"))
            await _until_waiting(postgres_url)
            write.cancel()
            await asyncio.wait([write])
            assert write.cancelled()
            await rival.execute("COMMIT")
        assert await _add(database, "A__2") == 1
        assert (wire.connections, wire.cancel_requests) == (1, 0)
    assert await _count(postgres_url) == 2


async def test_a_restarted_server_is_used_again(postgres_server: PostgresServer, postgres_url: str) -> None:
    """While the server is away everything is unavailable; when it is back everything works, without a restart."""
    async with _opened(postgres_url, connections_max=4) as database:
        await asyncio.gather(*(_add(database, f"A__{number}") for number in range(8)))
        await asyncio.to_thread(postgres_server.crash)
        try:
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await _add(database, "B__1")
                with pytest.raises(Unavailable):
                    await database.read(lambda tx: tx.one(COUNT))
        finally:
            await asyncio.to_thread(postgres_server.resume)
        answers = await asyncio.gather(*(_add(database, f"C__{number}") for number in range(8)))
        assert answers == [1] * 8
    assert await _count(postgres_url) == 16


async def test_a_connection_that_the_server_ended_is_replaced(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    """The caller does not notice a terminated backend."""
    async with _opened(postgres_url) as database:
        await _add(database, "A__1")
        postgres_server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'paydesk'")
        assert await _add(database, "A__2") == 1


@pytest.mark.parametrize("heavy", [False, True])
async def test_a_connection_lost_during_its_checks_is_unavailable(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, *, heavy: bool
) -> None:
    """The server may go just after it was reached: that is no defect of those who wait."""
    connect = asyncpg.connect

    async def connect_and_lose(*args: Any, **options: Any) -> asyncpg.Connection:
        connection = await connect(*args, **options)
        connection.terminate()
        return connection

    async with _opened(postgres_url) as database:
        monkeypatch.setattr(asyncpg, "connect", connect_and_lose)
        with pytest.raises(Unavailable):
            await database.read(lambda tx: tx.one(COUNT), heavy=heavy)


async def test_a_connection_lost_during_prepare_is_retried(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many who ask the same are asked for together; where the connection ends before that, each asks alone."""
    prepare = asyncpg.Connection.prepare
    lost: list[str] = []

    async def prepare_and_lose(connection: asyncpg.Connection, sql: str) -> Any:
        statement = await prepare(connection, sql)
        if not lost:
            lost.append(sql)
            connection.terminate()
        return statement

    monkeypatch.setattr(asyncpg.Connection, "prepare", prepare_and_lose)
    async with _opened(postgres_url) as database:
        found = "SELECT seller_id FROM terminal_owners WHERE terminal_id = $1"
        rows = await asyncio.gather(*(database.read(lambda tx: tx.one(found, "missing")) for _ in range(8)))
    assert rows == [None] * 8
    assert lost == [found]


async def test_a_connection_dropped_within_a_statement_is_expired(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver asks for types first, then binds: what is gone meanwhile is lost, and the unit is run again."""
    asked: list[None] = []
    introspect = asyncpg.Connection._introspect_types

    async def dropped_once(raw: asyncpg.Connection, *of_what: Any) -> Any:
        asked.append(None)
        if len(asked) == 1:
            raw.terminate()
        return await introspect(raw, *of_what)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", dropped_once)
    async with _opened(postgres_url) as database:
        row = await database.read(lambda tx: tx.one("SELECT CAST($1 AS integer[])", [1]))
    assert row is not None
    assert list(row[0]) == [1]
    assert asked


async def test_a_deadlock_is_retried(postgres_server: PostgresServer, postgres_url: str) -> None:
    """The victim of a deadlock tries again after its rival is done."""
    runs, has_both = list[int](), asyncio.Event()

    async def work(tx: Transaction) -> None:
        runs.append(1)
        if len(runs) > 1:
            # Before the rival wakes up, the row that it waits for could be taken again.
            await has_both.wait()
        await tx.run(RAISE, "A__1")
        await tx.all(GATE)
        await tx.run(RAISE, "A__2")

    # A session looks for a deadlock once, when it has waited for a while: the rival never does, and waits first.
    patient = postgres_server.url(urlsplit(postgres_url).path[1:], "postgres")
    async with _opened(postgres_url) as database, _connected(patient) as rival, _connected(postgres_url) as gate:
        await _add(database, "A__1")
        await _add(database, "A__2")
        await rival.execute("SET deadlock_timeout = '1h'")
        for session, sql in ((rival, RAISE.replace("$1", "'A__2'")), (gate, GATE)):
            await session.execute("BEGIN")
            await session.execute(sql)
        write = asyncio.create_task(database.write(work))
        await _until_waiting(postgres_url)
        rivals = asyncio.create_task(rival.execute(RAISE, "A__1"))
        await _until_waiting(postgres_url, 2)
        await gate.execute("COMMIT")
        await rivals
        has_both.set()
        await rival.execute("COMMIT")
        await write
        rows = await database.read(lambda tx: tx.all("SELECT seller_id FROM terminal_owners"))
        assert [tuple(row) for row in rows] == [(3,), (3,)]
    assert len(runs) == 2


async def test_a_serialization_failure_is_retried(postgres_url: str) -> None:
    """A unit that could not be serialized begins anew."""
    runs = []

    async def work(tx: Transaction) -> None:
        runs.append(1)
        await tx.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await tx.run(RAISE, "A__1")

    async with _opened(postgres_url) as database, _connected(postgres_url) as rival:
        await _add(database, "A__1")
        await rival.execute("BEGIN")
        await rival.execute(RAISE, "A__1")
        write = asyncio.create_task(database.write(work))
        await _until_waiting(postgres_url)
        await rival.execute("COMMIT")
        await write
    assert len(runs) == 2


async def test_a_changed_schema_is_retried(postgres_url: str) -> None:
    """A statement that was prepared before a migration is prepared anew."""
    async with _opened(postgres_url) as database, _connected(postgres_url) as rival:
        await rival.execute("CREATE TABLE changing (a bigint)")
        assert await database.write(lambda tx: tx.all("SELECT a FROM changing")) == []
        await rival.execute("ALTER TABLE changing ALTER a TYPE text")
        assert await database.write(lambda tx: tx.all("SELECT a FROM changing")) == []


async def test_a_row_that_stays_locked_raises_locked(postgres_url: str) -> None:
    """A wait for a row has its limit."""
    async with _opened(postgres_url, lock_timeout_seconds=0.1) as database, _connected(postgres_url) as rival:
        await _add(database, "A__1")
        await rival.execute("BEGIN")
        await rival.execute(RAISE, "A__1")
        with pytest.raises(Locked):
            await database.write(lambda tx: tx.run(RAISE, "A__1"))
        await rival.execute("ROLLBACK")
        assert await database.write(lambda tx: tx.run(RAISE, "A__1")) == 1


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_commit_that_may_not_be_replicated_is_unknown(
    postgres_server: PostgresServer, postgres_url: str, *, at_once: bool
) -> None:
    """A canceled wait for the standby is a warning to the server and no confirmation for us."""
    async with _opened(postgres_url) as database:
        postgres_server.configure(synchronous_standby_names="missing")
        try:
            write = await _commit_that_waits(database, postgres_url, at_once=at_once)
            postgres_server.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            with pytest.raises(Unavailable, match="unknown"):
                await write
        finally:
            postgres_server.configure(synchronous_standby_names="")
        assert await _add(database, "B__1") == 1


async def _commit_that_waits(database: Database, url: str, *, at_once: bool) -> asyncio.Task[int]:
    """The first write after the server has heard that it needs a standby."""
    async with _connected(url) as connection:
        for number in range(10_000):
            write = asyncio.create_task(_add(database, f"A__{number}", at_once=at_once))

            async def has_ended_or_waits(write: asyncio.Task[int] = write) -> bool:
                return write.done() or bool(await connection.fetchval(WAITS_FOR_STANDBY))

            await until_found(has_ended_or_waits)
            if not write.done():
                return write
    raise AssertionError("the server never waited for a standby")


async def test_more_units_than_connections_wait(postgres_url: str) -> None:
    """Connections are bounded; what waits too long for one is unavailable."""
    async with _opened(postgres_url, connections_max=2, timeout_seconds=5) as database:
        assert await asyncio.gather(*(_add(database, f"A__{n}") for n in range(50))) == [1] * 50
        assert len(database._connections._free) == 2
    async with _opened(postgres_url, connections_max=1, lock_timeout_seconds=5) as database:
        held = await database._connections.acquire()
        database._connections._timeout_seconds = 0.2
        with pytest.raises(Unavailable, match="busy"):
            await _add(database, "B__1")
        database._connections.release(held)
        assert await _add(database, "B__2") == 1


async def test_a_connection_that_a_canceled_unit_waited_for_goes_to_the_next(postgres_url: str) -> None:
    """Canceled before it is free, or in the moment in which it is: none is lost."""
    async with _opened(postgres_url, connections_max=1) as database:
        connections = database._connections
        for is_free_before in (False, True):
            held = await connections.acquire()
            canceled, waiting = [asyncio.create_task(connections.acquire()) for _ in range(2)]
            await turns()
            if is_free_before:
                connections.release(held)
            canceled.cancel()
            await asyncio.wait([canceled])
            assert canceled.cancelled()
            if not is_free_before:
                connections.release(held)
            connections.release(await waiting)
            assert (connections._permits, len(connections._waiting)) == (1, 0)


async def test_a_connection_is_not_reset_between_units(wire: CutWire) -> None:
    """Units follow one another on the same connection, with nothing in between."""
    async with _opened(wire.url) as database:
        for number in range(5):
            await _add(database, f"A__{number}")
        wire.plan("silence", b"DISCARD")
        wire.at = b"RESET"
        await _add(database, "B__1")
        assert (wire.connections, wire.times) == (1, 1)


async def test_a_heavy_read_is_one_snapshot(postgres_url: str) -> None:
    """What is committed while a heavy read runs is not in it."""
    async with _opened(postgres_url) as database, _connected(postgres_url) as rival:
        await rival.execute("BEGIN; LOCK TABLE pos")

        async def work(tx: Transaction) -> list[Any]:
            before = await tx.one(COUNT)
            await tx.one("SELECT COUNT(*) FROM pos")
            after = await tx.one(COUNT)
            return [before, after]

        read = asyncio.create_task(database.read(work, heavy=True))
        await _until_waiting(postgres_url)
        await _add(database, "A__1")
        await rival.execute("COMMIT")
        assert [tuple(row) for row in await read] == [(0,), (0,)]


@pytest.mark.parametrize("value", ["off", "local"])
async def test_commits_that_can_be_lost_are_refused(
    postgres_server: PostgresServer, postgres_url: str, value: str
) -> None:
    """synchronous_commit must not be off or local."""
    name = urlsplit(postgres_url).path.removeprefix("/")
    postgres_server.sql(f"ALTER DATABASE {name} SET synchronous_commit = {value}")
    with pytest.raises(UnsafeDatabase, match=f"synchronous_commit is {value}"):
        await open_database(postgres_url)


async def test_a_server_that_does_not_sync_is_refused(postgres_server: PostgresServer, postgres_url: str) -> None:
    """Fsync must not be off."""
    await _set_fsync(postgres_server, "off")
    try:
        with pytest.raises(UnsafeDatabase, match="fsync is off"):
            await open_database(postgres_url)
    finally:
        await _set_fsync(postgres_server, "on")
    await (await open_database(postgres_url)).close()


async def _set_fsync(server: PostgresServer, value: str) -> None:
    server.configure(fsync=value)
    while server.sql("SHOW fsync") != value:  # noqa: ASYNC110 - the server reads its settings when it comes to it
        await asyncio.sleep(0.01)


async def test_a_database_that_becomes_unsafe_is_unavailable(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    """Every new connection is checked, not the first one alone."""
    name = urlsplit(postgres_url).path.removeprefix("/")
    async with _opened(postgres_url) as database:
        assert await _add(database, "A__1") == 1
        postgres_server.sql(
            f"ALTER DATABASE {name} SET synchronous_commit = off",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        with pytest.raises(Unavailable, match="synchronous_commit"):
            await _add(database, "A__2")


async def test_a_superuser_is_refused(postgres_server: PostgresServer) -> None:
    """Paydesk has a role of its own."""
    with pytest.raises(UnsafeDatabase, match="superuser"):
        await open_database(postgres_server.url("postgres", "postgres"))


@pytest.mark.parametrize("url", ["postgresql://paydesk@127.0.0.1:9/paydesk", "postgresql:///paydesk?host=/nowhere"])
async def test_a_missing_server_is_unavailable(url: str) -> None:
    """No server listens at the address."""
    with pytest.raises(Unavailable, match="cannot be reached"):
        await open_database(url)


async def test_a_missing_database_is_unavailable(postgres_server: PostgresServer) -> None:
    """The server's own words are passed on."""
    with pytest.raises(Unavailable, match="does not exist"):
        await open_database(postgres_server.url("nowhere"))


async def test_a_malformed_address_is_refused_without_repeating_it() -> None:
    """An address may hold a password, so it is not in the message."""
    for address in ("localhost:port", "[::1"):
        with pytest.raises(UnsafeDatabase, match="malformed") as raised:
            await open_database(f"postgresql://paydesk:secret@{address}/paydesk")
        assert "secret" not in str(raised.value)


def test_an_old_server_is_refused() -> None:
    """PostgreSQL 15 is the oldest."""
    with pytest.raises(UnsafeDatabase, match="this server is 14"):
        _check("140011", "on", "off", in_recovery=False, fsync="on")


def test_a_standby_is_unavailable() -> None:
    """After a failover the address may point to a standby for a while."""
    with pytest.raises(Unavailable, match="standby"):
        _check("180001", "on", "off", in_recovery=True, fsync="on")
