"""Work that only defers is one statement, which is its own transaction: as alone, so together, and never half."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from conftest import short_and_long
from cut_wire import Cut, CutWire
from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Overtaken, Transaction, Unavailable, Work
from paydesk.platform.storage.postgres.connections import _SESSION, Connection
from paydesk.platform.storage.postgres.database import PostgresDatabase
from print_scene import print_on
from service import Reply, Service, Terminal, running
from waiting import until_found

COUNT = 40
TAKEN = (3, 17, 18)
NAMES = "CREATE TABLE names (name text PRIMARY KEY, owner bigint NOT NULL)"
NOTES = "CREATE TABLE notes (name text NOT NULL, owner bigint NOT NULL)"
TAKE = "INSERT INTO names (name, owner) VALUES ($1, $2) ON CONFLICT DO NOTHING"
NOTE = "INSERT INTO notes (name, owner) VALUES ($1, $2)"
FIND = "SELECT owner FROM names WHERE name = $1"
RAISE = "UPDATE names SET owner = owner + 1 WHERE name = $1 AND owner = $2"
LOCKED_OUT = """SELECT COUNT(*) = $1 FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock'"""


def name(number: int) -> str:
    """A name that is found on the wire."""
    return f"name-{number}."


def keys(number: int) -> tuple[ConflictKey, ...]:
    """The conflict key of a name."""
    return (ConflictKey(("name", number)),)


def taking(number: int, owner: int = 1) -> Work[int]:
    """Note the name, and take it, which must be free; the note comes first and must not stay without it."""

    async def work(tx: Transaction) -> int:
        tx.defer(NOTE, name(number), owner, notify=f"note:{number}")
        tx.defer(TAKE, name(number), owner, required=True)
        return number

    return work


def raising(number: int) -> Work[int]:
    """Look who has the name, and raise that by one, if it is still so."""

    async def work(tx: Transaction) -> int:
        row = await tx.one(FIND, name(number))
        assert row is not None
        tx.defer(RAISE, name(number), row[0], required=True)
        found: int = row[0]
        return found

    return work


async def owners(database: Database, table: str = "names") -> dict[int, int]:
    """The owner of each name, or of each note."""
    rows = await database.read(lambda tx: tx.all(f"SELECT name, owner FROM {table}"))
    return {int(row[0][5:-1]): row[1] for row in rows}


async def prepared(database: Database) -> None:
    """Make the tables."""
    for sql in (NAMES, NOTES):
        await database.write(lambda tx, sql=sql: tx.run(sql))  # type: ignore[misc]


@contextmanager
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is sent to PostgreSQL meanwhile: the first word of each statement."""
    sent: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("fetch", "execute", "fetch_many"):
            method = getattr(Connection, name)

            async def noted(connection: Connection, sql: str, *args: Any, method: Any = method) -> Any:
                if sql is not _SESSION:
                    sent.append(sql.split(None, 1)[0])
                return await method(connection, sql, *args)

            patch.setattr(Connection, name, noted)
        yield sent


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """A database with the tables."""
    database = PostgresDatabase(postgres_url, lock_timeout_seconds=3600)
    await database.check()
    await prepared(database)
    yield database
    await database.close()


@pytest.mark.on_postgres
async def test_the_overtaken_keep_nothing_and_the_others_all(database: Database) -> None:
    """Three of forty names are taken before: these works raise, alone, and their notes are not kept."""
    await prepared(database)
    for number in TAKEN:
        await database.write(taking(number, owner=9), conflict_keys=keys(number))
    await asyncio.sleep(0)
    heard: list[str] = []
    database.signals.listen("note:", heard.append)
    answers = await asyncio.gather(
        *(database.write(taking(number), conflict_keys=keys(number)) for number in range(COUNT)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [Overtaken if n in TAKEN else int for n in range(COUNT)]
    expected = {n: 9 if n in TAKEN else 1 for n in range(COUNT)}
    assert await owners(database) == await owners(database, "notes") == expected
    await asyncio.sleep(0)
    assert sorted(heard) == sorted(f"note:{n}" for n in range(COUNT) if n not in TAKEN)


@pytest.mark.on_postgres
async def test_work_without_conflict_keys_is_overtaken_too(database: Database) -> None:
    """It runs in a transaction of its own, which is rolled back."""
    await prepared(database)
    await database.write(taking(1))
    with pytest.raises(Overtaken):
        await database.write(taking(1, owner=2))
    assert await owners(database) == await owners(database, "notes") == {1: 1}


async def test_forty_works_are_few_statements(postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them begins or commits; those that look first do that together."""
    with round_trips(monkeypatch) as sent:
        await asyncio.gather(*(postgres.write(taking(n), conflict_keys=keys(n)) for n in range(COUNT)))
        assert 0 < len(sent) <= 4
        assert {*sent} == {"WITH"}
        sent.clear()
        found = await asyncio.gather(*(postgres.write(raising(n), conflict_keys=keys(n)) for n in range(COUNT)))
        assert found == [1] * COUNT
        assert {*sent} == {"SELECT", "WITH"}
        assert len(sent) <= 8
    assert (await owners(postgres))[7] == 2


async def test_different_works_of_a_batch_are_kept(postgres: PostgresDatabase) -> None:
    """Some take, some raise, some write in a transaction, some refuse, one reads: all at once."""

    def refusing(number: int) -> Work[None]:
        async def work(tx: Transaction) -> None:
            tx.defer(TAKE, name(number), 1, required=True)
            raise LookupError

        return work

    def writing(number: int) -> Work[int]:
        return lambda tx: tx.run(TAKE, name(number), 5)

    for n in range(10):
        await postgres.write(taking(n), conflict_keys=keys(n))
    works: dict[int, Work[Any]] = {n: raising(n) for n in range(10)}
    works |= {n: taking(n) for n in range(10, 20)}
    works |= {n: writing(n) for n in range(20, 30)}
    works |= {n: refusing(n) for n in range(30, 35)}
    works[35] = lambda tx: tx.one("SELECT COUNT(*) FROM sellers")
    answers = await asyncio.gather(
        *(postgres.write(work, conflict_keys=keys(n)) for n, work in works.items()), return_exceptions=True
    )
    assert [type(answer) for answer in answers[:35]] == [int] * 30 + [LookupError] * 5
    kept = await owners(postgres)
    assert [kept.get(n) for n in range(36)] == [2] * 10 + [1] * 10 + [5] * 10 + [None] * 6


async def test_a_locked_row_does_not_delay_the_others(postgres: PostgresDatabase) -> None:
    """The work that needs it waits alone, longer than a batch would, and finds what the other left."""
    for n in range(COUNT):
        await postgres.write(taking(n), conflict_keys=keys(n))
    rival, watcher = [await asyncpg.connect(postgres._connections._url) for _ in range(2)]
    try:
        async with rival.transaction():
            await rival.execute(RAISE, name(0), 1)
            waiting = asyncio.create_task(postgres.write(raising(0), conflict_keys=keys(0)))
            others = (postgres.write(raising(n), conflict_keys=keys(n)) for n in range(1, COUNT))
            assert await asyncio.gather(*others) == [1] * (COUNT - 1)
            await until_found(lambda: watcher.fetchval(LOCKED_OUT, 1))
            assert not waiting.done()
        with pytest.raises(Overtaken):
            await waiting
    finally:
        await rival.close()
        await watcher.close()
    assert (await owners(postgres))[0] == 2


@pytest.mark.parametrize(("cut", "kept"), [("before", False), ("after", True)])
async def test_a_lost_statement_is_unknown(postgres_url: str, tmp_path: Path, cut: Cut, *, kept: bool) -> None:
    """Whether it came through is not known without its answer, so it is not repeated."""
    async with CutWire(postgres_url, tmp_path).laid() as wire:
        database = PostgresDatabase(wire.url)
        await prepared(database)
        await database.write(taking(1), conflict_keys=keys(1))
        wire.plan(cut, name(2).encode())
        works = [database.write(taking(n), conflict_keys=keys(n)) for n in (2, 3)]
        answers = await asyncio.gather(*works, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Unavailable] * 2
        assert all("unknown" in str(answer) for answer in answers)
        assert sorted(await owners(database)) == ([1, 2, 3] if kept else [1])
        await database.write(taking(4), conflict_keys=keys(4))
        await database.close()


async def test_a_statement_that_is_under_way_never_runs_later(postgres_url: str, tmp_path: Path) -> None:
    """It was lost with its connection, and lies somewhere in between: the next work finds that it will not run."""
    async with CutWire(postgres_url, tmp_path).laid() as wire:
        database = PostgresDatabase(wire.url)
        await prepared(database)
        await database.write(taking(1), conflict_keys=keys(1))
        wire.plan("late", name(2).encode())
        with pytest.raises(Unavailable, match="unknown"):
            await database.write(taking(2), conflict_keys=keys(2))
        assert sorted(await owners(database)) == [1]
        wire.let_through.set()
        await wire.has_arrived.wait()
        assert sorted(await owners(database)) == [1]
        await database.write(taking(2, owner=7), conflict_keys=keys(2))
        assert (await owners(database))[2] == 7
        await database.close()


async def test_the_other_works_of_a_lost_batch_are_run_alone(postgres_url: str, tmp_path: Path) -> None:
    """Nothing of theirs was sent."""
    async with CutWire(postgres_url, tmp_path).laid() as wire:
        database = PostgresDatabase(wire.url)
        await prepared(database)
        await database.write(taking(1), conflict_keys=keys(1))
        wire.plan("before", name(2).encode())
        works = [database.write(taking(2), conflict_keys=keys(2)), database.write(raising(1), conflict_keys=keys(1))]
        lost, raised = await asyncio.gather(*works, return_exceptions=True)
        assert (type(lost), raised) == (Unavailable, 1)
        await database.close()


@pytest.mark.on_postgres
async def test_a_batch_with_every_refusal(service: Service) -> None:
    """A busy terminal, a print action, an unknown terminal, another mode, repeated keys: each beside good creates."""
    good = [await service.terminal() for _ in range(12)]
    busy, printing, standalone = await service.terminal(), await service.terminal(), await service.terminal()
    assert (await service.create(busy)).status == 201
    assert (await print_on(service, printing)).status == 201
    body = {"terminals": [{"id": standalone.id, "operating_mode": "STANDALONE"}]}
    assert (await service.request("PATCH", "/terminals/v1/setup", body)).status == 200
    sold = await service.terminal()
    first = await service.create(sold, key="sold")
    ended = await service.terminal()
    second = await service.create(ended, key="ended")
    await service.cancel(second.body["id"])
    unknown, live = Terminal("PAX_A910__NONE", ""), await service.terminal(live=True)

    expected = [
        (busy, "", "already_queued_order_on_terminal"),
        (printing, "", "already_queued_order_on_terminal"),
        (standalone, "", "terminal_not_in_pdv_mode"),
        (unknown, "", "forbidden_checking_terminal_owner"),
        (live, "", "forbidden_checking_terminal_owner"),
        (good[0], "sold", "idempotency_key_already_used"),
    ]
    refused = [service.create(terminal, key=key) for terminal, key, _ in expected]
    repeated = [service.create(sold, key="sold"), service.create(ended, key="ended")]
    made = [service.create(terminal) for terminal in good]
    replies: list[Reply] = await asyncio.gather(*refused, *repeated, *made)
    assert [reply.code for reply in replies[: len(expected)]] == [code for *_, code in expected]
    assert [reply.raw for reply in replies[len(expected) :][:2]] == [first.raw, second.raw]
    assert [reply.status for reply in replies[len(expected) + 2 :]] == [201] * len(good)
    assert await check.check(service.database) == []


async def test_a_create_is_one_round_trip_and_a_refresh_two(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the token is known to the node: what follows is the write itself."""
    database = PostgresDatabase(postgres_url)
    clock = MovableClock()
    async with running(database, clock=clock, workers=False) as service:
        terminals = [await service.terminal() for _ in range(2)]
        service.scene.clock = clock
        refresh = service.scene.refresh((await service.scene.tokens())["refresh_token"])
        await service.create(terminals[0])
        with round_trips(monkeypatch) as sent:
            assert (await service.create(terminals[1])).status == 201
            assert sent == ["WITH"]
            sent.clear()
            assert (await service.request("POST", "/oauth/token", refresh, token=None, key=None)).status == 200
            assert sent[-2:] == ["SELECT", "WITH"]
            assert "BEGIN" not in sent
    await database.close()


@pytest.mark.parametrize("units", [1, 32])
async def test_refreshes_that_meet_get_one_successor(postgres_url: str, units: int) -> None:
    """Also where each runs in a transaction of its own, and waits for the row that the first one has claimed."""
    database, clock = PostgresDatabase(postgres_url, write_units_max=units), MovableClock()
    async with running(database, clock=clock, workers=False) as service:
        service.scene.clock = clock
        token = (await service.scene.tokens())["refresh_token"]
        for _ in range(5):
            body = service.scene.refresh(token)
            asked = (service.request("POST", "/oauth/token", body, token=None, key=None) for _ in range(8))
            replies = await asyncio.gather(*asked)
            assert {reply.status for reply in replies} == {200}
            (token,) = {reply.body["refresh_token"] for reply in replies}
    await database.close()


@pytest.mark.parametrize("rounds", short_and_long(3, 50))
async def test_nodes_that_cross_do_not_wait_for_ever(postgres_url: str, rounds: int) -> None:
    """Two nodes take the same terminals and keys in opposite orders: each pair is one order, in any order."""
    database = PostgresDatabase(postgres_url)
    async with two_nodes(database, postgres_url) as (one, other):
        for number in range(rounds):
            terminals = [await one.terminal() for _ in range(8)]
            named = [(terminal, f"sale-{number}-{place}") for place, terminal in enumerate(terminals)]
            crossed = [*reversed(named)]
            creates = [
                node.create(terminal, key=key)
                for pair in zip(named, crossed, strict=True)
                for node, (terminal, key) in zip((one, other), pair, strict=True)
            ]
            replies = await asyncio.gather(*creates)
            assert {reply.status for reply in replies} == {201}
            assert len({reply.body["id"] for reply in replies}) == len(terminals)
            # The same keys with each other's terminals.
            swapped = [
                node.create(terminal, key=key)
                for node in (one, other)
                for (terminal, _), (_, key) in zip(named, crossed, strict=True)
            ]
            assert {reply.code for reply in await asyncio.gather(*swapped)} == {"idempotency_key_already_used"}
        assert await check.check(database) == []
    await database.close()
