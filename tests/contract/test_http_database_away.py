"""A database that is away: 503, at once and as JSON, and all is well again when it comes back."""

from __future__ import annotations

import asyncio

from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.sqlite.database import SqliteDatabase
from postgres_server import PostgresServer
from service import Reply, Service, Terminal, running

RECOVERY_SECONDS_MAX = 60


async def test_postgresql_outage_returns_503_until_it_is_back(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    """Reads and writes return 503 meanwhile; afterwards a retry with the same key has one effect."""
    database = await open_database(postgres_url)
    async with running(database) as service:
        terminal, other = await service.terminal(), await service.terminal()
        order = (await service.create(terminal, key="before")).body
        postgres_server.crash()
        try:
            assert _is_unavailable(await service.create(other, key="during"))
            assert _is_unavailable(await service.request("GET", f"/v1/orders/{order['id']}"))
            assert _is_unavailable(await service.cancel(order["id"]))
            flat = await service.request("POST", "/oauth/token", service.scene.refresh("TG-" + "0" * 40 + "-1"))
            assert (flat.status, flat.body["error"]) == (503, "service_unavailable")
        finally:
            postgres_server.resume()
        made = await _until_made(service, other, "during")
        assert (await service.create(other, key="during")).raw == made.raw
        assert (await service.create(terminal, key="before")).body == order
        assert await service.get(order["id"]) == order
    await database.close()


async def test_a_read_only_database_returns_503(sqlite_url: str) -> None:
    """Reads go on, writes are refused, a replay too, and there is nothing left of what was refused."""
    database = await open_database(sqlite_url)
    assert isinstance(database, SqliteDatabase)
    async with running(database, workers=False) as service:
        terminal, other = await service.terminal(), await service.terminal()
        order = (await service.create(terminal, key="before")).body
        database._writer.execute("PRAGMA query_only = ON")
        assert _is_unavailable(await service.create(other, key="during"))
        assert _is_unavailable(await service.create(terminal, key="before"))
        assert await service.get(order["id"]) == order
        database._writer.execute("PRAGMA query_only = OFF")
        assert await service.scene.value("SELECT COUNT(*) FROM orders") == 1
        assert (await service.create(other, key="during")).status == 201
        assert (await service.create(terminal, key="before")).body == order
    await database.close()


async def test_a_full_disk_returns_503(sqlite_url: str) -> None:
    """What needs room is refused and says why; what needs none goes on, and with room again all is well."""
    database = await open_database(sqlite_url)
    assert isinstance(database, SqliteDatabase)
    async with running(database, workers=False) as service:
        terminal = await service.terminal()
        ((pages,),) = database._writer.execute("PRAGMA page_count").fetchall()
        database._writer.execute(f"PRAGMA max_page_count = {pages}")
        refused = await service.create(terminal, key="during", description="x" * 60)
        while refused.status == 201:
            refused = await service.create(await service.terminal(), description="x" * 60)
        assert _is_unavailable(refused)
        assert "disk is full" in refused.body["message"]
        assert refused.headers["retry-after"] == "1"
        assert (await service.request("GET", "/terminals/v1/list")).status == 200
        database._writer.execute("PRAGMA max_page_count = 1000000")
        assert (await service.create(terminal, key="during", description="x" * 60)).status == 201
    await database.close()


def _is_unavailable(reply: Reply) -> bool:
    return (reply.status, reply.code, reply.headers["content-type"]) == (503, "service_unavailable", "application/json")


async def _until_made(service: Service, terminal: Terminal, key: str) -> Reply:
    async with asyncio.timeout(RECOVERY_SECONDS_MAX):
        while (reply := await service.create(terminal, key=key)).status != 201:
            assert _is_unavailable(reply)
            await asyncio.sleep(0.2)
    return reply
