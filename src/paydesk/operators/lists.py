"""Paged lists: at most `limit` rows after a cursor, which is the key of the last row of the previous page."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from paydesk.core.ids import NUMBER_PATTERN
from paydesk.core.lifecycle import Lifecycle
from paydesk.core.response import Closed
from paydesk.core.text import characters
from paydesk.operators.words import Shown
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row, Transaction

LIMIT_MAX = 200
NUMBER_MAX = 2**63 - 1
AFTER, _CURSOR_RULE = "after", "must be the `next` of a page"

LIMIT = Query(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_MAX},
    "The maximum number of rows.",
)
OF_APPLICATION = Query(
    "application",
    {"type": "string", "pattern": NUMBER_PATTERN},
    "Only those of this application.",
    rule="must be the client_id of an application",
    shown=Shown("Application", metavar="CLIENT_ID"),
)
TEXT_CHARACTERS_MAX = 200
TEXT = {"type": "string", "maxLength": TEXT_CHARACTERS_MAX, "pattern": characters.PATTERN}
"""The schema of what `text` accepts."""
ELLIPSIS = "…"
OF_SELLER = Query(
    "seller",
    {"type": "string", "pattern": "^[0-9]{1,15}$"},
    "Only rows of this seller.",
    rule="must be a whole number",
    shown=Shown("Seller", metavar="USER_ID"),
)
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
    schema = {"type": "string", "pattern": f"^{_cursor_pattern(key)}$"}
    return LIMIT, Query(AFTER, schema, "The `next` of the previous page.", rule=_CURSOR_RULE)


@dataclass(frozen=True, slots=True)
class Pages:
    """A paged list: the type of its pages, the function that returns one, its query parameters, and its order."""

    answer: Any
    find: Callable[[Call, Filters], Awaitable[Answer]]
    query: tuple[Query, ...]
    description: str = ""

    async def handler(self, call: Call) -> Answer:
        """Return a page. Raises a refusal that names every invalid parameter."""
        return await self.find(call, Filters(self.query, call.query))


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

    async def find(call: Call, filters: Filters) -> Answer:
        if not is_by_seller:
            return await page(call, filters, sql, key, document)
        first, last = sellers(filters)
        return await page(call, filters, sql, (first, *key[1:]), document, last)

    selection = (OF_SELLER,) if is_by_seller else ()
    order = description or ("By seller and id." if is_by_seller else "By id.")
    return Pages(Page[item], find, (*selection, *paging(key)), order)  # type: ignore[valid-type]


async def page(
    call: Call, filters: Filters, sql: str, first: Key, document: Callable[[Row], Any], *args: Any
) -> Answer:
    """Return one page. `sql` takes the key to start after, the limit and `args`; its rows begin with their key.

    `first` is a key that sorts before all others. Raises a refusal that names every invalid parameter.
    """
    key = after(filters, first)
    filters.refuse_faults()
    rows, last = await rows_after(call.tx, sql, key, filters.get("limit"), *args)
    return Answer(200, Page([document(row) for row in rows], None if last is None else written(last)))


async def rows_after(tx: Transaction, sql: str, key: Key, limit: int, *args: Any) -> tuple[Sequence[Row], Key | None]:
    """Return the rows of a page, and the last one's key if there is another page. The rows of `sql` begin with it."""
    rows = await tx.all(sql, *key, limit + 1, *args)
    return rows[:limit], tuple(rows[limit - 1][: len(key)]) if len(rows) > limit else None


def written(key: Key) -> str:
    """Return the cursor of a key."""
    return ".".join(map(str, key))


def id_of(pattern: str | re.Pattern[str], rule: str, *words: str) -> Callable[[str], str]:
    """Return the check of a parameter that is an id, or one of these words, in upper or lower case."""

    def check(sent: str) -> str:
        if sent.lower() in words:
            return sent.lower()
        if not re.fullmatch(pattern, sent.upper()):
            raise ValueError(rule)
        return sent.upper()

    return check


def of_status(lifecycle: Lifecycle) -> Query:
    """Return the filter of a list whose rows have this lifecycle."""
    names = list(lifecycle.names)
    shown = Shown("Status", help=f"{', '.join(names[:-1])} or {names[-1]}.")
    return Query("status", {"enum": names}, "Only rows with this status.", shown=shown)


def of_live(noun: str) -> Query:
    """Return the filter of a list whose rows are live or for tests."""
    shown = Shown(
        "Kind",
        labels={"true": "Live", "false": "Test"},
        option="--live/--test",
        help=f"Only live {noun}, or only test {noun}.",
    )
    description = f"Only live {noun} (`true`) or only test {noun} (`false`)."
    return Query("live", {"type": "boolean"}, description, shown=shown)


def sellers(filters: Filters) -> tuple[int, int]:
    """Return the first and last seller id that `?seller=` selects: one, or all."""
    seller_id = filters.get(OF_SELLER.name)
    return (0, NUMBER_MAX) if seller_id is None else (int(seller_id), int(seller_id))


def id_in_path(text: str) -> int:
    """Return the number in a path, or -1, which no row has, when it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1


def text(sent: str) -> str:
    """Return a text without the spaces around it. Raises `ValueError`."""
    if len(sent) > TEXT_CHARACTERS_MAX:
        raise ValueError(f"must have at most {TEXT_CHARACTERS_MAX} characters")
    if characters.has_forbidden(sent):
        raise ValueError(characters.RULE)
    return sent.strip()


def containing(sought: str) -> str:
    """Return the pattern, with `!` as its escape, of texts in lower case that contain this one.

    An ellipsis stands for any characters: pages shorten ids like that.
    """
    escaped = sought.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped.replace('...', ELLIPSIS).replace(ELLIPSIS, '%')}%"


def after(filters: Filters, first: Key) -> Key:
    """Return the key of the cursor, by default `first`. Adds the fault of an invalid cursor."""
    cursor = re.fullmatch(_cursor_pattern(first), filters.get(AFTER, ""))
    if cursor is None:
        if AFTER in filters:
            filters.fault(AFTER, _CURSOR_RULE)
        return first
    return tuple(
        int(part) if isinstance(place, int) else part for place, part in zip(first, cursor.groups(), strict=True)
    )


def _cursor_pattern(first: Key) -> str:
    return r"\.".join("([0-9]{1,18})" if isinstance(place, int) else "([!-~]{1,100})" for place in first)
