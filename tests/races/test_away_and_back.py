"""A database that is slow, hangs, dies, or is cut off in a commit: quick refusals, nothing twice, all well again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import first_and_others
from cut_wire import Cut, CutWire
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, T, Work
from postgres_server import PostgresServer
from service import Reply, Service, Terminal, refresh_token, running
from stopped_postgres import stopped
from waiting import until

CLIENTS, CLIENTS_A_KILL = 50, 10
COUNT = "SELECT COUNT(*) FROM orders"


class GatedDatabase:
    """A database whose writes wait while its gate is closed; `waiting`: how many do."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name, self.signals, self.silence = database.name, database.signals, database.silence
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    async def write(self, work: Work[T], **options: Any) -> T:
        """Run `work` once the gate is open."""
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return await self._database.write(work, **options)

    async def read(self, work: Work[T], **options: Any) -> T:
        """Run `work`."""
        return await self._database.read(work, **options)

    async def check_writable(self) -> None:
        """Ask the database."""
        await self._database.check_writable()

    async def close(self) -> None:
        """Close it."""
        await self._database.close()


class Client:
    """A till that repeats its request with the same key until it knows the outcome."""

    def __init__(self, service: Service, terminal: Terminal) -> None:
        self._service, self._terminal = service, terminal
        self.key = f"key-{terminal.id}"
        self.refused = 0

    async def create(self) -> Reply:
        """Once; a refusal is counted."""
        reply = await self._service.create(self._terminal, key=self.key)
        if reply.status == 503:
            assert reply.code == "service_unavailable"
            assert int(reply.headers["retry-after"]) <= 5
            self.refused += 1
        return reply

    async def create_surely(self) -> Reply:
        """Until it is made."""
        while (reply := await self.create()).status != 201:
            assert reply.status in (423, 503), reply
            await asyncio.sleep(0.05)
        return reply


@asynccontextmanager
async def _with_clients(
    database: Database, count: int = CLIENTS, **settings: Any
) -> AsyncIterator[tuple[Service, list[Client]]]:
    chosen = Settings(connections_max=CLIENTS * 3, **settings)
    async with running(database, settings=chosen, workers=False, connections_max=CLIENTS * 2) as service:
        yield service, [Client(service, await service.terminal()) for _ in range(count)]


@pytest.mark.parametrize("database_url", first_and_others("sqlite", "postgres"), indirect=True)
async def test_ten_times_what_fits(database: Database) -> None:
    """What does not fit is refused at once, what fits is done, and when all repeat at once nothing collapses."""
    gated = GatedDatabase(database)
    async with _with_clients(gated, requests_max=5) as (service, clients):
        gated.gate.clear()
        asked = [asyncio.create_task(client.create()) for client in clients]
        await until(lambda: sum(task.done() for task in asked) == CLIENTS - 5)
        assert all(task.result().status == 503 for task in asked if task.done())
        gated.gate.set()
        statuses = [reply.status for reply in await asyncio.gather(*asked)]
        assert statuses.count(201) == 5
        made = await asyncio.gather(*(client.create_surely() for client in clients))
        assert len({reply.body["id"] for reply in made}) == CLIENTS
        assert await service.scene.value(COUNT) == CLIENTS


@pytest.mark.parametrize("database_url", first_and_others("sqlite", "postgres"), indirect=True)
async def test_a_fleet_that_is_back_leaves_room_for_orders(database: Database) -> None:
    """Hellos get a quarter of what fits, in all; the others are refused at once, and repeated."""
    gated = GatedDatabase(database)
    async with _with_clients(gated, 1, requests_max=8) as (service, (client,)):
        fleet = [await service.terminal() for _ in range(8)]
        gated.gate.clear()
        hellos = [asyncio.create_task(_hello(service, terminal)) for terminal in fleet]
        await until(lambda: sum(hello.done() for hello in hellos) == 6)
        made = asyncio.create_task(client.create())
        await until(lambda: gated.waiting == 3 or made.done())
        gated.gate.set()
        assert (await made).status == 201
        statuses = [reply.status for reply in await asyncio.gather(*hellos)]
        assert (statuses.count(200), statuses.count(503)) == (2, 6)
        assert (await _hello(service, fleet[-1])).status == 200


async def _hello(service: Service, terminal: Terminal) -> Reply:
    body = {"boot_id": str(uuid.uuid4()), "app_version": "1", "journal": []}
    return await service.request("POST", "/device/v1/hello", body, token=terminal.token, key=None)


@pytest.mark.slow
async def test_postgresql_hangs_and_goes_on(postgres_server: PostgresServer, postgres_url: str) -> None:
    """Meanwhile clients repeat and are refused, soon without even trying; afterwards each has one order."""
    database = await open_database(postgres_url, timeout_seconds=3)
    async with _with_clients(database) as (service, clients):
        first, *others = clients
        with stopped(postgres_server):
            tasks = [asyncio.create_task(client.create_surely()) for client in others]
            await until(lambda: any(client.refused for client in others))
            hasty = await asyncio.gather(*(service.create(Terminal("T", ""), key="k") for _ in range(20)))
            assert {reply.status for reply in hasty} == {503}
            assert not any(task.done() for task in tasks)
            await until(lambda: all(client.refused for client in others))
        made = await asyncio.gather(*tasks, first.create_surely())
        assert len({reply.body["id"] for reply in made}) == CLIENTS
        assert await service.scene.value(COUNT) == CLIENTS
        connections = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
        assert await service.scene.value(connections) <= 20
    await database.close()


@pytest.mark.slow
async def test_postgresql_dies_under_load(postgres_server: PostgresServer, postgres_url: str) -> None:
    """Who was answered has what was answered, who was not repeats, and each has one order."""
    database = await open_database(postgres_url, timeout_seconds=5)
    async with _with_clients(database) as (service, clients):
        tasks = [asyncio.create_task(client.create_surely()) for client in clients]
        await until(lambda: service.gauges.requests_running > 0)
        postgres_server.crash()
        try:
            assert (await service.create(Terminal("T", ""), key="meanwhile")).status == 503
        finally:
            postgres_server.resume()
        made = await asyncio.gather(*tasks)
        for client, reply in zip(clients, made, strict=True):
            assert (await client.create_surely()).body == reply.body
        assert await service.scene.value(COUNT) == CLIENTS
    await database.close()


async def test_what_was_answered_when_postgresql_is_killed_is_there_when_it_is_back(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    """To the last order, however short a time before: an answer has waited for the disk."""
    database = await open_database(postgres_url, timeout_seconds=5)
    async with _with_clients(database) as (service, clients):
        for first in range(0, CLIENTS, CLIENTS_A_KILL):
            made = await asyncio.gather(*(client.create_surely() for client in clients[first : first + CLIENTS_A_KILL]))
            postgres_server.kill()
            postgres_server.resume()
            assert await service.scene.value(COUNT) == first + len(made)
    await database.close()


@pytest.fixture
async def cut(postgres_url: str, tmp_path: Path) -> AsyncIterator[tuple[Service, CutWire]]:
    """A service behind a wire that can be cut."""
    async with CutWire(postgres_url, tmp_path).laid() as wire:
        database = await open_database(wire.url, timeout_seconds=5)
        async with running(database, workers=False) as service:
            yield service, wire
        await database.close()


@pytest.mark.parametrize("how", first_and_others("after", "before", "silence"))
async def test_a_commit_that_is_lost(cut: tuple[Service, CutWire], how: Cut) -> None:
    """The outcome is answered as unknown whether or not it was committed, and the repeat has exactly one effect."""
    service, wire = cut
    terminal = await service.terminal()
    wire.plan(how, b"key-of-the-create")
    unknown = await service.create(terminal, key="key-of-the-create")
    assert (unknown.status, wire.times) == (503, 0)
    made = await service.create(terminal, key="key-of-the-create")
    assert made.status == 201
    assert ("x-idempotent-replayed" in made.headers) == (how != "before")
    assert await service.scene.value(COUNT) == 1
    order_id = made.body["id"]
    assert (await service.get(order_id))["status"] == "created"

    wire.plan(how, b"COMMIT")
    unknown = await service.cancel(order_id, key="cancel")
    assert (unknown.status, wire.times) == (503, 0)
    canceled = await service.cancel(order_id, key="cancel")
    assert (canceled.status, canceled.body["status"]) == (200, "canceled")
    events = "SELECT COUNT(*) FROM order_events WHERE order_id = $1"
    assert await service.scene.value(events, order_id) == 2


@pytest.mark.parametrize("how", first_and_others("after", "before", "silence"))
async def test_a_refresh_whose_commit_is_lost(cut: tuple[Service, CutWire], how: Cut) -> None:
    """The outcome is answered as unknown; the repeat gives the one pair of tokens that there is, and it works."""
    service, wire = cut
    token = await refresh_token(service)
    wire.plan(how, b"offline_access")
    unknown = await service.request("POST", "/oauth/token", service.scene.refresh(token))
    assert (unknown.status, wire.times) == (503, 0)
    refreshed = await service.request("POST", "/oauth/token", service.scene.refresh(token))
    assert refreshed.status == 200
    again = await service.request("POST", "/oauth/token", service.scene.refresh(token))
    assert again.body["access_token"] == refreshed.body["access_token"]
    listed = await service.request("GET", "/terminals/v1/list", token=refreshed.body["access_token"])
    assert listed.status == 200
