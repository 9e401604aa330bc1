"""Deferred statements run at the end of their unit of work, before the commit, and do not see each other's rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from paydesk.platform.storage.database import WorkError
from paydesk.platform.storage.statements import without_comments

_TARGET = re.compile(r"\s*(?P<verb>INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(?P<table>\w+)", re.IGNORECASE)
_EQUALS = re.compile(r"\b(\w+)\s*=\s*\$(\d+)")
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)


class Deferred(msgspec.Struct, frozen=True, gc=False):
    """A statement that runs before the commit. `notify` is the topic to notify if it affects rows."""

    sql: str
    args: tuple[Any, ...]
    notify: str
    required: bool = False
    """Whether it must affect a row."""


class DeferredStatements(list[Deferred]):
    """The deferred statements of a unit of work, in their order.

    PostgreSQL runs them in the reverse order. So a request that does its work first locks its key before its effect, as
    one does that claims its key before its work: the two do not wait for each other. SQLite has no such locks.
    """

    _only_inserts = True

    def add(self, sql: str, args: tuple[Any, ...], notify: str, *, required: bool = False) -> None:
        """Append a statement. Raises `WorkError` as `refuse_same_row` does."""
        if self._only_inserts and not _is_insert(sql):
            self._only_inserts = False
        if not self._only_inserts:  # A unit may have thousands of INSERTs, so these are not compared with each other.
            refuse_same_row(self, sql, args)
        self.append(Deferred(sql, args, notify, required))


def refuse_same_row(deferred: Iterable[Deferred], sql: str, args: tuple[Any, ...]) -> None:
    """Raise `WorkError` if the statement may touch a row that a deferred one of its unit touches.

    PostgreSQL runs a unit's deferred statements as one, in which a row is changed at most once.
    """
    for other in deferred:
        compared = _compared(other.sql, sql)
        if compared is not None and all(other.args[first] == args[second] for first, second in compared):
            raise WorkError(
                "A unit of work deferred two statements that may touch one row: run one of them with `tx.run`, or make"
                f" them one. {without_comments(sql).strip()}"
            )


@lru_cache(maxsize=2048)
def _is_insert(sql: str) -> bool:
    target = _TARGET.match(without_comments(sql))
    return target is not None and target["verb"][0] in "Ii"


@lru_cache(maxsize=2048)
def _compared(first: str, second: str) -> tuple[tuple[int, int], ...] | None:
    """Return the places of the arguments that both statements find rows by; None if no row can be of both."""
    targets = [_TARGET.match(without_comments(sql)) for sql in (first, second)]
    if not targets[0] or not targets[1] or targets[0]["table"] != targets[1]["table"]:
        return None
    verbs = {target["verb"][0].upper() for target in targets if target}
    if verbs == {"I"}:
        # A second INSERT of a row fails on both databases.
        return None
    if "I" in verbs:
        return ()
    places = [_places(sql) for sql in (first, second)]
    return tuple((places[0][column], places[1][column]) for column in places[0].keys() & places[1].keys())


def _places(sql: str) -> dict[str, int]:
    """Return the columns that the WHERE compares with an argument, each with the argument's place."""
    condition = _WHERE.split(without_comments(sql), maxsplit=1)[-1]
    return {column: int(number) - 1 for column, number in _EQUALS.findall(condition)}
