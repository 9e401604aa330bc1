"""The screens of the terminals: all of them with what holds each, and one with what it waits for and its orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from paydesk.console.api import ApiRefused, listed
from paydesk.console.attention_items import ABOUT_TERMINALS, Item, item_of
from paydesk.console.lists import columns_of
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, problem, render, screen
from paydesk.console.terminal_looks import KINDS, PRESENCES
from paydesk.operation import Answer, Query
from paydesk.operators.orders.operations import LIST
from paydesk.operators.orders.waiting import RELEASABLE
from paydesk.operators.terminals import operations
from paydesk.operators.terminals.fields import MODES, serial_of
from paydesk.web import html

HERE, SECTION = f"{PATH}/terminals", "terminals"
ROWS, ORDERS = 40, 10
"""The terminals of a page, of which one form can set the mode, and the last orders of a terminal."""
BY = {one.name: one for one in operations.LIST.query if one.name in ("q", "presence", "mode", "live", "seller")}
"""The parameters of the list that the page has fields for."""
REFRESH_SECONDS = 15
"""A terminal that goes offline causes no hint: pages with terminals fetch their live part this often."""


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the terminals, and first what needs a person about them."""
    chosen, after = filters(request.query), request.query.get("after", "")
    if len(chosen) + bool(after) < len(request.query):
        # A form sends empty fields too: an address without them can be read and shared.
        return html.redirect(_address(chosen, after=after))
    found, refused = await listed(request.api.get("terminals", **chosen, after=after, limit=ROWS))
    terminals = found["data"]
    has_sellers = len({terminal["seller_id"] for terminal in terminals}) > 1
    return render(
        request,
        "terminals.html",
        section=SECTION,
        title="Terminals",
        live_on="terminal",
        live_every=REFRESH_SECONDS,
        rows=terminals,
        columns=columns_of(operations.LIST, *(() if has_sellers else ("seller_name",))),
        counts=_counts(terminals),
        items=[] if chosen or after else await _needs(request),
        by=BY,
        filters=chosen,
        refused=refused,
        newest=_address(chosen) if after else "",
        more=_address(chosen, after=found["next"]) if "next" in found else "",
        many=_address(chosen, f"{HERE}/modes", after=after) if len(terminals) > 1 else "",
        here=HERE,
    )


@screen
async def show_one(request: ConsoleRequest) -> Answer:
    """Show a terminal."""
    try:
        terminal = await request.api.get("terminals/{}", request.path)
    except ApiRefused as refused:
        if refused.status != 404:
            raise
        return problem(request, _missing(request.path, refused), SECTION, (_orders_of(request.path), "Its orders"))
    slot = (await request.api.get("terminals/{}/queue", request.path)).get("current")
    orders = await request.api.get("orders", terminal_id=request.path, limit=ORDERS)
    return render(
        request,
        "terminal.html",
        section=SECTION,
        title=serial_of(terminal["id"]),
        live_on=f"terminal:{terminal['id']}",
        live_every=REFRESH_SECONDS,
        terminal=terminal,
        slot=slot,
        releasable=RELEASABLE,
        modes=MODES,
        kinds=KINDS,
        rows=orders["data"],
        columns=columns_of(LIST, "status", "terminal", "card"),
        has_more="next" in orders,
        here=f"{HERE}/{terminal['id']}",
    )


def _missing(terminal_id: str, refused: ApiRefused) -> ApiRefused:
    """Return the refusal of a terminal that is not there, for an operator who followed a link."""
    message = f"There is no terminal {terminal_id[:80]}. If it was deleted, its orders are still here."
    return ApiRefused(refused.status, refused.code, message, (), refused.request_id)


def _orders_of(terminal_id: str) -> str:
    return f"{PATH}/orders?{urlencode({'terminal_id': terminal_id})}"


def filters(query: Mapping[str, str]) -> dict[str, str]:
    """Return the filters in an address, without empty ones."""
    return {name: value for name in BY if (value := query.get(name, "").strip())}


def _counts(terminals: Sequence[Mapping[str, str]]) -> str:
    """Return how many of the terminals have each presence, in a few words."""
    found = [(sum(one["presence"] == name for one in terminals), look.word) for name, look in PRESENCES.items()]
    return " · ".join(f"{count} {word.lower()}" for count, word in found if count)


async def _needs(request: ConsoleRequest) -> list[Item]:
    """Return what needs a person about terminals, the most urgent first."""
    found = await request.api.get("attention")
    return [item_of(one, request.now_ms) for one in found["data"] if one["kind"] in ABOUT_TERMINALS]


def _address(chosen: Mapping[str, str], path: str = HERE, **more: str) -> str:
    sent = {name: value for name, value in {**chosen, **more}.items() if value}
    return f"{path}?{urlencode(sent)}" if sent else path


QUERY = tuple(Query(name, {"type": "string"}, "As in `GET /operator/v1/terminals`.") for name in (*BY, "after"))

OPERATIONS = (
    page("/terminals", show, query=QUERY),
    page("/terminals/{terminal_id}", show_one),
)
