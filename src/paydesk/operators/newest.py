"""Lists of what happened, newest first, over all sellers or of one: a page is read along an index."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from paydesk.operators import lists
from paydesk.operators.lists import NUMBER_MAX, OF_SELLER, Item, Key, Page, Pages
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row

BY_ID: Key = ("ZZZZ", NUMBER_MAX)
"""The first key of lists by an id that contains its time: the id and the seller. No id sorts after it."""
BY_TIME: Key = (NUMBER_MAX, NUMBER_MAX, "")
"""The first key of lists by time: the time, the seller and the id."""
OF_ALL = "{}seller_id > 0 AND CAST({} AS bigint) = 0"
"""The condition of indexes of all sellers, and that the seller is 0. Formatted with the table and the parameter."""
DESCRIPTION = "Newest first, over all sellers."


class Newest(NamedTuple):
    """The statements of a list. Both take the key to start after, the limit, the seller and the filters.

    An index has the rows of all sellers in the list's order, another one those of each seller.
    """

    all: str
    of_seller: str

    def chosen(self, filters: Filters) -> tuple[str, int]:
        """Return the statement that the filters choose, and its seller."""
        seller_id, last = lists.sellers(filters)
        return self.of_seller if seller_id == last else self.all, seller_id


def newest(table: str, columns: str, key: Key, filters: str, indexed: str = "1 = 1", *, few: bool = False) -> Newest:
    """Return the statements of a table. `columns` begin with those of the key, which is `BY_ID` or `BY_TIME`.

    `indexed` is a condition for which there is an index too. `few`: so few rows have it, by an index that begins with
    the seller, that they are sorted.
    """
    first, *others = re.findall(r"\w+", columns)[: len(key)]
    # SQLite prefers an index that sorts to one that selects, but has none for an expression.
    names = [f"({table}.{first} || '')" if few else f"{table}.{first}", *(f"{table}.{name}" for name in others)]
    places = [f"${place}" for place in range(1, len(key) + 3)]
    limit, seller = places[-2:]

    def listed(whose: str) -> str:
        # Without the CASE, PostgreSQL expects few rows to match the filters, and sorts all rows to find them.
        return f"""
SELECT {columns} FROM {table}
 WHERE {whose} AND ({", ".join(names)}) < ({", ".join(places[:-2])}) AND {indexed}
   AND CASE WHEN {filters} THEN 1 ELSE 0 END <> 0
 ORDER BY {", ".join(f"{name} DESC" for name in names)} LIMIT {limit}"""

    each = f"{table}.seller_id IN (SELECT s.seller_id FROM sellers s WHERE s.seller_id >= {seller})"
    return Newest(listed(each if few else OF_ALL.format(f"{table}.", seller)), listed(f"{table}.seller_id = {seller}"))


def pages(item: type[Item], statements: Newest, document: Callable[[Row], Item], key: Key, *chosen: Query) -> Pages:
    """Return the list of the rows, newest first. `key` is `BY_ID` or `BY_TIME`; `chosen` are enumerated texts."""

    async def find(call: Call, filters: Filters) -> Answer:
        return await page(call, filters, statements, key, document, *(str(filters.get(one.name, "")) for one in chosen))

    query = (*chosen, OF_SELLER, *lists.paging(key))
    return Pages(Page[item], find, query, DESCRIPTION)  # type: ignore[valid-type]


async def page(
    call: Call, filters: Filters, statements: Newest, first: Key, document: Callable[[Row], Any], *args: Any
) -> Answer:
    """Return one page of one seller's rows or of all. Raises a refusal that names every invalid parameter."""
    sql, seller_id = statements.chosen(filters)
    return await lists.page(call, filters, sql, first, document, seller_id, *args)
