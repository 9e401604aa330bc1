"""PgBouncer in transaction mode: served from 1.21 on, refused with the reason where something would be lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import command
from faults import scene
from faults.inbox import Inbox
from faults.records import Records
from node_process import NodeProcess
from paydesk.platform.process import node
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database, pooler_of
from paydesk.platform.storage.database import UnsafeDatabase
from postgres_server import PostgresServer
from proxies.load import Load
from proxies.pooler import pgbouncer
from seeds import seeded
from waiting import until

pytestmark = pytest.mark.slow

TERMINALS, PAUSE_SECONDS = 16, 1.0
WARM_SECONDS = 15.0
"""PgBouncer prepares each statement once on each of its connections."""
SLOWER_MAX = 1.5
"""How many times longer an order may take to its terminal behind PgBouncer."""


@pytest.fixture
def url(postgres_url: str, postgres_server: PostgresServer) -> Iterator[str]:
    """A database; afterwards its role has no settings of its own."""
    yield postgres_url
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres_server.sql(f"ALTER ROLE paydesk IN DATABASE {name} RESET ALL")


async def _refusal(url: str) -> str:
    with pytest.raises(UnsafeDatabase) as refused:
        await open_database(url)
    return str(refused.value)


async def _give_settings(pooled: str, server: PostgresServer) -> None:
    """Run the statements of the refusal, as it says; a new PgBouncer has no connections with the old settings."""
    says, *statements = (await _refusal(pooled)).splitlines()
    assert "RECONNECT" in says
    assert len(statements) == 7, statements
    server.sql(*statements)


async def _mode(pooled: str) -> str | None:
    database = await open_database(pooled)
    try:
        return pooler_of(database)
    finally:
        await database.close()


async def test_an_old_pgbouncer_is_refused(url: str, postgres_server: PostgresServer) -> None:
    """Debian 12's loses prepared statements in transaction mode; in session mode it serves."""
    with pgbouncer("bookworm", url) as pooled:
        assert "needs version 1.21 or newer with max_prepared_statements above 0" in await _refusal(pooled)
    with pgbouncer("bookworm", url, pool_mode="session") as pooled:
        await _give_settings(pooled, postgres_server)
    with pgbouncer("bookworm", url, pool_mode="session") as pooled:
        assert await _mode(pooled) == "session"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_prepared_statements": "0"}, "needs version 1.21 or newer with max_prepared_statements above 0"),
        ({"pool_mode": "statement"}, "The connection pooler permits no transactions."),
        # What PgBouncer ignores is missing as well.
        ({"ignore_startup_parameters": "lock_timeout,plan_cache_mode,enable_seqscan,jit"}, "ALTER ROLE paydesk IN"),
    ],
)
async def test_what_a_pooler_would_lose_is_refused(changes: dict[str, str], reason: str, url: str) -> None:
    """Each with what to change."""
    with pgbouncer("trixie", url, **changes) as pooled:
        assert reason in await _refusal(pooled)


async def test_a_pool_of_one_connection_is_refused(url: str) -> None:
    """One process could not even run two transactions."""
    with (
        pgbouncer("trixie", url, default_pool_size="1") as pooled,
        pytest.raises(UnsafeDatabase, match="Raise default_pool_size"),
    ):
        await open_database(pooled, timeout_seconds=1)


async def test_transaction_mode_needs_a_url_past_the_pooler(
    url: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """Nodes listen there and `migrate` runs there; `doctor` says that there is a pooler."""
    with pgbouncer("trixie", url) as pooled:
        await _give_settings(pooled, postgres_server)
    with pgbouncer("trixie", url) as pooled:
        assert await _mode(pooled) == "transaction"
        with pytest.raises(UnsafeDatabase, match="set PAYDESK_DATABASE_LISTEN_URL"):
            async with node.database_of(Settings(database_url=pooled)):
                pass
        async with node.database_of(Settings(database_url=pooled, database_listen_url=url)) as database:
            await until(lambda: database.signals.remote_connected)
        alone = await asyncio.to_thread(command, "migrate", folder=tmp_path, PAYDESK_DATABASE_URL=pooled)
        assert (alone.returncode, "set PAYDESK_DATABASE_LISTEN_URL" in alone.stderr) == (1, True), alone.stderr
        both: dict[str, Any] = {"PAYDESK_DATABASE_URL": pooled, "PAYDESK_DATABASE_LISTEN_URL": url}
        migrated = await asyncio.to_thread(command, "migrate", folder=tmp_path, **both)
        assert (migrated.returncode, migrated.stderr) == (0, "")
        checked = await asyncio.to_thread(command, "doctor", folder=tmp_path, **both)
        assert checked.returncode == 0
        assert "a connection pooler in transaction mode" in checked.stderr


@contextlib.asynccontextmanager
async def _nodes(url: str, folder: Path, **variables: str) -> AsyncIterator[list[NodeProcess]]:
    nodes = [NodeProcess(url, folder, **variables) for _ in range(2)]
    try:
        await asyncio.gather(*[asyncio.to_thread(one.start) for one in nodes])
        yield nodes
        for one in nodes:
            await asyncio.to_thread(one.end)
            assert '"level": "error"' not in one.log.read_text(), one.log.read_text()[-3000:]
    finally:
        for one in nodes:
            one.close()


async def _sell(nodes: list[NodeProcess], people: scene.Cast, seconds: float) -> Load:
    """Sell at two nodes: the tills of a terminal ask one, the terminal the other."""
    load = Load(nodes[0].base_url, terminals_url=nodes[1].base_url, pause_seconds=PAUSE_SECONDS)
    running = asyncio.create_task(load.run(people.terminals))
    # A load that fails ends sooner.
    await asyncio.wait((running,), timeout=WARM_SECONDS)
    load.offered.clear()
    await asyncio.wait((running,), timeout=seconds)
    load.stop.set()
    await running
    return load


@pytest.mark.parametrize("seconds", [20, pytest.param(600, id="10-min")])
async def test_orders_are_offered_as_fast_as_without_a_pooler(
    seconds: int, url: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """Two nodes with their workers; no request of a till or terminal fails, and no line of the log is an error."""
    inbox = Inbox(Records({}), seeded())
    inbox.url = "http://127.0.0.1:9"
    people = await scene.cast(url, inbox, seeded(), devices=TERMINALS, applications=2)

    async def without() -> Load:
        async with _nodes(url, tmp_path) as nodes:
            return await _sell(nodes, people, min(seconds, 60))

    before = await without()
    with pgbouncer("trixie", url) as pooled:
        await _give_settings(pooled, postgres_server)
    with pgbouncer("trixie", url) as pooled:
        async with _nodes(pooled, tmp_path, PAYDESK_DATABASE_LISTEN_URL=url) as nodes:
            behind = await _sell(nodes, people, seconds)
    # The load of the machine changes within minutes.
    direct = max(before, await without(), key=lambda load: load.median_offer_ms)
    slower = behind.median_offer_ms / direct.median_offer_ms
    print(  # noqa: T201 - the figures of the run
        f"behind PgBouncer {behind.sold} orders in {seconds} s, offered in {behind.median_offer_ms:.1f} ms, without in"
        f" {direct.median_offer_ms:.1f} ms: {slower:.2f} times; errors {len(behind.errors)}; {dict(behind.answers)}"
    )
    assert (before.errors, direct.errors, behind.errors) == ([], [], [])
    assert behind.sold > seconds * TERMINALS / 4
    assert slower < SLOWER_MAX
    checked = await asyncio.to_thread(command, "doctor", "--invariants", folder=tmp_path, PAYDESK_DATABASE_URL=url)
    assert checked.returncode == 0, checked.stdout
