"""Set forms: one statement that does for many units of work what each would have done with a statement of its own.

`… WHERE order_id = $1` of sixty units becomes one statement over `unnest($1::text[])`, whose rows say which unit they
belong to: the server plans and runs once instead of sixty times. A statement without a set form runs once for each
unit, in one round trip.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from paydesk.platform.storage.deferred import Deferred
from paydesk.platform.storage.postgres.connections import Connection
from paydesk.platform.storage.statements import OPAQUE, without_comments

BATCH_LOCK_TIMEOUT = "100ms"
"""A row that another transaction has locked must not delay a whole batch: its units then run alone."""

KEY_COLUMNS_MAX = 6
"""Columns that identify a row of an INSERT: its statement lists the columns of the key first."""

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
    """A statement over a set of arguments, with one array for each parameter.

    Its rows begin with the number of their unit, or, if `key` names parameters, with the values of these. `silent`: it
    returns no rows, and each unit inserted exactly one.
    """

    sql: str
    key: tuple[int, ...] = ()
    silent: bool = False
    counted: bool = False
    """Whether its rows are the number of a unit and a count of rows."""


async def execute_many(connection: Connection, kind: str, sql: str, many: list[tuple[Any, ...]]) -> list[Any]:
    """Run a statement for each of `many`; return for each a row or None (`one`), rows (`all`) or a count (`run`)."""
    if len(many) == 1:
        return [await execute_one(connection, kind, sql, many[0])]
    types = await connection.parameter_types(sql)
    form = set_form(sql, types) if types else None
    if form is None or (form.key and not _are_distinct(form, many)):
        rows = await connection.fetch_many(tagged(kind, sql), _numbered(many))
        return _by_number(kind, rows, len(many), counted=kind == "run")
    rows = await connection.fetch(form.sql, tuple(zip(*many, strict=True)))
    if form.silent:
        return [1] * len(many)
    if form.key:
        return _by_key(kind, rows, form, many)
    return _by_number(kind, rows, len(many), counted=form.counted)


async def execute_one(connection: Connection, kind: str, sql: str, args: tuple[Any, ...]) -> Any:
    """Run a statement unchanged."""
    if kind == "run":
        count = (await connection.execute(sql, args)).rpartition(" ")[2]
        return int(count) if count.isdigit() else 0
    rows = await connection.fetch(sql, args)
    return rows if kind == "all" else rows[0] if rows else None


async def execute_together(connection: Connection, statements: list[tuple[str, tuple[Any, ...]]]) -> list[int]:
    """Run statements that do not see each other's rows; return how many rows each affected."""
    if len(statements) == 1:
        return [await execute_one(connection, "run", *statements[0])]
    sql = combined(tuple(statement for statement, _ in statements))
    rows = await connection.fetch(sql, tuple(value for _, args in statements for value in args))
    return list(rows[0])[::-1]


async def form_at_once(connection: Connection, units: list[list[Deferred]]) -> tuple[str, tuple[Any, ...]] | None:
    """Return one statement for all that the units deferred, with its arguments, or None if it has no such form.

    All units deferred the same statements. It returns how many rows those with a topic affected, and fails with a
    division by zero if a required one has not affected a row for every unit.
    """
    parts: list[Part] = []
    for one in units[0]:
        types = connection.types.get(one.sql) or await connection.parameter_types(one.sql)
        if types is None:
            return None
        parts.append(Part(one.sql, types, one.required, one.notify != ""))
    together = at_once(tuple(parts), several=len(units) > 1)
    if together is None:
        return None
    if len(units) == 1:
        return together, tuple([value for deferred in units[0] for value in deferred.args])
    same = zip(*units, strict=True)
    return together, tuple([array for many in same for array in zip(*[one.args for one in many], strict=True)])


# Rows to units -----------------------------------------------------------------------------------------------------


def _by_number(kind: str, rows: Sequence[Any], count: int, *, counted: bool) -> list[Any]:
    """Group rows that begin with the number of their unit, from 1."""
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
    """Group rows of an INSERT, which begin with values of their unit's arguments."""
    width = len(form.key)
    made = {tuple(row[:width]): row[width:] for row in rows}
    found = [made.get(_key(form, args)) for args in many]
    if kind == "run":
        return [int(row is not None) for row in found]
    return [[row] if row is not None else [] for row in found] if kind == "all" else found


def _are_distinct(form: SetForm, many: list[tuple[Any, ...]]) -> bool:
    return len({_key(form, args) for args in many}) == len(many)


def _key(form: SetForm, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([args[place] for place in form.key])


def _numbered(many: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*args, number) for number, args in enumerate(many, start=1)]


# The forms ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def set_form(sql: str, types: tuple[str, ...]) -> SetForm | None:
    """Return the set form of a statement with parameters of these types, or None if it has none."""
    statement = without_comments(sql).strip()
    given, clauses, inner = _given(types), _clauses(statement), _from_given(statement)
    verb = statement.split(None, 1)[0].upper()
    if verb == "SELECT":
        # OFFSET 0 keeps the inner plan as it is for one unit. Without it, the planner may prefer a scan of all of a
        # seller's rows to one row by its key.
        fence = "" if _FENCED & clauses.keys() else " OFFSET 0"
        return SetForm(f"SELECT given.unit, found.* FROM {given} CROSS JOIN LATERAL ({inner}{fence}) AS found")
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
    return SetForm(f"{head} {join} {given} {condition} RETURNING given.unit{f', {_from_given(rows)}' if rows else ''}")


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
            f"WITH made AS (SELECT given.unit, {source} FROM {given}"
            f" CROSS JOIN LATERAL ({query}) AS source ({source})), kept AS ({head[0]} SELECT {source} FROM made)"
            " SELECT unit, CAST(COUNT(*) AS integer) FROM made GROUP BY unit",
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
    returned = ", ".join(column for column, _ in key)
    return SetForm(f"{insert} RETURNING {returned}{f', {rows}' if rows else ''}", tuple(place for _, place in key))


def _given(types: tuple[str, ...]) -> str:
    """Return the table of the arguments, a row for each unit."""
    names = ", ".join(f"a{number}" for number in range(1, len(types) + 1))
    arrays = ", ".join(f"${number}::{name}[]" for number, name in enumerate(types, start=1))
    return f"unnest({arrays}) WITH ORDINALITY AS given ({names}, unit)"


def _from_given(text: str) -> str:
    """Return the text with the column of `given` for each parameter."""
    return _PARAMETER.sub(lambda match: match["opaque"] or f"given.a{match['number']}", text)


def _clauses(statement: str) -> dict[str, int]:
    """Return where each clause of the outermost level begins."""
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
    """Return the members of one list in parentheses, or None for any other text, such as two lists."""
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
def combined(statements: tuple[str, ...]) -> str:
    """Return one statement that runs all of them, with all parameters, and returns how many rows each affected.

    They run as their rows are counted: the last one first.
    """
    parts, first = [], 0
    for number, statement in enumerate(map(_returning, statements)):
        parts.append(f"s{number} AS ({_shifted(statement, first)})")
        first += _parameters(statement)
    counts = ", ".join(f"(SELECT COUNT(*) FROM s{number})" for number in reversed(range(len(parts))))
    return f"WITH {', '.join(parts)} SELECT {counts}"


class Part(NamedTuple):
    """A statement that runs together with others, and the types of its parameters.

    `required`: it must affect a row for each unit. `counted`: the caller needs the number of its rows.
    """

    sql: str
    types: tuple[str, ...]
    required: bool
    counted: bool


@lru_cache(maxsize=2048)
def at_once(parts: tuple[Part, ...], *, several: bool) -> str | None:
    """Return one statement that runs all parts for one unit, or for several, with arrays as parameters.

    None if a part has no form for several.
    """
    changes, results, missing, first = [], [], [], 1
    for number, part in enumerate(parts):
        statement = _change_of_all(part.sql, part.types) if several else without_comments(part.sql).strip()
        if statement is None:
            return None
        count = f"(SELECT COUNT(*) FROM s{number})"
        if part.required or part.counted:
            statement = _returning(statement)
        changes.append(f"s{number} AS ({_shifted(statement, first - 1)})")
        if part.counted:
            results.append(count)
        if part.required:
            missing.append(f"{count} < {f'cardinality(${first})' if several else 1}")
        first += len(part.types)
    # Evaluated before the parts, which run as their rows are counted.
    wait = f"set_config('lock_timeout', '{BATCH_LOCK_TIMEOUT}', true)"
    check = f"1 / CASE WHEN {' OR '.join(reversed(missing)) or 'false'} THEN 0 ELSE 1 END"
    return f"WITH {', '.join(changes)} SELECT {', '.join([wait, check, *results])}"


def _change_of_all(sql: str, types: tuple[str, ...]) -> str | None:
    """Return the statement over a set of arguments, whose rows need not say which unit they belong to."""
    statement = without_comments(sql).strip()
    head, clauses = _INSERT.match(statement), _clauses(statement)
    if head is None or "SELECT" not in clauses:
        form = set_form(sql, types)
        return form.sql if form is not None else None
    end = min(clauses.get(name, len(statement)) for name in ("ON CONFLICT", "RETURNING"))
    if _PARAMETER.search(statement[end:]):
        return None
    query = _from_given(statement[head.end() : end])
    return f"{head[0]} SELECT found.* FROM {_given(types)} CROSS JOIN LATERAL ({query}) AS found {statement[end:]}"


def _shifted(statement: str, places: int) -> str:
    return _PARAMETER.sub(lambda match: match["opaque"] or f"${int(match['number']) + places}", statement)


def _returning(sql: str) -> str:
    statement = without_comments(sql).strip()
    return statement if "RETURNING" in _clauses(statement) else f"{statement} RETURNING 1"


@lru_cache(maxsize=2048)
def tagged(kind: str, sql: str) -> str:
    """Return the statement with a further parameter, a number that is the first column of each of its rows."""
    statement = without_comments(sql).strip()
    tag = f"CAST(${_parameters(statement) + 1} AS integer)"
    if kind == "run":
        return f"WITH affected AS ({_returning(sql)}) SELECT {tag}, CAST(COUNT(*) AS integer) FROM affected"
    return f"WITH found AS ({statement}) SELECT {tag}, found.* FROM found"


def _parameters(statement: str) -> int:
    return max((int(match["number"]) for match in _PARAMETER.finditer(statement) if match["number"]), default=0)
