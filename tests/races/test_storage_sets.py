"""A statement over a set answers each asker what the statement alone would have answered them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from paydesk.platform.storage.database import Row
from paydesk.platform.storage.postgres.connections import Connection, Connections
from paydesk.platform.storage.postgres.sets import combined, execute_many, execute_one, execute_together, set_form

ROWS = 7

SCHEMA = """
CREATE TABLE things (
    seller_id bigint NOT NULL, name text NOT NULL, note text, size smallint NOT NULL, digest bytea,
    PRIMARY KEY (seller_id, name)
);
CREATE UNIQUE INDEX things_size ON things (seller_id, size) WHERE note = 'unique';
CREATE TABLE parts (seller_id bigint NOT NULL, name text NOT NULL, part text NOT NULL)"""

FIND = "SELECT name, note, size FROM things WHERE seller_id = $1 AND name = $2"
FIND_ALL = "SELECT name FROM things WHERE seller_id = $1 AND size >= $2 ORDER BY size DESC, name LIMIT 3"
LOCK = f"{FIND} FOR UPDATE"
COUNT = "SELECT COUNT(*), COUNT(*) FROM things WHERE seller_id = $1"
QUOTED = "SELECT '$2 (' || name, \"size\" -- $3, WHERE\n FROM things /* $4 */ WHERE seller_id = $1 AND name = $2"
CHANGE = "UPDATE things SET note = COALESCE(CAST($3 AS text), note) WHERE seller_id = $1 AND name = $2 AND size < 5"
CHANGE_AND_TELL = f"{CHANGE} RETURNING name, note, size + CAST($4 AS smallint)"
REMOVE = "DELETE FROM things WHERE seller_id = $1 AND name = $2"
REMOVE_RETURNING = f"{REMOVE} RETURNING size"
ADD = "INSERT INTO things (seller_id, name, note, size, digest) VALUES ($1, $2, 'new', $3, $4)"
ADD_OR_NOT = f"{ADD} ON CONFLICT DO NOTHING RETURNING size, digest"
ADD_QUIETLY = f"{ADD} ON CONFLICT DO NOTHING"
FAN_OUT = """
INSERT INTO parts (seller_id, name, part)
SELECT CAST($1 AS bigint), CAST($2 AS text), name FROM things WHERE seller_id = $1 AND size <= $3"""
WITHOUT_PARAMETERS = "SELECT COUNT(*) FROM things"
WITH = "WITH mine AS (SELECT * FROM things WHERE seller_id = $1) SELECT name FROM mine WHERE name = $2"
FROM_ANOTHER = """
UPDATE things SET note = parts.part FROM parts
WHERE things.seller_id = $1 AND things.name = $2 AND parts.seller_id = things.seller_id"""

CASES: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    ("one", FIND, [(1, "t2"), (1, "missing"), (2, "t2"), (1, "t0"), (1, "t2")]),
    ("all", FIND, [(1, "t2"), (1, "missing")]),
    ("all", FIND_ALL, [(1, 0), (1, 3), (2, 6), (3, 0)]),
    ("one", FIND_ALL, [(1, 0), (1, 3), (3, 0)]),
    ("one", LOCK, [(1, "t2"), (1, "missing"), (2, "t2")]),
    ("one", COUNT, [(1,), (2,), (3,)]),
    ("one", QUOTED, [(1, "t2"), (2, "t1")]),
    ("run", CHANGE, [(1, "t2", "new"), (1, "t6", "too big"), (2, "t2", None), (9, "t2", "missing")]),
    ("one", CHANGE_AND_TELL, [(1, "t2", "new", 1), (1, "t6", "too big", 2), (2, "t2", None, 3)]),
    ("all", CHANGE_AND_TELL, [(1, "t2", "new", 1), (1, "t6", "too big", 2)]),
    ("run", REMOVE, [(1, "t2"), (1, "missing"), (2, "t2")]),
    ("one", REMOVE_RETURNING, [(1, "t2"), (1, "missing"), (2, "t3")]),
    ("run", ADD, [(1, "n1", 1, b"a"), (2, "n1", 2, None)]),
    ("one", ADD_OR_NOT, [(1, "n1", 1, b"a"), (1, "t2", 8, b"b"), (2, "n1", 2, None)]),
    ("one", ADD_OR_NOT, [(1, "n1", 1, b"a"), (1, "n1", 1, b"a"), (2, "n1", 2, None)]),
    ("run", ADD_QUIETLY, [(1, "n1", 1, b"a"), (1, "t2", 8, b"b"), (2, "n1", 2, None)]),
    ("run", ADD_QUIETLY, [(1, "n1", 1, b"a"), (1, "n1", 1, b"a"), (2, "n1", 2, None)]),
    ("run", FAN_OUT, [(1, "a", 2), (1, "b", -1), (2, "c", 0)]),
    ("one", WITHOUT_PARAMETERS, [(), ()]),
    ("one", WITH, [(1, "t2"), (1, "missing")]),
    ("run", FROM_ANOTHER, [(1, "t2"), (2, "t2")]),
]


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[Connection]:
    """A connection to a database with two sellers' things."""
    connections = Connections(postgres_url, connections_max=1, timeout_seconds=10, lock_timeout_seconds=10)
    taken = await connections.acquire()
    await taken.execute(SCHEMA)
    await taken.execute(
        "INSERT INTO things SELECT s, 't' || n, CASE WHEN n % 2 = 0 THEN 'even' END, n, NULL"
        f" FROM generate_series(1, 2) s, generate_series(0, {ROWS - 1}) n"
    )
    await taken.execute("INSERT INTO parts VALUES (1, 't2', 'wheel')")
    yield taken
    connections.release(taken)
    await connections.close()


async def everything(connection: Connection) -> list[list[tuple[Any, ...]]]:
    """All rows of both tables."""
    tables = ("SELECT * FROM things ORDER BY 1, 2", "SELECT * FROM parts ORDER BY 1, 2, 3")
    return [[tuple(row) for row in await connection.fetch(sql, ())] for sql in tables]


def plain(kind: str, answer: Any) -> Any:
    """An answer as a value that can be compared."""
    if kind == "run" or answer is None:
        return answer
    return tuple(answer) if kind == "one" else [tuple(row) for row in answer]


@pytest.mark.parametrize(("kind", "sql", "many"), CASES)
async def test_a_set_form_returns_what_single_statements_return(
    connection: Connection, kind: str, sql: str, many: list[tuple[Any, ...]]
) -> None:
    """The same answers, and the same rows afterwards."""
    await connection.execute("BEGIN")
    alone = [plain(kind, await execute_one(connection, kind, sql, args)) for args in many]
    after_alone = await everything(connection)
    await connection.execute("ROLLBACK")
    await connection.execute("BEGIN")
    together = [plain(kind, answer) for answer in await execute_many(connection, kind, sql, many)]
    after_together = await everything(connection)
    await connection.execute("ROLLBACK")
    assert together == alone
    assert after_together == after_alone


@pytest.mark.parametrize("sql", [FIND, FIND_ALL, LOCK, CHANGE_AND_TELL, REMOVE, ADD_OR_NOT, ADD_QUIETLY, FAN_OUT])
async def test_hot_statements_have_a_set_form(connection: Connection, sql: str) -> None:
    """Over arrays, and the rows say whose they are."""
    types = await connection.parameter_types(sql)
    assert types is not None
    form = set_form(sql, types)
    assert form is not None
    assert "unnest($1::int8[]" in form.sql
    assert not re.search(r"\$\d+(?!\d|::)", form.sql.replace("'$2 ('", ""))


@pytest.mark.parametrize(
    "sql",
    [
        WITH,
        FROM_ANOTHER,
        "UPDATE things SET note = $1",
        "INSERT INTO things (seller_id, name, size) VALUES ($1, 'a', 1), ($1, 'b', 2)",
        "INSERT INTO parts (seller_id, name, part) SELECT seller_id, $1, 'x' FROM things ON CONFLICT DO NOTHING",
        "TRUNCATE things",
    ],
)
def test_other_statements_have_no_set_form(sql: str) -> None:
    """They run once for each asker."""
    assert set_form(sql, ("int8", "text")) is None


@pytest.mark.parametrize(("kind", "returning"), [("one", " RETURNING name"), ("run", "")])
async def test_a_unique_index_admits_one_unit(connection: Connection, kind: str, returning: str) -> None:
    """Of two who would break it one gets a row, whichever; the other none."""
    sql = "INSERT INTO things (seller_id, name, note, size) VALUES ($1, $2, 'unique', $3) ON CONFLICT DO NOTHING"
    first, second, third = await execute_many(
        connection, kind, sql + returning, [(1, "x", 1), (1, "y", 1), (1, "z", 2)]
    )
    assert bool(first) is not bool(second)
    assert third


async def test_deferred_statements_take_one_round_trip(connection: Connection) -> None:
    """Each returns how many rows it affected."""
    asked = [(CHANGE, (1, "t1", "changed")), (ADD, (1, "n1", 9, b"x")), (FAN_OUT, (2, "f", 3)), (REMOVE, (1, "none"))]
    assert await execute_together(connection, asked) == [1, 1, 4, 0]
    things, parts = await everything(connection)
    assert (1, "t1", "changed", 1, None) in things
    assert (1, "n1", "new", 9, b"x") in things
    assert len(parts) == 5


def test_combined_parameters_are_renumbered() -> None:
    """What stands in quotes is not a parameter."""
    assert combined(("DELETE FROM a WHERE b = $1 AND c = '$1'", "UPDATE a SET b = $2 WHERE c = $1 RETURNING d")) == (
        "WITH s0 AS (DELETE FROM a WHERE b = $1 AND c = '$1' RETURNING 1),"
        " s1 AS (UPDATE a SET b = $3 WHERE c = $2 RETURNING d)"
        " SELECT (SELECT COUNT(*) FROM s1), (SELECT COUNT(*) FROM s0)"
    )


async def test_a_new_table_is_read_by_its_key(connection: Connection) -> None:
    """Nothing was analyzed yet, and the plan is made once."""
    for sql in (FIND, CHANGE, REMOVE):
        types = await connection.parameter_types(sql)
        assert types is not None
        form = set_form(sql, types)
        assert form is not None
        await connection.execute(f"PREPARE planned AS {form.sql}")
        rows: list[Row] = await connection.fetch(f"EXPLAIN EXECUTE planned ({', '.join(['NULL'] * len(types))})", ())
        await connection.execute("DEALLOCATE planned")
        plan = "\n".join(row[0] for row in rows)
        assert "things_pkey" in plan, plan
        assert "Seq Scan" not in plan, plan
