"""Paged lists: at most `limit` rows after a cursor, which is the key of the last row of the previous page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.lifecycle import Lifecycle
from paydesk.core.response import Closed
from paydesk.operation import Answer, Call, Handler, Query
from paydesk.storage.database import Row, Transaction

LIMIT_DEFAULT = LIMIT_MAX = 200
NUMBER_MAX = 2**63 - 1

LIMIT = Query(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    "The maximum number of rows.",
)
TEXT_CHARACTERS_MAX = 200
ELLIPSIS = "…"
OF_SELLER = Query("seller", {"type": "string", "pattern": "^[0-9]{1,15}$"}, "Only rows of this seller.")

Item = TypeVar("Item")
Key = tuple[int | str, ...]
BY_SELLER: Key = (0, "")
"""The first key of lists by seller and id."""


class Page(Closed, Generic[Item], frozen=True):
    """A page of a list."""

    data: list[Item]
    next: str | None = None
    """The cursor of the next page."""


def paging(key: Key) -> tuple[Query, Query]:
    """Return the paging parameters of a list whose row keys have the types of `key`."""
    after = {"type": "string", "pattern": f"^{_cursor_pattern(tuple(map(type, key)))}$"}
    return LIMIT, Query("after", after, "The `next` of the previous page.")


@dataclass(frozen=True, slots=True)
class Pages:
    """A paged list: the type of its pages, the handler that returns one, its query parameters, and its order."""

    answer: Any
    handler: Handler
    query: tuple[Query, ...]
    description: str = ""


def pages(
    item: type[Item],
    sql: str,
    document: Callable[[Row], Item],
    key: Key = BY_SELLER,
    *,
    description: str = "",
) -> Pages:
    """Return the list of the rows of `sql` in its order.

    `key` sorts before all others; one of two parts begins with the seller's id. `sql` takes the key to start after and
    the limit, in lists by seller also the last seller.
    """
    is_by_seller = len(key) > 1

    async def handler(call: Call) -> Answer:
        if not is_by_seller:
            return await page(call, sql, key, document)
        first, last = sellers(call.query)
        return await page(call, sql, (first, *key[1:]), document, last)

    selection = (OF_SELLER,) if is_by_seller else ()
    order = description or ("By seller and id." if is_by_seller else "By id.")
    return Pages(Page[item], handler, (*selection, *paging(key)), order)  # type: ignore[valid-type]


async def page(call: Call, sql: str, first: Key, document: Callable[[Row], Any], *args: Any) -> Answer:
    """Return one page. `sql` takes the key to start after, the limit and `args`; its rows begin with their key.

    `first` is a key that sorts before all others. Raises `PROPERTY_VALUE` for an invalid limit or cursor.
    """
    limit = LIMIT.number(call.query) or LIMIT_DEFAULT
    rows, cursor = await rows_after(call.tx, sql, after(call.query, first), limit, *args)
    return Answer(200, Page([document(row) for row in rows], cursor))


async def rows_after(tx: Transaction, sql: str, key: Key, limit: int, *args: Any) -> tuple[Sequence[Row], str | None]:
    """Return the rows of a page, and the cursor of the next one. The rows of `sql` begin with their key."""
    rows = await tx.all(sql, *key, limit + 1, *args)
    cursor = ".".join(str(part) for part in rows[limit - 1][: len(key)]) if len(rows) > limit else None
    return rows[:limit], cursor


def of_status(lifecycle: Lifecycle) -> Query:
    """Return the filter of a list whose rows have this lifecycle."""
    return Query("status", {"enum": list(lifecycle.names)}, "Only rows with this status.")


def sellers(query: Mapping[str, str]) -> tuple[int, int]:
    """Return the first and last seller id that `?seller=` selects: one, or all. Raises `PROPERTY_VALUE`."""
    text = query.get("seller")
    if text is None:
        return 0, NUMBER_MAX
    seller_id = id_in_path(text)
    if seller_id < 0:
        raise PROPERTY_VALUE.with_reason("seller is not a number", "'seller' - must be a whole number")
    return seller_id, seller_id


def id_in_path(text: str) -> int:
    """Return the number in a path, or -1, which no row has, when it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1


def choice(query: Mapping[str, str], one: Query) -> str:
    """Return an enumerated query parameter, or an empty text when it is absent. Raises `PROPERTY_VALUE`."""
    text, values = query.get(one.name, ""), one.schema.get("enum", ("true", "false"))
    if one.name in query and text not in values:
        raise PROPERTY_VALUE.with_reason(f"unknown {one.name}", f"'{one.name}' - must be one of {', '.join(values)}")
    return text


def text(query: Mapping[str, str], one: Query) -> str:
    """Return a text without the spaces around it, empty when it is absent. Raises `PROPERTY_VALUE`."""
    sent = query.get(one.name, "").strip()
    if len(sent) > TEXT_CHARACTERS_MAX:
        rule = f"must have at most {TEXT_CHARACTERS_MAX} characters"
        raise PROPERTY_VALUE.with_reason("the text is too long", f"'{one.name}' - {rule}")
    if not sent.isprintable():
        raise PROPERTY_VALUE.with_reason("control characters", f"'{one.name}' - must not contain control characters")
    return sent


def containing(sought: str) -> str:
    """Return the pattern, with `!` as its escape, of texts in lower case that contain this one.

    An ellipsis stands for any characters: pages shorten ids like that.
    """
    escaped = sought.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped.replace('...', ELLIPSIS).replace(ELLIPSIS, '%')}%"


def after(query: Mapping[str, str], first: Key) -> Key:
    """Return the key of the cursor, by default `first`. Raises `PROPERTY_VALUE` for an invalid cursor."""
    cursor = query.get("after")
    if cursor is None:
        return first
    found = re.fullmatch(_cursor_pattern(tuple(map(type, first))), cursor)
    if found is None:
        raise PROPERTY_VALUE.with_reason("invalid cursor", "'after' - must be the `next` of a page")
    return tuple(
        int(part) if isinstance(place, int) else part for place, part in zip(first, found.groups(), strict=True)
    )


@cache
def _cursor_pattern(kinds: tuple[type, ...]) -> str:
    return r"\.".join("([0-9]{1,18})" if kind is int else "([!-~]{1,100})" for kind in kinds)
