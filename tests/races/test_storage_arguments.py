"""Arguments for PostgreSQL: lists and tuples are arrays, as asyncpg would take them; other iterables are not."""

from __future__ import annotations

from collections import abc, deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from asyncpg.protocol import protocol

from paydesk.platform.storage.postgres import connections as postgres_connections
from tables import each

NAMES = {"IterableABC": abc.Iterable, "SizedABC": abc.Sized, "MappingABC": abc.Mapping}
"""asyncpg's own values of the names that are replaced."""
LOCKED = Path(__file__).parents[2] / "requirements.lock"
MIXED = ["a", ["b"]]

Answer = tuple[str, Any]


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection whose database has a composite type."""
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TYPE pair AS (number bigint, name text)")
    yield connection
    await connection.close()


async def answered(connection: asyncpg.Connection, kind: str, argument: Any) -> Answer:
    """Return what the server makes of the argument, or the name of the driver's error and its reason."""
    try:
        return "value", await connection.fetchval(f"SELECT CAST($1 AS {kind})", argument)
    except asyncpg.DataError as error:
        return type(error).__name__, str(error).rpartition("(")[2]


async def by_asyncpg(connection: asyncpg.Connection, kind: str, argument: Any) -> Answer:
    """The same as asyncpg would answer by itself."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in NAMES.items():
            patch.setattr(protocol, name, value)
        return await answered(connection, kind, argument)


@each(
    "kind, argument",
    [
        ("bigint[]", [1, None, 2]),
        ("bigint[]", (1, 2)),
        ("bigint[]", []),
        ("bigint[]", None),
        ("bigint[]", [[1, 2], [3, 4]]),
        ("text[]", ["a", "", None, "{b}"]),
        ("bytea[]", [b"a", b"", None, bytearray(b"b")]),
        ("boolean[]", [True, None]),
        ("jsonb[]", ['{"a": 1}', "[1]"]),
        ("pair[]", [(1, "a"), None, (2, None)]),
        ("pair", (1, "a")),
        ("pair", [1, "a"]),
        ("pair", {"number": 1, "name": "a"}),
        ("pair[]", [{"number": 1, "name": "a"}]),
        ("bytea", b"a"),
        ("text", "a"),
    ],
)
async def test_an_argument_is_taken_as_before(connection: asyncpg.Connection, kind: str, argument: Any) -> None:
    """With the same value."""
    kept = await answered(connection, kind, argument)
    assert kept[0] == "value"
    assert kept == await by_asyncpg(connection, kind, argument)


@each(
    "kind, argument",
    [
        ("bigint[]", {"a": 1}),
        ("bigint[]", {}),
        ("text[]", "ab"),
        ("text[]", b"ab"),
        ("bytea[]", b"ab"),
        ("bytea[]", memoryview(b"ab")),
        ("bigint[]", 1),
        ("bigint[]", ["a"]),
        ("text[]", [1]),
        ("text[]", [{"a": 1}]),
        ("text[]", MIXED),
        ("bigint[]", [[1, 2], [3]]),
        ("bigint[]", [(1, 2), (3, 4)]),
        ("bigint[]", iter([1])),
    ],
)
async def test_an_argument_is_refused_as_before(connection: asyncpg.Connection, kind: str, argument: Any) -> None:
    """A mapping, a text or bytes is no array, nor is what has parts of different lengths."""
    refused = await answered(connection, kind, argument)
    assert refused[0] == "DataError"
    assert refused == await by_asyncpg(connection, kind, argument)


@each("argument", [{1, 2}, frozenset({1}), deque([1]), range(2), {1: 1}.keys()])
async def test_another_iterable_is_no_array(connection: asyncpg.Connection, argument: Any) -> None:
    """The driver alone would take it; Paydesk passes lists."""
    assert (await answered(connection, "bigint[]", argument))[0] == "DataError"
    assert (await by_asyncpg(connection, "bigint[]", argument))[0] == "value"


def test_the_pinned_asyncpg_has_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new version is tried with these tests, and its `array.pyx` read: without the names batches are slower."""
    assert asyncpg.__version__ == "0.32.0"
    assert f"asyncpg=={asyncpg.__version__} " in LOCKED.read_text()
    assert (protocol.IterableABC, protocol.SizedABC, protocol.MappingABC) == ((list, tuple), (list, tuple), dict)
    for name, value in NAMES.items():
        monkeypatch.setattr(protocol, name, value)
    monkeypatch.delattr(protocol, "SizedABC")
    postgres_connections._take_only_lists_for_arrays()
    assert protocol.IterableABC is abc.Iterable, "all of them or none"
