"""Lists, a page at a time: `limit` rows after a cursor, which is the key of the last row that was shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Answer, Call, Query
from paydesk.storage.database import Row, Transaction

LIMIT_DEFAULT = LIMIT_MAX = 200
NUMBER_MAX = 2**63 - 1
_ID = re.compile("[0-9]{1,18}", re.ASCII)

LIMIT = Query("limit", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}, "How many.")
OF_SELLER = Query("seller", {"type": "string", "pattern": "^[0-9]{1,15}$"}, "Of this seller only.")

T = TypeVar("T")
Key = tuple[int | str, ...]


def paging(key: Key) -> tuple[Query, Query]:
    """The parameters of a list whose rows have keys such as this one."""
    after = {"type": "string", "pattern": f"^{_cursor_pattern(tuple(map(type, key)))}$"}
    return LIMIT, Query("after", after, "The `next` of the page before.")


async def page(
    tx: Transaction, call: Call, sql: str, first: Key, shown: Callable[[Row], dict[str, Any]], *args: Any
) -> Answer:
    """One page. `sql` takes the key that it starts after, the limit and `args`; its rows begin with their key.

    `first` is a key before all others. Raises `PROPERTY_VALUE` for a limit or cursor that is none.
    """
    limit = LIMIT.number(call.query) or LIMIT_DEFAULT
    rows = await tx.all(sql, *_after(call.query, first), limit + 1, *args)
    answer: dict[str, Any] = {"data": [shown(row) for row in rows[:limit]]}
    if len(rows) > limit:
        answer["next"] = ".".join(str(part) for part in rows[limit - 1][: len(first)])
    return Answer(200, answer)


def slice_of(
    call: Call, rows: Sequence[T], number_of: Callable[[T], int], shown: Callable[[T], dict[str, Any]]
) -> Answer:
    """One page of something small that is read whole. Raises `PROPERTY_VALUE` as `page` does."""
    limit, after = LIMIT.number(call.query) or LIMIT_DEFAULT, _after(call.query, (0,))[0]
    rest = sorted((row for row in rows if number_of(row) > int(after)), key=number_of)
    answer: dict[str, Any] = {"data": [shown(row) for row in rest[:limit]]}
    if len(rest) > limit:
        answer["next"] = str(number_of(rest[limit - 1]))
    return Answer(200, answer)


def sellers(query: Mapping[str, str]) -> tuple[int, int]:
    """The first and the last seller that `?seller=` asks for: one, or all. Raises `PROPERTY_VALUE`."""
    given = query.get("seller")
    if given is None:
        return 0, NUMBER_MAX
    if not _ID.fullmatch(given):
        raise PROPERTY_VALUE.with_reason("seller is not a number", "'seller' - must be a whole number")
    return int(given), int(given)


def choice(query: Mapping[str, str], name: str, words: Sequence[str]) -> str:
    """A query parameter that is one of some words; nothing, where it was left out. Raises `PROPERTY_VALUE`."""
    given = query.get(name)
    if given is not None and given not in words:
        raise PROPERTY_VALUE.with_reason(f"unknown {name}", f"'{name}' - must be one of {', '.join(words)}")
    return given or ""


def id_in_path(text: str) -> int:
    """The number in a path; what is none is nobody's."""
    return int(text) if _ID.fullmatch(text) else -1


def _after(query: Mapping[str, str], first: Key) -> Key:
    cursor = query.get("after")
    if cursor is None:
        return first
    if not re.fullmatch(_cursor_pattern(tuple(map(type, first))), cursor):
        raise PROPERTY_VALUE.with_reason("cursor is none of ours", "'after' - must be the `next` of a page")
    parts = cursor.split(".", len(first) - 1)
    return tuple(int(part) if isinstance(place, int) else part for place, part in zip(first, parts, strict=True))


@cache
def _cursor_pattern(kinds: tuple[type, ...]) -> str:
    return r"\.".join("[0-9]{1,18}" if kind is int else "[!-~]{1,100}" for kind in kinds)
