"""Paged lists: at most `limit` rows after a cursor, which is the key of the last row of the previous page."""

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

LIMIT = Query(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    "The maximum number of rows.",
)
OF_SELLER = Query("seller", {"type": "string", "pattern": "^[0-9]{1,15}$"}, "Only rows of this seller.")

T = TypeVar("T")
Key = tuple[int | str, ...]


def paging(key: Key) -> tuple[Query, Query]:
    """Return the paging parameters of a list whose row keys have the types of `key`."""
    after = {"type": "string", "pattern": f"^{_cursor_pattern(tuple(map(type, key)))}$"}
    return LIMIT, Query("after", after, "The `next` of the previous page.")


async def page(tx: Transaction, call: Call, sql: str, first: Key, present: Callable[[Row], Any], *args: Any) -> Answer:
    """Return one page. `sql` takes the key to start after, the limit and `args`; its rows begin with their key.

    `first` is a key that sorts before all others. Raises `PROPERTY_VALUE` for an invalid limit or cursor.
    """
    limit = LIMIT.number(call.query) or LIMIT_DEFAULT
    rows = await tx.all(sql, *_after(call.query, first), limit + 1, *args)
    document: dict[str, Any] = {"data": [present(row) for row in rows[:limit]]}
    if len(rows) > limit:
        document["next"] = ".".join(str(part) for part in rows[limit - 1][: len(first)])
    return Answer(200, document)


def page_of_all(
    call: Call, rows: Sequence[T], number_of: Callable[[T], int], present: Callable[[T], dict[str, Any]]
) -> Answer:
    """Return one page of a small table that was read whole. Raises `PROPERTY_VALUE` as `page` does."""
    limit, after = LIMIT.number(call.query) or LIMIT_DEFAULT, _after(call.query, (0,))[0]
    rest = sorted((row for row in rows if number_of(row) > int(after)), key=number_of)
    document: dict[str, Any] = {"data": [present(row) for row in rest[:limit]]}
    if len(rest) > limit:
        document["next"] = str(number_of(rest[limit - 1]))
    return Answer(200, document)


def sellers(query: Mapping[str, str]) -> tuple[int, int]:
    """Return the first and last seller id that `?seller=` selects: one, or all. Raises `PROPERTY_VALUE`."""
    text = query.get("seller")
    if text is None:
        return 0, NUMBER_MAX
    seller_id = id_in_path(text)
    if seller_id < 0:
        raise PROPERTY_VALUE.with_reason("seller is not a number", "'seller' - must be a whole number")
    return seller_id, seller_id


def choice(query: Mapping[str, str], name: str, values: Sequence[str]) -> str:
    """Return an enumerated query parameter, or an empty text when it is absent. Raises `PROPERTY_VALUE`."""
    text = query.get(name)
    if text is not None and text not in values:
        raise PROPERTY_VALUE.with_reason(f"unknown {name}", f"'{name}' - must be one of {', '.join(values)}")
    return text or ""


def id_in_path(text: str) -> int:
    """Return the number in a path, or -1, which no row has, when it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1


def _after(query: Mapping[str, str], first: Key) -> Key:
    cursor = query.get("after")
    if cursor is None:
        return first
    if not re.fullmatch(_cursor_pattern(tuple(map(type, first))), cursor):
        raise PROPERTY_VALUE.with_reason("invalid cursor", "'after' - must be the `next` of a page")
    parts = cursor.split(".", len(first) - 1)
    return tuple(int(part) if isinstance(place, int) else part for place, part in zip(first, parts, strict=True))


@cache
def _cursor_pattern(kinds: tuple[type, ...]) -> str:
    return r"\.".join("[0-9]{1,18}" if kind is int else "[!-~]{1,100}" for kind in kinds)
