"""The text of SQL: the form that SQLite takes, and scripts cut into statements."""

from __future__ import annotations

import pytest

from paydesk.platform.storage.statements import for_sqlite, only_reads, split, strict
from tables import each


@each(
    "shared, expected",
    [
        ("SELECT $1, $2, $1", "SELECT ?1, ?2, ?1"),
        ("SELECT $10", "SELECT ?10"),
        ("SELECT '$1', $1", "SELECT '$1', ?1"),
        ("SELECT 'it''s $1', $1", "SELECT 'it''s $1', ?1"),
        ('SELECT "$1" FROM a', 'SELECT "$1" FROM a'),
        ("SELECT 1 -- it's $1\n, $1", "SELECT 1 -- it's $1\n, ?1"),
        ("SELECT 1 /* it's $1 */, $1", "SELECT 1 /* it's $1 */, ?1"),
        ("SELECT a FROM b FOR UPDATE", "SELECT a FROM b "),
        ("SELECT a FROM b FOR UPDATE SKIP LOCKED", "SELECT a FROM b "),
        ("SELECT a FROM b WHERE c IN (SELECT c FROM d FOR  share)", "SELECT a FROM b WHERE c IN (SELECT c FROM d )"),
        ("SELECT a FROM b FOR UPDATE OF b SKIP LOCKED", "SELECT a FROM b "),
        ("SELECT 'FOR UPDATE'", "SELECT 'FOR UPDATE'"),
        ("SELECT CAST($1 AS bytea)", "SELECT CAST(?1 AS BLOB)"),
        ("SELECT before_update FROM a", "SELECT before_update FROM a"),
    ],
)
def test_sqlite_takes_the_shared_subset(shared: str, expected: str) -> None:
    """Placeholders are numbered, lock clauses dropped, and what is quoted stays."""
    assert for_sqlite(shared) == expected


def test_tables_are_strict() -> None:
    """A table gets the four types of a STRICT table, whatever comments say."""
    made = strict("-- The bigint's table.\nCREATE TABLE a (b bigint, c smallint DEFAULT 0, d text, e text = 'bigint')")
    assert made == (
        "-- The bigint's table.\nCREATE TABLE a (b INTEGER, c INTEGER DEFAULT 0, d text, e text = 'bigint') STRICT"
    )


def test_an_index_is_not_strict() -> None:
    """Only CREATE TABLE is completed."""
    assert strict("CREATE INDEX a ON b (c)") == "CREATE INDEX a ON b (c)"


def test_a_script_is_split_into_statements() -> None:
    """Semicolons in strings and comments end nothing, and comments alone are no statement."""
    script = "-- First; it's\nCREATE TABLE a (b text DEFAULT ';'); /* ; */ SELECT 1;\n-- The end;\n"
    assert list(split(script)) == ["-- First; it's\nCREATE TABLE a (b text DEFAULT ';')", "/* ; */ SELECT 1"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("\n-- Updates nothing.\n select 1", True),
        ("WITH a AS (SELECT 1) SELECT * FROM a", True),
        ("UPDATE a SET b = 1 RETURNING b", False),
        ("/* SELECT */ DELETE FROM a", False),
    ],
)
def test_a_query_is_recognized_by_its_first_word(sql: str, *, expected: bool) -> None:
    """Comments don't count."""
    assert only_reads(sql) is expected
