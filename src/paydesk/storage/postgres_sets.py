"""One statement for all who ask the same: what is asked about one row becomes one question about a set of rows.

`… WHERE order_id = $1`, asked by sixty units of work, goes as one statement over `unnest($1::text[])`, and each row of
its result says whose it is: the server plans, runs and answers once instead of sixty times. What has no such form is
run once for each asker, in one round trip all the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from paydesk.storage.postgres_connections import Connection
from paydesk.storage.statements import OPAQUE, without_comments

KEY_COLUMNS_MAX = 6
"""A table's key comes first in its columns; so many of them tell the rows of an INSERT apart."""

_TOKEN = re.compile(
    rf"""(?P<opaque>{OPAQUE}) | (?P<parameter>\$\d+) | (?P<open>\() | (?P<close>\)) | (?P<comma>,)
    | (?P<word>\bON\s+CONFLICT\b|\b[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_PARAMETER = re.compile(rf"(?P<opaque>{OPAQUE}) | \$(?P<number>\d+)", re.VERBOSE | re.DOTALL)
_INSERT = re.compile(r"INSERT\s+INTO\s+(?P<table>\w+)\s*\((?P<columns>[^()]+)\)\s*", re.IGNORECASE)
_FENCED = frozenset({"FOR", "LIMIT", "OFFSET"})
_CLAUSES = _FENCED | {"FROM", "ON CONFLICT", "RETURNING", "SELECT", "SET", "USING", "VALUES", "WHERE", "WITH"}


@dataclass(frozen=True, slots=True)
class SetForm:
    """A statement over a set of arguments, one array a parameter.

    Its rows begin with their asker's number, or, where `key` names parameters, with the values that tell whose they
    are; `silent`: it returns no rows, and everybody got exactly one.
    """

    sql: str
    key: tuple[int, ...] = ()
    silent: bool = False
    counted: bool = False
    """Whether its rows are an asker and a number of rows."""


async def ask(connection: Connection, kind: str, sql: str, many: list[tuple[Any, ...]]) -> list[Any]:
    """What each of `many` askers is answered: a row or None (`one`), rows (`all`), a number of rows (`run`)."""
    if len(many) == 1:
        return [await ask_alone(connection, kind, sql, many[0])]
    types = await connection.parameter_types(sql)
    form = set_form(sql, types) if types else None
    if form is None or (form.key and not _told_apart(form, many)):
        rows = await connection.fetch_many(tagged(kind, sql), _numbered(many))
        return _by_number(kind, rows, len(many), counted=kind == "run")
    rows = await connection.fetch(form.sql, tuple(zip(*many, strict=True)))
    if form.silent:
        return [1] * len(many)
    if form.key:
        return _by_key(kind, rows, form, many)
    return _by_number(kind, rows, len(many), counted=form.counted)


async def ask_alone(connection: Connection, kind: str, sql: str, args: tuple[Any, ...]) -> Any:
    """The statement as it stands."""
    if kind == "run":
        count = (await connection.execute(sql, args)).rpartition(" ")[2]
        return int(count) if count.isdigit() else 0
    rows = await connection.fetch(sql, args)
    return rows if kind == "all" else rows[0] if rows else None


async def ask_at_once(connection: Connection, asked: list[tuple[str, tuple[Any, ...]]]) -> list[int]:
    """How many rows each of several statements conflict_keys that don't see each other's rows."""
    if len(asked) == 1:
        return [await ask_alone(connection, "run", *asked[0])]
    sql = at_once(tuple(statement for statement, _ in asked))
    rows = await connection.fetch(sql, tuple(value for _, args in asked for value in args))
    return list(rows[0])


# Whose row is it? ---------------------------------------------------------------------------------------------------


def _by_number(kind: str, rows: Sequence[Any], count: int, *, counted: bool) -> list[Any]:
    """Rows that begin with their asker's number, from 1."""
    if kind == "run":
        numbers = [0] * count
        for row in rows:
            numbers[row[0] - 1] += row[1] if counted else 1
        return numbers
    answers: list[Any] = [[] if kind == "all" else None for _ in range(count)]
    for row in rows:
        if kind == "all":
            answers[row[0] - 1].append(row[1:])
        elif answers[row[0] - 1] is None:
            answers[row[0] - 1] = row[1:]
    return answers


def _by_key(kind: str, rows: Sequence[Any], form: SetForm, many: list[tuple[Any, ...]]) -> list[Any]:
    """Rows of an INSERT, which begin with values that their asker gave."""
    width = len(form.key)
    made = {tuple(row[:width]): row[width:] for row in rows}
    found = [made.get(_key(form, args)) for args in many]
    if kind == "run":
        return [int(row is not None) for row in found]
    return [[row] if row is not None else [] for row in found] if kind == "all" else found


def _told_apart(form: SetForm, many: list[tuple[Any, ...]]) -> bool:
    return len({_key(form, args) for args in many}) == len(many)


def _key(form: SetForm, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([args[place] for place in form.key])


def _numbered(many: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*args, number) for number, args in enumerate(many, start=1)]


# The forms ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def set_form(sql: str, types: tuple[str, ...]) -> SetForm | None:
    """The statement over a set of arguments of these types, or None where it has no such form."""
    statement = without_comments(sql).strip()
    names = ", ".join(f"a{number}" for number in range(1, len(types) + 1))
    arrays = ", ".join(f"${number}::{name}[]" for number, name in enumerate(types, start=1))
    given = f"unnest({arrays}) WITH ORDINALITY AS given ({names}, asker)"
    clauses, asking = _clauses(statement), _from_given(statement)
    verb = statement.split(None, 1)[0].upper()
    if verb == "SELECT":
        # The fence keeps the inner plan what it is for one asker: joined into it, a scan of all of a seller's rows can
        # look cheaper than one row by its key.
        fence = "" if _FENCED & clauses.keys() else " OFFSET 0"
        return SetForm(f"SELECT given.asker, found.* FROM {given} CROSS JOIN LATERAL ({asking}{fence}) AS found")
    if verb == "INSERT":
        return _set_insert(statement, clauses, given)
    if verb in ("UPDATE", "DELETE") and "WHERE" in clauses:
        return _set_change(verb, statement, clauses, given)
    return None


def _set_change(verb: str, statement: str, clauses: dict[str, int], given: str) -> SetForm | None:
    if "USING" in clauses or (verb == "UPDATE" and "FROM" in clauses):
        return None
    where, returning = clauses["WHERE"], clauses.get("RETURNING", len(statement))
    head, condition = _from_given(statement[:where]), _from_given(statement[where:returning])
    rows = statement[returning + len("RETURNING") :].strip()
    join = "FROM" if verb == "UPDATE" else "USING"
    return SetForm(f"{head} {join} {given} {condition} RETURNING given.asker{f', {_from_given(rows)}' if rows else ''}")


def _set_insert(statement: str, clauses: dict[str, int], given: str) -> SetForm | None:
    head = _INSERT.match(statement)
    if head is None:
        return None
    columns = [column.strip() for column in head["columns"].split(",")]
    if "VALUES" in clauses:
        return _set_insert_values(statement, clauses, given, columns)
    if "SELECT" in clauses and not {"ON CONFLICT", "RETURNING", "WITH"} & clauses.keys():
        source = ", ".join(f"c{number}" for number in range(1, len(columns) + 1))
        query = _from_given(statement[head.end() :])
        return SetForm(
            f"WITH made AS (SELECT given.asker, {source} FROM {given}"
            f" CROSS JOIN LATERAL ({query}) AS source ({source})), kept AS ({head[0]} SELECT {source} FROM made)"
            " SELECT asker, CAST(COUNT(*) AS integer) FROM made GROUP BY asker",
            counted=True,
        )
    return None


def _set_insert_values(statement: str, clauses: dict[str, int], given: str, columns: list[str]) -> SetForm | None:
    start = clauses["VALUES"]
    end = min(clauses.get(name, len(statement)) for name in ("ON CONFLICT", "RETURNING"))
    values = _listed(statement[start + len("VALUES") : end].strip())
    if values is None or len(values) != len(columns):
        return None
    returning = clauses.get("RETURNING", len(statement))
    conflict, rows = statement[end:returning], statement[returning + len("RETURNING") :].strip()
    insert = f"{statement[:start]} SELECT {', '.join(map(_from_given, values))} FROM {given} {conflict}"
    if not conflict.strip() and not rows:
        return SetForm(insert, silent=True)
    key = [
        (column, int(value[1:]) - 1)
        for column, value in zip(columns, values, strict=True)
        if re.fullmatch(r"\$\d+", value)
    ][:KEY_COLUMNS_MAX]
    told = ", ".join(column for column, _ in key)
    return SetForm(f"{insert} RETURNING {told}{f', {rows}' if rows else ''}", tuple(place for _, place in key))


def _from_given(text: str) -> str:
    """The text with the asker's own column for each parameter."""
    return _PARAMETER.sub(lambda match: match["opaque"] or f"given.a{match['number']}", text)


def _clauses(statement: str) -> dict[str, int]:
    """Where each clause of the outermost level begins."""
    clauses: dict[str, int] = {}
    depth = 0
    for token in _TOKEN.finditer(statement):
        if token["open"] or token["close"]:
            depth += 1 if token["open"] else -1
        elif token["word"] and not depth:
            word = " ".join(token["word"].upper().split())
            if word in _CLAUSES:
                clauses.setdefault(word, token.start())
    return clauses


def _listed(text: str) -> list[str] | None:
    """The members of one list in parentheses, or None where the text is something else, such as two lists."""
    if not text.startswith("("):
        return None
    members: list[str] = []
    start, depth = 1, 0
    for token in _TOKEN.finditer(text):
        if token["open"]:
            depth += 1
        elif token["close"]:
            depth -= 1
            if not depth:
                return [*members, text[start : token.start()].strip()] if not text[token.end() :].strip() else None
        elif token["comma"] and depth == 1:
            members.append(text[start : token.start()].strip())
            start = token.end()
    return None


@lru_cache(maxsize=2048)
def at_once(statements: tuple[str, ...]) -> str:
    """One statement that runs all of them, with their parameters in a row, and returns how many rows each touched."""
    parts, first = [], 0
    for number, statement in enumerate(map(_returning, statements)):
        parts.append(f"s{number} AS ({_shifted(statement, first)})")
        first += _parameters(statement)
    counts = ", ".join(f"(SELECT COUNT(*) FROM s{number})" for number in range(len(parts)))
    return f"WITH {', '.join(parts)} SELECT {counts}"


def _shifted(statement: str, places: int) -> str:
    return _PARAMETER.sub(lambda match: match["opaque"] or f"${int(match['number']) + places}", statement)


def _returning(sql: str) -> str:
    statement = without_comments(sql).strip()
    return statement if "RETURNING" in _clauses(statement) else f"{statement} RETURNING 1"


@lru_cache(maxsize=2048)
def tagged(kind: str, sql: str) -> str:
    """The statement with one parameter more, a number that comes back as the first column of each of its rows."""
    statement = without_comments(sql).strip()
    tag = f"CAST(${_parameters(statement) + 1} AS integer)"
    if kind == "run":
        return f"WITH touched AS ({_returning(sql)}) SELECT {tag}, CAST(COUNT(*) AS integer) FROM touched"
    return f"WITH found AS ({statement}) SELECT {tag}, found.* FROM found"


def _parameters(statement: str) -> int:
    return max((int(match["number"]) for match in _PARAMETER.finditer(statement) if match["number"]), default=0)
