"""The kept version: its wheel, and a SQLite file and a PostgreSQL database with its data, as they were dumped.

This module imports nothing of Paydesk: the process of the kept version imports it first.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import asyncpg

FOLDER = Path(__file__).with_name("kept")
WHEEL, SQLITE, POSTGRES = FOLDER / "paydesk.whl.xz", FOLDER / "sqlite.db.xz", FOLDER / "postgres.sql.xz"
FACTS = FOLDER / "facts.json"
KEY = hashlib.sha256(b"the server key of the kept databases").digest()
"""Their tokens and webhook secrets are derived from it. `paydesk serve` refuses the key of the other tests."""

INSTANT_MS_MIN = 1_000_000_000_000
"""Smaller numbers in a column `…_ms` are durations."""
COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
SQLITE_COLUMNS = """
SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"""


@dataclass
class Facts:
    """The facts about a dumped database that its clients need. Their secrets are invented and valid nowhere else."""

    made_ms: int
    client_id: str
    client_secret: str
    access_token: str
    refresh_token: str
    operator_token: str
    session: str
    """The token in the cookie of an operator who is signed in to the console."""
    tills: list[list[str]]
    """Free terminals: their ids and device tokens."""
    orders: dict[str, str]
    """The id of an order in each state; in a few, of others too."""


def commit() -> str:
    """Return the commit of the wheel."""
    found: str = json.loads(FACTS.read_text())["commit"]
    return found


def version() -> str:
    """Return the version of the wheel."""
    (information,) = unpacked().glob("paydesk-*.dist-info")
    return information.name.removeprefix("paydesk-").removesuffix(".dist-info")


def facts(database: str) -> Facts:
    """Return the facts about the dump for `sqlite` or `postgres`."""
    return Facts(**json.loads(FACTS.read_text())[database])


def unpacked() -> Path:
    """Return the folder of the unpacked wheel: in `.venv`, so that its bytecode is written once."""
    wheel = WHEEL.read_bytes()
    folder = Path(sys.prefix) / "kept" / hashlib.sha256(wheel).hexdigest()[:16]
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        # Several processes of one test run come here at once: the first one that is done keeps its folder.
        with tempfile.TemporaryDirectory(dir=folder.parent) as made, tempfile.TemporaryFile() as file:
            file.write(lzma.decompress(wheel))
            with zipfile.ZipFile(file) as archive:
                archive.extractall(Path(made, "wheel"))
            try:
                Path(made, "wheel").rename(folder)
            except OSError:
                assert folder.exists(), "another process has put it there"
    return folder


def restore_sqlite(file: Path) -> None:
    """Write the kept SQLite file, as if it had been dumped now."""
    file.write_bytes(lzma.decompress(SQLITE.read_bytes()))
    file.chmod(0o600)
    with closing(apsw.Connection(str(file))) as connection:
        for statement in _moved(connection.execute(SQLITE_COLUMNS), facts("sqlite")):
            connection.execute(statement)


async def restore_postgres(url: str) -> None:
    """Fill an empty database of PostgreSQL with the kept one, as if it had been dumped now."""
    connection = await asyncpg.connect(url)
    try:
        columns = await connection.fetch(COLUMNS)
        assert not columns, "the database is empty"
        await connection.execute(lzma.decompress(POSTGRES.read_bytes()).decode())
        await connection.execute("RESET ALL")
        for statement in _moved(await connection.fetch(COLUMNS), facts("postgres")):
            await connection.execute(statement)
    finally:
        await connection.close()


def _moved(columns: Iterable[Iterable[Any]], found: Facts) -> Iterable[str]:
    """Yield the statements that move every instant by the time since the dump, or all tokens would have expired."""
    by_table: dict[str, list[str]] = {}
    for table, column in columns:
        if column.endswith("_ms"):
            by_table.setdefault(table, []).append(column)
    by_ms = time.time_ns() // 1_000_000 - found.made_ms
    for table, names in by_table.items():
        changes = (f"{name} = {name} + CASE WHEN {name} > {INSTANT_MS_MIN} THEN {by_ms} ELSE 0 END" for name in names)
        yield f"UPDATE {table} SET {', '.join(changes)}"


def write_keys(folder: Path) -> None:
    """Write the key file into a folder in which `paydesk serve` is to start."""
    file = folder / "paydesk.keys.json"
    file.touch(0o600)
    file.write_text(json.dumps({"active": 1, "keys": {"1": KEY.hex()}}))


def write(wheel: Path, dumps: Mapping[Path, bytes], facts: Mapping[str, Any]) -> None:
    """Replace what is kept: the wheel, the dumps, and the facts about them."""
    FOLDER.mkdir(exist_ok=True)
    WHEEL.write_bytes(compressed(_stored(wheel)))
    for file, dump in dumps.items():
        file.write_bytes(compressed(dump))
    FACTS.write_text(json.dumps(facts, indent=2) + "\n")


def _stored(wheel: Path) -> bytes:
    """Return a wheel with the same files, uncompressed, in their order, without times: the same for one commit."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(file, "w") as stored:
            for name in sorted(archive.namelist()):
                stored.writestr(zipfile.ZipInfo(name), archive.read(name))
        file.seek(0)
        return file.read()


def compressed(content: bytes) -> bytes:
    """Return it in the smallest form."""
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
