"""A change of at most so many rows: they are chosen once, whatever the plan.

PostgreSQL may run the query of `IN (SELECT … LIMIT $2 FOR UPDATE SKIP LOCKED)` for each row that it looks at. What was
changed meanwhile is no longer found, others are: many more rows are changed than the limit says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from paydesk.platform.storage.statements import without_comments
from written_statements import written_statements

_LIMITED = re.compile(r"\bLIMIT\b", re.IGNORECASE)
_CHOSEN_ONCE = re.compile(r"\s*WITH (\w+) AS MATERIALIZED \(.*\)\s+SELECT \* FROM \1\s*", re.DOTALL)


def limited_sets(sql: str) -> Iterator[str]:
    """What stands in the parentheses of each `IN (…)` that has a limit."""
    for found in re.finditer(r"\bIN\s*\(", sql):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        if _LIMITED.search(sql[found.end() : end]):
            yield sql[found.end() : end - 1]


@pytest.mark.parametrize(
    ("sql", "is_chosen_once"),
    [
        ("DELETE FROM a WHERE b IN (SELECT b FROM a ORDER BY b LIMIT $1)", False),
        ("DELETE FROM a WHERE b IN (WITH old AS MATERIALIZED (SELECT b FROM a LIMIT $1) SELECT * FROM old)", True),
        ("DELETE FROM a WHERE b IN (WITH old AS (SELECT b FROM a LIMIT $1) SELECT * FROM old)", False),
    ],
)
def test_the_check_finds_subqueries_that_may_run_twice(sql: str, *, is_chosen_once: bool) -> None:
    """Only a query marked to be cached runs once."""
    (chosen,) = limited_sets(sql)
    assert bool(_CHOSEN_ONCE.fullmatch(chosen)) == is_chosen_once


def test_subqueries_with_a_limit_run_once() -> None:
    """In every statement of the modules."""
    sets = [
        (name, chosen)
        for name, sql in written_statements().items()
        for chosen in limited_sets(without_comments(sql))
        if re.match(r"\s*(UPDATE|DELETE)\b", without_comments(sql), re.IGNORECASE)
    ]
    assert len(sets) > 8
    assert [name for name, chosen in sets if not _CHOSEN_ONCE.fullmatch(chosen)] == []
