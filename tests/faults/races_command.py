"""Race cancels, acknowledgements, grants, results and time, thousands of rounds each, and print what it came to."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from faults import races
from faults.long_form import arguments_of, bar, conclude, console, migrate_url, migrated_database
from faults.races import RACES, Race
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.postgres.database import PostgresDatabase
from paydesk.platform.storage.sqlite import database as sqlite
from postgres_server import PostgresServer

ROUNDS_PER_DATABASE = 1000


def main(arguments: list[str]) -> int:
    """`python -m tests.faults races --rounds 2000`: on both databases, with commits that are shared and without."""
    parser = arguments_of("races", __doc__)
    parser.add_argument("--rounds", type=int, default=2000, help="of each race, on each database, in each way")
    parser.add_argument("--only", choices=[*RACES], help="one race")
    parser.add_argument("--database", choices=["sqlite", "postgres"], help="one database")
    parser.add_argument("--batching", choices=["together", "alone"], help="one way to commit")
    chosen = parser.parse_args(arguments)
    # Wakes and rivals are logged by the thousand.
    structlog.configure(processors=[_dropped])
    started, found, figures = time.monotonic(), list[str](), dict[str, object]()
    names = [chosen.only] if chosen.only else [*RACES]
    for kind in [chosen.database] if chosen.database else ["sqlite", "postgres"]:
        for batching in [chosen.batching] if chosen.batching else ["together", "alone"]:
            with _batching(batching), _databases(kind) as databases, bar(f"{kind}, {batching}", len(names)) as progress:
                for done, name in enumerate(names, start=1):
                    outcomes, said = _raced(RACES[name], databases, chosen.rounds)
                    found += [f"{name} on {kind}, {batching}: {one}" for one in said]
                    figures |= {f"{kind}, {batching}: {name}: {what}": count for what, count in outcomes.items()}
                    progress(done, name)
    return conclude("races", figures, found, started=started)


def _raced(race: Race, databases: Iterator[str], rounds: int) -> tuple[Counter[str], list[str]]:
    """So many rounds, on a fresh database from time to time."""
    outcomes, said, left = Counter[str](), list[str](), rounds
    while left > 0 and not said:
        now = min(left, ROUNDS_PER_DATABASE)
        url = next(databases)
        came, said = asyncio.run(_on(url, race, now))
        outcomes.update(came)
        left -= now
    if said:
        console.print(f"{race.name}: {said}", style="red", markup=False)
    return outcomes, said


async def _on(url: str, race: Race, rounds: int) -> tuple[Counter[str], list[str]]:
    database = await open_database(url)
    try:
        outcomes = await races.run(race, database, url, rounds)
        return outcomes, await races.findings(race, outcomes, database)
    finally:
        await database.close()


@contextmanager
def _batching(batching: str) -> Iterator[None]:
    """What waits shares commits, as it does in a service, or each unit of work has one of its own."""
    defaults = PostgresDatabase.__init__.__kwdefaults__
    assert defaults is not None, "it has keyword arguments"
    before = sqlite.FLUSH_WORKS_MAX, defaults["write_units_max"]
    if batching == "alone":
        sqlite.FLUSH_WORKS_MAX, defaults["write_units_max"] = 1, 1
    try:
        yield
    finally:
        sqlite.FLUSH_WORKS_MAX, defaults["write_units_max"] = before


@contextmanager
def _databases(kind: str) -> Iterator[Iterator[str]]:
    """Fresh, migrated databases, as many as are asked for."""
    if kind == "sqlite":
        migrated = migrated_database()
        with tempfile.TemporaryDirectory(prefix="paydesk-races-") as folder:
            yield _files(Path(folder), migrated)
        return
    server = PostgresServer.start()
    try:
        asyncio.run(migrate_url(server.create_database("migrated")))
        yield (server.create_database(f"races_{number}", template="migrated") for number in range(1_000_000))
    finally:
        server.end()


def _files(folder: Path, migrated: bytes) -> Iterator[str]:
    for number in range(1_000_000):
        file = folder / f"{number}.db"
        file.write_bytes(migrated)
        yield f"sqlite:{file}"


def _dropped(_: object, __: str, ___: object) -> str:
    raise structlog.DropEvent
