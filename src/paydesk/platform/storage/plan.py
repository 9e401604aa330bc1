"""What pending migrations will do: their statements, and what each locks on PostgreSQL meanwhile."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from paydesk.platform.storage.migrate import Migration
from paydesk.platform.storage.statements import without_comments

_NAME = r"(?:IF (?:NOT )?EXISTS )?(?P<table>\w+)"
_NEW = re.compile(r"^\s*CREATE TABLE (?:IF NOT EXISTS )?(\w+)", re.MULTILINE | re.IGNORECASE)
NEW = "blocks nothing: the table is new"
EFFECTS: Mapping[str, str] = {
    rf"CREATE TABLE {_NAME}": NEW,
    rf"CREATE (?:UNIQUE )?INDEX CONCURRENTLY \w+ ON {_NAME}": "blocks nothing while it reads {table}",
    rf"CREATE (?:UNIQUE )?INDEX \w+ ON {_NAME}": "blocks writes to {table} while it reads all its rows",
    rf"ALTER TABLE {_NAME} (?:ADD COLUMN|DROP|RENAME|.* NOT VALID$)": "blocks {table} for a moment",
    rf"ALTER TABLE {_NAME}": "blocks {table} while it reads all its rows",
    rf"(?:INSERT INTO|UPDATE|DELETE FROM) {_NAME}": "locks the rows of {table} that it changes",
    rf"DROP INDEX {_NAME}": "blocks the table of {table} for a moment",
    rf"DROP TABLE {_NAME}": "blocks {table} for a moment",
}
"""What a statement does to other sessions, by its beginning: the first that matches."""


def plan(migrations: Iterable[Migration]) -> list[dict[str, Any]]:
    """Return what each migration does."""
    return [
        {
            "name": one.name,
            "runs_with": one.runs_with,
            "in_transaction": not one.is_outside_transaction,
            "statements": [
                {"sql": sql, "effect": effect(sql, _NEW.findall(one.script))}
                for sql in (" ".join(without_comments(statement).split()) for statement in one.statements)
            ],
        }
        for one in migrations
    ]


def effect(sql: str, new_tables: Collection[str] = ()) -> str:
    """Return what a statement on one line does to other sessions; empty if that is not known."""
    for begin, says in EFFECTS.items():
        if match := re.match(begin, sql, re.IGNORECASE):
            return NEW if match["table"] in new_tables else says.format(table=match["table"])
    return ""


def as_lines(planned: Iterable[Mapping[str, Any]], *, statements: bool = True) -> list[str]:
    """Return the plan for people, with or without the statements."""
    lines = list[str]()
    for one in planned:
        how = "in one transaction" if one["in_transaction"] else "outside a transaction on PostgreSQL"
        lines.append(f"pending {one['name']}: {how}; {one['runs_with']} and newer versions run with it")
        for statement in one["statements"] if statements else ():
            lines += [f"  {statement['sql']}", f"    {statement['effect'] or 'its locks are not known'}"]
    return lines
