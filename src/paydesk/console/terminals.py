"""The screens of the terminals: all of them with what holds each, and one with what it waits for and its orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from paydesk.console import order_rows
from paydesk.console.api import ApiRefused, listed
from paydesk.console.attention_items import ABOUT_TERMINALS, Item, item_of
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, problem, render, screen
from paydesk.console.terminal_looks import KINDS, PRESENCES, RELEASABLE, page_of, row_of
from paydesk.operation import Answer, Query
from paydesk.operators.terminals.fields import MODES, TAKING_ORDERS
from paydesk.web import html, statuses

HERE, SECTION = f"{PATH}/terminals", "terminals"
ROWS, ORDERS = 40, 10
"""The terminals of a page, of which one form can set the mode, and the last orders of a terminal."""
FILTERS = ("q", "presence", "mode", "live", "seller")
"""The parameters of the address that select terminals."""
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
    rows = [row_of(terminal) for terminal in found["data"]]
    return render(
        request,
        "terminals.html",
        section=SECTION,
        title="Terminals",
        live_on="terminal",
        live_every=REFRESH_SECONDS,
        rows=rows,
        counts=_counts(found["data"]),
        has_sellers=len({row.seller for row in rows}) > 1,
        items=[] if chosen or after else await _needs(request),
        filters=chosen,
        presences=PRESENCES,
        modes=(*MODES, "UNDEFINED"),
        refused=refused,
        newest=_address(chosen) if after else "",
        more=_address(chosen, after=found["next"]) if "next" in found else "",
        many=_address(chosen, f"{HERE}/modes", after=after) if len(rows) > 1 else "",
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
    row, is_printing = row_of(terminal), slot is not None and slot["type"] == "print"
    return render(
        request,
        "terminal.html",
        section=SECTION,
        title=row.serial,
        live_on=f"terminal:{row.id}",
        live_every=REFRESH_SECONDS,
        terminal=terminal,
        row=row,
        slot=slot,
        is_printing=is_printing,
        slot_look=None if slot is None or is_printing else statuses.order_look(slot["status"]),
        can_release=request.may_change and slot is not None and slot["waits_for"] in RELEASABLE,
        takes_orders=terminal["operating_mode"] in TAKING_ORDERS,
        modes=MODES,
        kinds=KINDS,
        rows=[order_rows.row_of(order) for order in orders["data"]],
        has_more="next" in orders,
        page_path=page_of(terminal),
        here=f"{HERE}/{row.id}",
    )


def _missing(terminal_id: str, refused: ApiRefused) -> ApiRefused:
    """Return the refusal of a terminal that is not there, for an operator who followed a link."""
    message = f"There is no terminal {terminal_id[:80]}. If it was deleted, its orders are still here."
    return ApiRefused(refused.status, refused.code, message, (), refused.request_id)


def _orders_of(terminal_id: str) -> str:
    return f"{PATH}/orders?{urlencode({'terminal_id': terminal_id})}"


def filters(query: Mapping[str, str]) -> dict[str, str]:
    """Return the filters in an address, without empty ones."""
    return {name: value for name in FILTERS if (value := query.get(name, "").strip())}


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


QUERY = tuple(Query(name, {"type": "string"}, "As in `GET /operator/v1/terminals`.") for name in (*FILTERS, "after"))

OPERATIONS = (
    page("/terminals", "terminals", "List the terminals", show, query=QUERY),
    page("/terminals/{terminal_id}", "terminal", "Show a terminal", show_one),
)
