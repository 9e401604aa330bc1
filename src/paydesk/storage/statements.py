"""The text of SQL: what SQLite needs changed in the shared subset, and a script cut into statements.

Quoted strings, quoted names and comments are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

OPAQUE = r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/"""

_SQLITE = re.compile(
    rf"""(?P<opaque>{OPAQUE})
    | \$(?P<number>\d+)
    | (?P<lock>\bFOR\s+(?:UPDATE|SHARE)\b(?:\s+OF\s+\w+)?(?:\s+SKIP\s+LOCKED\b)?)
    | (?P<bytes>\bbytea\b)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_DDL = re.compile(
    rf"(?P<opaque>{OPAQUE}) | (?P<integer>\b(?:bigint|smallint)\b)", re.VERBOSE | re.IGNORECASE | re.DOTALL
)
_END = re.compile(rf"(?:{OPAQUE}) | (?P<end>;)", re.VERBOSE | re.DOTALL)
_COMMENT = re.compile(rf"(?P<quoted>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\") | {OPAQUE}", re.VERBOSE | re.DOTALL)
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "SHOW", "EXPLAIN"})
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE"})
_CREATE_TABLE = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)


@lru_cache(maxsize=2048)
def for_sqlite(sql: str) -> str:
    """The statement as SQLite takes it: `?1` for `$1` (its own `$1` binds by order of appearance), no lock clause."""
    return _SQLITE.sub(_sqlite_form, sql)


def _sqlite_form(match: re.Match[str]) -> str:
    if match["number"]:
        return f"?{match['number']}"
    if match["lock"]:
        return ""
    return "BLOB" if match["bytes"] else match[0]


def strict(sql: str) -> str:
    """The DDL statement with the types of a STRICT table, as which every table is made on SQLite."""
    typed = _DDL.sub(lambda match: "INTEGER" if match["integer"] else match[0], sql)
    return f"{typed.rstrip()} STRICT" if _CREATE_TABLE.match(without_comments(sql)) else typed


def without_comments(sql: str) -> str:
    """The statement alone."""
    return _COMMENT.sub(lambda match: match["quoted"] or " ", sql)


@lru_cache(maxsize=2048)
def only_reads(sql: str) -> bool:
    """Whether the statement begins as a query does."""
    return without_comments(sql).split(None, 1)[0].upper() in _QUERIES


@lru_cache(maxsize=2048)
def is_about_rows(sql: str) -> bool:
    """Whether all that the statement can change are rows, which are counted."""
    return only_reads(sql) or without_comments(sql).split(None, 1)[0].upper() in _CHANGES


def split(script: str) -> Iterator[str]:
    """The statements of a script, without the semicolons between them."""
    start = 0
    for match in _END.finditer(script):
        if match["end"]:
            yield from _unless_empty(script[start : match.start()])
            start = match.end()
    yield from _unless_empty(script[start:])


def _unless_empty(statement: str) -> Iterator[str]:
    if without_comments(statement).strip():
        yield statement.strip()
