"""Lists of what happened, newest first: of one seller by an index, of all sellers by merging theirs."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from paydesk.operation import Answer, Call, Query
from paydesk.operators import lists
from paydesk.operators.lists import LIMIT, LIMIT_DEFAULT, NUMBER_MAX, OF_SELLER, Item, Key, Page, Pages
from paydesk.storage.database import Row, Transaction

ROWS_MIN = 20
"""At least this many rows of a seller are read at once."""
BY_ID: Key = ("ZZZZ", NUMBER_MAX)
"""The first key of lists by an id that contains its time: the id and the seller. No id sorts after it."""
BY_TIME: Key = (NUMBER_MAX, NUMBER_MAX, "")
"""The first key of lists by time: the time, the seller and the id."""
DESCRIPTION = "Newest first, over all sellers."

# Of a row: what it is sorted by, and its id.
_KEY = 2


class Newest(NamedTuple):
    """The statements of a list. Both take a seller, the key to start after (three values), the limit and the filters.

    `heads` returns the sellers from that one on whose newest row is newest, each with what that row is sorted by.
    `rows` returns the newest rows of the seller, each with what it is sorted by and its id before its columns.
    """

    heads: str
    rows: str


def newest(
    table: str, columns: str, sorted_by: str, row_id: str, filters: str, indexed: str = "", *, few: bool = False
) -> Newest:
    """Return the statements of a table with an index on the seller and `sorted_by`; the filters' values begin at $6.

    `row_id` is the same column where `sorted_by` is an id that contains its time. `indexed` is a condition for which
    there is an index too; `few`: so few rows have it that they are sorted, and `sorted_by` is a text.
    """
    # SQLite prefers an index that sorts to one that selects, but has none for an expression.
    key = f"({table}.{sorted_by} || '')" if few else f"{table}.{sorted_by}"
    # Without the CASE, PostgreSQL expects few rows to match the filters, and sorts all rows of the seller to find them.
    after = f"""{key} <= $2
       AND ({key} < $2 OR {table}.seller_id < $3 OR ({table}.seller_id = $3 AND {table}.{row_id} < $4))
       AND CASE WHEN {filters} THEN 1 ELSE 0 END <> 0"""
    if indexed:
        after += f" AND {indexed}"
    ties = "" if row_id == sorted_by else f", {table}.{row_id} DESC"
    # One index lookup per seller.
    heads = f"""
SELECT seller_id, head FROM (
       SELECT s.seller_id,
              (SELECT {key} FROM {table} WHERE {table}.seller_id = s.seller_id AND {after}
                ORDER BY {key} DESC LIMIT 1) AS head
         FROM sellers s WHERE s.seller_id >= $1) AS newest
 WHERE head IS NOT NULL ORDER BY head DESC, seller_id DESC LIMIT $5"""
    rows = f"""
SELECT {key}, {table}.{row_id}, {columns} FROM {table}
 WHERE {table}.seller_id = $1 AND {after} ORDER BY {key} DESC{ties} LIMIT $5"""
    return Newest(heads, rows)


def pages(item: type[Item], statements: Newest, document: Callable[[Row], Item], key: Key, *filters: Query) -> Pages:
    """Return the list of the rows, newest first. `key` is `BY_ID` or `BY_TIME`; the filters are enumerated texts."""

    async def handler(call: Call) -> Answer:
        chosen = [lists.choice(call.query, one) for one in filters]
        return await page(call, statements, key, document, *chosen)

    query = (*filters, OF_SELLER, *lists.paging(key))
    return Pages(Page[item], handler, query, DESCRIPTION)  # type: ignore[valid-type]


async def page(call: Call, statements: Newest, first: Key, document: Callable[[Row], Any], *filters: Any) -> Answer:
    """Return one page of one seller's rows or of all. Raises `PROPERTY_VALUE` for an invalid parameter."""
    limit = LIMIT.number(call.query) or LIMIT_DEFAULT
    rows, cursor = await found_rows(call.tx, call.query, statements, first, limit, *filters)
    return Answer(200, Page([document(row) for row in rows], cursor))


async def found_rows(
    tx: Transaction, query: Mapping[str, str], statements: Newest, first: Key, limit: int, *filters: Any
) -> tuple[list[Row], str | None]:
    """Return the columns of a page's rows, and the cursor of the next page. Raises `PROPERTY_VALUE`."""
    # An id that rows are sorted by is also what distinguishes the rows of a seller.
    after = lists.after(query, first)
    reader = _Reader(tx, statements, (*after, after[0])[:3], filters)
    seller_id, last = lists.sellers(query)
    if seller_id == last:
        found = [(seller_id, row) for row in await reader.rows(seller_id, limit + 1)]
    else:
        found = await reader.merged(limit + 1)
    cursor = None
    if len(found) > limit:
        seller_id, row = found[limit - 1]
        cursor = ".".join(map(str, (row[0], seller_id, row[1])[: len(first)]))
    return [row[_KEY:] for _, row in found[:limit]], cursor


async def first_rows(tx: Transaction, statements: Newest, first: Key, limit: int, filters: Sequence[Any]) -> list[Row]:
    """Return the columns of the newest rows of all sellers."""
    reader = _Reader(tx, statements, (*first, first[0])[:3], filters)
    return [row[_KEY:] for _, row in await reader.merged(limit)]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the rows of a list after a key."""

    tx: Transaction
    statements: Newest
    after: Key
    filters: Sequence[Any]

    async def rows(self, seller_id: int, limit: int, last: Row | None = None) -> list[Row]:
        """Return the seller's newest rows, after the row `last` if there is one."""
        after = self.after if last is None else (last[0], seller_id, last[1])
        return list(await self.tx.all(self.statements.rows, seller_id, *after, limit, *self.filters))

    async def merged(self, limit: int) -> list[tuple[int, Row]]:
        """Return the newest rows of all sellers, each with its seller."""
        heads = await self.tx.all(self.statements.heads, 0, *self.after, limit, *self.filters)
        at_once = max(ROWS_MIN, limit // max(len(heads), 1) + 1)
        read: dict[int, deque[Row]] = {}
        # By what the next row of each seller is sorted by, the newest last.
        waiting = sorted((head, seller_id) for seller_id, head in heads)
        found: list[tuple[int, Row]] = []
        while waiting and len(found) < limit:
            _, seller_id = waiting.pop()
            if seller_id not in read:
                read[seller_id] = deque(await self.rows(seller_id, at_once))
            row = read[seller_id].popleft()
            found.append((seller_id, row))
            if not read[seller_id]:
                read[seller_id].extend(await self.rows(seller_id, at_once, row))
            if read[seller_id]:
                insort(waiting, (read[seller_id][0][0], seller_id))
        return found
