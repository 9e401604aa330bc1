"""From a version to the next and back behind a proxy: no request fails on PostgreSQL, none is lost with SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest

from forks import Forks
from free_port import free_port
from paydesk.platform.storage.connect import open_database
from proxies.configured import HOST, Proxy, configured
from proxies.load import UNAVAILABLE, Load
from proxies.nodes import TERMINALS, VARIABLES, addresses, cast, has_orders, orders
from upgrade import copied
from upgrade.versions import ADDITIVE, Version, next_version
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("people_key")]

BALANCERS = ("haproxy", "nginx")
CREATED = "SELECT count(*), sum(CASE WHEN status = 'processed' THEN 1 ELSE 0 END) FROM orders"


class Place:
    """One of the addresses behind the proxy, and the node of each version that serves there in turn."""

    def __init__(self, number: int, url: str, folder: Path, this: Forks, following: Forks) -> None:
        listen = {f"PAYDESK_{name}": f"127.0.0.1:{free_port()}" for name in ("LISTEN", "OPERATOR_LISTEN")}
        self.older, self.newer = (
            Version(f"{name}-{number}", forks, url, folder) for name, forks in (("older", this), ("newer", following))
        )
        for one in (self.older, self.newer):
            one.variables |= {**VARIABLES, **listen}


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """The processes of the next version, on whose database this one may run."""
    with next_version(tmp_path_factory.mktemp("following"), ADDITIVE) as forks:
        yield forks


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path, following: Forks) -> Iterator[list[Place]]:
    """Two places behind the proxy, on the database of the test; at the end what still runs is killed."""
    kind = "postgres_url" if "postgres_url" in request.fixturenames else "sqlite_url"
    database_url = request.getfixturevalue(kind)
    this = Forks("paydesk_forked", parent="paydesk")
    found = [Place(number, database_url, tmp_path, this, following) for number in (1, 2)]
    with ExitStack() as stack:
        for place in found:
            stack.enter_context(closing(place.older))
            stack.enter_context(closing(place.newer))
        yield found


@asynccontextmanager
async def _selling(proxy: Proxy, url: str, first: list[Version], *, repeats: bool) -> AsyncIterator[Load]:
    """Let the nodes serve, and sell at all terminals through the proxy until the end of the block."""
    people = await cast(url)
    for node in first:
        await asyncio.to_thread(node.serves)
    with proxy.running():
        load = Load(proxy.url, host=HOST, trust=proxy.trust, pause_seconds=0.2, repeats=repeats)
        running = asyncio.create_task(load.run(people.terminals))
        await until(lambda: load.sold > TERMINALS or running.done(), lambda: load)
        yield load
        load.stop.set()
        await running


async def _migrated(node: Version) -> None:
    migrated = await asyncio.to_thread(node.run, "migrate")
    assert migrated.stdout == f"applied {copied.NAME}\n"


async def _exchange(old: Version, new: Version) -> None:
    """End a node, start that of the other version in its place, and wait until the proxy sends it orders."""
    await asyncio.to_thread(old.ends)
    asked = orders(new)
    await asyncio.to_thread(new.serves)
    await has_orders(new, asked)


async def _is_complete(load: Load, url: str, node: Version) -> None:
    """Check that each sale of the load is one order, processed, and that the database is consistent."""
    assert load.errors == []
    database = await open_database(url)
    try:
        ((created, processed),) = await database.read(lambda tx: tx.all(CREATED))
    finally:
        await database.close()
    assert created == processed == load.sold
    checked = await asyncio.to_thread(node.run, "doctor", "--invariants")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", BALANCERS)
async def test_no_request_fails_through_an_upgrade_and_back(
    name: str, postgres_url: str, tmp_path: Path, places: list[Place], certificate: tuple[Path, Path]
) -> None:
    """Nodes are exchanged one after the other, forward after the migration, then back on the newer schema."""
    older = [place.older for place in places]
    proxy = configured(name, tmp_path, certificate, addresses(older))
    async with _selling(proxy, postgres_url, older, repeats=False) as load:
        await _migrated(places[0].newer)
        for place in places:
            await _exchange(place.older, place.newer)
        for place in places:
            await _exchange(place.newer, place.older)
    print(f"{name}: {load.sold} orders, {dict(load.answers)}, errors {load.errors}")  # noqa: T201 - the figures
    for node in older:
        await asyncio.to_thread(node.ends)
    await _is_complete(load, postgres_url, older[0])


@pytest.mark.parametrize("name", BALANCERS)
async def test_clients_that_repeat_lose_nothing_while_a_file_is_upgraded(
    name: str, sqlite_url: str, tmp_path: Path, places: list[Place], certificate: tuple[Path, Path]
) -> None:
    """One process has the file, so the service pauses: requests are repeated, and each sale is made once."""
    place = places[0]
    proxy = configured(name, tmp_path, certificate, addresses([one.older for one in places]))
    async with _selling(proxy, sqlite_url, [place.older], repeats=True) as load:
        await asyncio.to_thread(place.older.ends)
        await _migrated(place.newer)
        await asyncio.to_thread(place.newer.serves)
        await has_orders(place.newer, 0)
        await _exchange(place.newer, place.older)
    print(f"{name}: {load.sold} orders, {dict(load.answers)}, errors {load.errors}")  # noqa: T201 - the figures
    await asyncio.to_thread(place.older.ends)
    assert any(load.answers[status] for status in UNAVAILABLE)
    await _is_complete(load, sqlite_url, place.older)
