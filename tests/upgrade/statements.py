"""The statements of earlier versions, a file each: on the schema of this version every one must still be prepared.

They are those that stand in the modules of a wheel, and on its own schema are statements, not parts of others.
"""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from paydesk.platform.storage.statements import for_sqlite
from upgrade import kept

FOLDER = kept.FOLDER / "statements"
COLLECTOR = Path(__file__).with_name("collector.py")
ENDING = ".json.xz"
PARAMETER = re.compile(r"[?](\d+)")

Statements = dict[str, str]
"""By the name of the constant, or its place in one."""


def versions() -> list[str]:
    """Return the versions whose statements are kept."""
    return [file.name.removesuffix(ENDING) for file in sorted(FOLDER.glob(f"*{ENDING}"))]


def of(version: str, database: str) -> Statements:
    """Return the statements of a version for `sqlite` or `postgres`."""
    found: dict[str, Statements] = json.loads(lzma.decompress(FOLDER.joinpath(f"{version}{ENDING}").read_bytes()))
    return found[database]


def written(package_folder: Path) -> Statements:
    """Return the statements in the modules of an unpacked wheel, which another process imports."""
    found = subprocess.run(
        [sys.executable, COLLECTOR, package_folder], check=True, capture_output=True, text=True
    ).stdout
    statements: Statements = json.loads(found)
    return statements


async def keep(sqlite_file: Path, postgres_url: str, sent: Collection[str]) -> None:
    """Write the statements of the kept version that its own databases, which are restored, accept.

    `sent`: further ones, which were sent while these were filled.
    """
    statements = written(kept.unpacked())
    statements |= {f"sent {number}": text for number, text in enumerate(sorted({*sent} - {*statements.values()}))}
    kept.restore_sqlite(sqlite_file)
    await kept.restore_postgres(postgres_url)
    with closing(apsw.Connection(str(sqlite_file))) as file:
        by_sqlite = refused_by_sqlite(file, statements)
    server = await asyncpg.connect(postgres_url)
    try:
        by_postgres = await refused_by_postgres(server, statements)
    finally:
        await server.close()
    accepted = {
        database: {name: sql for name, sql in statements.items() if name not in refused}
        for database, refused in (("sqlite", by_sqlite), ("postgres", by_postgres))
    }
    FOLDER.mkdir(exist_ok=True)
    FOLDER.joinpath(f"{kept.version()}{ENDING}").write_bytes(kept.compressed(json.dumps(accepted).encode()))


def refused_by_sqlite(connection: apsw.Connection, statements: Statements) -> dict[str, str]:
    """Return the statements that cannot be prepared, each with the reason."""
    refused = {}
    for name, sql in statements.items():
        form = for_sqlite(sql)
        parameters: list[Any] = [None] * max(map(int, PARAMETER.findall(form)), default=0)
        try:
            connection.execute(f"EXPLAIN {form}", parameters)
        except (apsw.Error, apsw.BindingsError) as error:
            refused[name] = str(error)
    return refused


async def refused_by_postgres(connection: asyncpg.Connection, statements: Statements) -> dict[str, str]:
    """Return the statements that cannot be prepared, each with the reason."""
    refused = {}
    for name, sql in statements.items():
        try:
            await connection.prepare(sql)
        except asyncpg.PostgresError as error:
            refused[name] = str(error)
    return refused
