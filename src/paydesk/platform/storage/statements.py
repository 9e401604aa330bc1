"""SQL text: translates the shared subset for SQLite and splits scripts. Quoted text and comments stay unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

OPAQUE = r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/"""

CLOCK_MS = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS bigint)"
"""Milliseconds since 1970 in UTC by the clock of the database's machine, in a statement."""

_SQLITE = re.compile(
    rf"""(?P<opaque>{OPAQUE})
    | \$(?P<number>\d+)
    | (?P<lock>\bFOR\s+(?:UPDATE|SHARE)\b(?:\s+OF\s+\w+)?(?:\s+SKIP\s+LOCKED\b)?)
    | (?P<bytes>\bbytea\b)
    | (?P<clock>\bEXTRACT\(EPOCH\ FROM\ clock_timestamp\(\)\))
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_DDL = re.compile(
    rf"(?P<opaque>{OPAQUE}) | (?P<integer>\b(?:bigint|smallint)\b) | \bCONCURRENTLY\s+",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_END = re.compile(rf"(?:{OPAQUE}) | (?P<end>;)", re.VERBOSE | re.DOTALL)
_COMMENT = re.compile(rf"(?P<quoted>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\") | {OPAQUE}", re.VERBOSE | re.DOTALL)
_LOCKS = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+UPDATE|UPDATE|KEY\s+SHARE|SHARE)\b", re.IGNORECASE)
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "SHOW", "EXPLAIN"})
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE"})
_CREATE_TABLE = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)
_CONCURRENTLY = re.compile(r"\s*CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(\w+)\s+ON\b", re.IGNORECASE)


@lru_cache(maxsize=2048)
def for_sqlite(sql: str) -> str:
    """Return the statement for SQLite: without locks, and with its own names of blobs and of the clock.

    `$1` becomes `?1`, because SQLite binds `$1` by order of appearance.
    """
    return _SQLITE.sub(_sqlite_form, sql)


def _sqlite_form(match: re.Match[str]) -> str:
    if match["number"]:
        return f"?{match['number']}"
    if match["lock"]:
        return ""
    if match["clock"]:
        return "unixepoch('subsec')"
    return "BLOB" if match["bytes"] else match[0]


def strict(sql: str) -> str:
    """Return the DDL statement with the types of a STRICT table, each CREATE TABLE as STRICT, without CONCURRENTLY."""
    typed = _DDL.sub(lambda match: "INTEGER" if match["integer"] else match["opaque"] or "", sql)
    return f"{typed.rstrip()} STRICT" if _CREATE_TABLE.match(without_comments(sql)) else typed


def built_concurrently(sql: str) -> str:
    """Return the name of the index that the statement builds concurrently; empty if it builds none."""
    match = _CONCURRENTLY.match(without_comments(sql))
    return match[1] if match is not None else ""


def without_comments(sql: str) -> str:
    """Return the statement without its comments."""
    return _COMMENT.sub(lambda match: match["quoted"] or " ", sql)


@lru_cache(maxsize=2048)
def only_reads(sql: str) -> bool:
    """Return whether the statement begins like a query."""
    return without_comments(sql).split(None, 1)[0].upper() in _QUERIES


@lru_cache(maxsize=2048)
def needs_transaction(sql: str) -> bool:
    """Return whether the statement may change or lock rows, so that what it does must be committed or rolled back."""
    statement = without_comments(sql)
    return statement.split(None, 1)[0].upper() != "SELECT" or _LOCKS.search(statement) is not None


@lru_cache(maxsize=2048)
def is_about_rows(sql: str) -> bool:
    """Return whether the statement can change nothing but rows, which SQLite counts."""
    return only_reads(sql) or without_comments(sql).split(None, 1)[0].upper() in _CHANGES


def split(script: str) -> Iterator[str]:
    """Yield the statements of a script, without semicolons."""
    start = 0
    for match in _END.finditer(script):
        if match["end"]:
            yield from _unless_empty(script[start : match.start()])
            start = match.end()
    yield from _unless_empty(script[start:])


def _unless_empty(statement: str) -> Iterator[str]:
    if without_comments(statement).strip():
        yield statement.strip()
