"""The pages with a list, as the row of the list describes them: its columns, its filters, and what is added to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.operators.documents import Document
from paydesk.operators.forms import address_of
from paydesk.operators.words import Column
from paydesk.platform.operation import Answer, Operation, Query

ROWS = 50
"""The rows of a page."""
AFTER = Query("after", {"type": "string"}, "Where the page begins.")


def columns_of(row: Operation, *without: str) -> Sequence[Column]:
    """Return the columns of a list that pages have, without those with these paths."""
    return [column for column in row.action.words.columns if column.head and column.path not in without]


def filters_in(request: ConsoleRequest, names: Iterable[str]) -> dict[str, str]:
    """Return the filters with these names in the address, without empty ones."""
    return {name: value for name in names if (value := request.query.get(name, "").strip())}


def address(path: str, filters: Mapping[str, str], **more: str) -> str:
    """Return the address of a list with these filters, without empty ones."""
    sent = {name: value for name, value in {**filters, **more}.items() if value}
    return f"{path}?{urlencode(sent)}" if sent else path


def next_page(
    path: str, filters: Mapping[str, str], listed: Document, name: str = "after", *, fragment: str = ""
) -> str:
    """Return the address of the page after one of a list; empty if that is the last one."""
    return f"{address(path, {**filters, name: listed['next']})}{fragment}" if "next" in listed else ""


def queries(collection: str, names: Iterable[str]) -> tuple[Query, ...]:
    """Return the parameters that a page hands on to `/operator/v1`."""
    return tuple(Query(name, {"type": "string"}, f"As in `GET /operator/v1/{collection}`.") for name in names)


@dataclass(frozen=True, slots=True)
class ListScreen:
    """The page of a list. Its cells are macros of `cells.html`, which get the document of a row."""

    row: Operation
    lead: str
    """The subject of the list, in a few words."""
    empty: tuple[str, str]
    """The text of an empty list, and the command that adds the first row."""
    adds: tuple[Operation, ...] = ()
    """The rows whose forms add one."""
    live: str = ""
    every: int = 0
    """Seconds after which the page fetches its rows again, for changes without a hint; 0: never."""
    has_pages: bool = True
    """Each row has a page of its own."""
    sheet: str = "lists.css"
    table: str = ""
    """The class of the table."""
    sort: Callable[[Document], Any] | None = None
    """The key by which a list that fits on one page is sorted."""

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that the page has."""
        return columns_of(self.row)

    def page(self) -> Operation:
        """Return the row of the page."""
        noun = self.row.action.noun
        return page(noun.pages, screen(self.show), summary=f"List the {noun.collection}", query=(AFTER,))

    async def show(self, request: ConsoleRequest) -> Answer:
        """List the rows of one page."""
        noun, words = self.row.action.noun, self.row.action.words
        after = request.query.get("after")
        listing = await request.api.get(noun.collection, limit=ROWS, after=after)
        listed, here = listing["data"], f"{PATH}{noun.pages}"
        if self.sort is not None and not after and "next" not in listing:
            listed.sort(key=self.sort)
        adds = [one for one in self.adds if request.permits(one.role or "change")]
        return render(
            request,
            "list.html",
            section=noun.section or noun.collection,
            title=words.title,
            live_on=self.live or noun.collection,
            live_every=self.every,
            here=here,
            screen=self,
            rows=listed,
            key=noun.key,
            adds=[(f"{PATH}{address_of(one, one.action.words)}", one.action.words.title) for one in adds],
            is_rest=bool(after),
            more=next_page(here, {}, listing),
        )
