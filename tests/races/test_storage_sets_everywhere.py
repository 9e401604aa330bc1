"""Every statement of the modules has a set form that PostgreSQL accepts, and that does what the statement does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from hot_path import statements
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.deferred import Deferred
from paydesk.platform.storage.migrate import shipped
from paydesk.platform.storage.postgres.connections import Connection, Connections
from paydesk.platform.storage.postgres.sets import (
    Part,
    at_once,
    combined,
    execute_many,
    execute_one,
    form_at_once,
    set_form,
    tagged,
)
from paydesk.platform.storage.statements import only_reads, split, without_comments
from written_statements import written_statements

TABLES = [
    words[2]
    for migration in shipped()
    for sql in split(migration.script)
    if (words := without_comments(sql).split())[1] == "TABLE"
]


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[Connection]:
    """A connection to a migrated database."""
    connections = Connections(postgres_url, connections_max=1, timeout_seconds=10, lock_timeout_seconds=10)
    taken = await connections.acquire()
    yield taken
    connections.release(taken)
    await connections.close()


async def test_every_written_statement_has_forms_that_postgres_accepts(postgres_url: str) -> None:
    """Alone, as a set, with a number, deferred beside another, and at once."""
    raw = await asyncpg.connect(postgres_url)
    written, wrong, sets = written_statements(), {}, 0
    try:
        for name, sql in written.items():
            try:
                types = tuple(parameter.name for parameter in (await raw.prepare(sql)).get_parameters())
                form = set_form(sql, types) if types else None
                sets += form is not None
                forms = [form.sql] if form else []
                forms += [tagged("all", sql)] if only_reads(sql) or "RETURNING" in sql else []
                if not only_reads(sql):
                    forms += [tagged("run", sql), combined((sql, sql))]
                    forms += filter(
                        None,
                        (
                            at_once((Part(sql, types, required=True, counted=True),), several=several)
                            for several in (False, True)
                            if types
                        ),
                    )
                for other in forms:
                    await raw.prepare(other)
            except asyncpg.PostgresError as error:
                wrong[name] = str(error)
    finally:
        await raw.close()
    assert wrong == {}
    assert sets > 150


def _other(value: Any) -> Any:
    """Another value of the same type, of no row."""
    if isinstance(value, bool) or value is None:
        return value
    return value + 1 if isinstance(value, int) else value + b"x" if isinstance(value, bytes) else f"{value}x"


async def _outcome(
    connection: Connection,
    kind: str,
    sql: str,
    many: list[tuple[Any, ...]],
    *,
    form: str,
) -> Any:
    """The answers and the rows of the table afterwards, or the type of the error; everything is rolled back."""
    await connection.execute("BEGIN")
    try:
        if form == "at once":
            found_form = await form_at_once(connection, [[Deferred(sql, args, "topic")] for args in many])
            if found_form is None:
                return None
            ((_, _, affected),) = await connection.fetch(*found_form)
            answers = [affected]
        elif form == "set":
            answers = await execute_many(connection, kind, sql, many)
        else:
            answers = [await execute_one(connection, kind, sql, args) for args in many]
        rows = [await connection.fetch(f"SELECT * FROM {table}", ()) for table in TABLES if table in sql]
    except asyncpg.PostgresError as error:
        return type(error)
    finally:
        await connection.execute("ROLLBACK")
    plain = answers if kind == "run" else [sorted(map(tuple, answer)) for answer in answers]
    return plain, [sorted(map(repr, map(tuple, found))) for found in rows]


async def test_every_executed_statement_does_as_a_set_what_it_does_alone(
    connection: Connection, postgres_url: str
) -> None:
    """With the arguments of a played scene, and beside them with others, in the database that the scene left."""
    database = await open_database(postgres_url)
    asked = await statements(database)
    await database.close()
    compared, written, wrong = 0, 0, []
    for sql, args in asked.items():
        if not args or not await connection.parameter_types(sql):
            continue
        many = [args, tuple(map(_other, args))]
        for kind in ("all",) if only_reads(sql) else ("run", "all") if "RETURNING" in sql else ("run",):
            alone = await _outcome(connection, kind, sql, many, form="alone")
            together = await _outcome(connection, kind, sql, many, form="set")
            compared += 1
            if alone != together:
                wrong.append((kind, " ".join(sql.split()), alone, together))
            if kind == "run" and isinstance(alone, tuple):
                at_once = await _outcome(connection, kind, sql, many, form="at once")
                written += at_once is not None
                if at_once not in (None, ([sum(alone[0])], alone[1])):
                    wrong.append(("at once", " ".join(sql.split()), alone, at_once))
    assert wrong == []
    assert compared > 100
    assert written > 40
