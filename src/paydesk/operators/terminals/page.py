"""The screens of the terminals: all of them with what holds each, and one with what it waits for and its orders."""

from __future__ import annotations

from paydesk.console.api import ApiRefused, listed
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, problem, render, screen
from paydesk.operators.attention.items import ABOUT_TERMINALS
from paydesk.operators.list_pages import address, columns_of, filters_in, next_page, queries
from paydesk.operators.orders.operations import LIST
from paydesk.operators.orders.waiting import RELEASABLE
from paydesk.operators.terminals import operations
from paydesk.operators.terminals.fields import MODES, serial_of
from paydesk.operators.terminals.looks import KINDS, PRESENCES
from paydesk.platform.operation import Answer
from paydesk.platform.web import html

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
    chosen, after = filters_in(request, BY), request.query.get("after", "")
    if len(chosen) + bool(after) < len(request.query):
        # A form sends empty fields too: an address without them can be read and shared.
        return html.redirect(address(HERE, chosen, after=after))
    listing, refused = await listed(request.api.get("terminals", **chosen, after=after, limit=ROWS))
    terminals = listing["data"]
    has_sellers = len({terminal["seller_id"] for terminal in terminals}) > 1
    attention = await request.api.get("attention") if not chosen and not after else {"data": []}
    counts = [(sum(one["presence"] == name for one in terminals), look.word) for name, look in PRESENCES.items()]
    return render(
        request,
        "terminals/list.html",
        section=SECTION,
        title="Terminals",
        live_on="terminal",
        live_every=REFRESH_SECONDS,
        rows=terminals,
        columns=columns_of(operations.LIST, *(() if has_sellers else ("seller_name",))),
        counts=" · ".join(f"{count} {word.lower()}" for count, word in counts if count),
        items=[one for one in attention["data"] if one["kind"] in ABOUT_TERMINALS],
        by=BY,
        filters=chosen,
        refused=refused,
        newest=address(HERE, chosen) if after else "",
        more=next_page(HERE, chosen, listing),
        many=address(f"{HERE}/modes", chosen, after=after) if len(terminals) > 1 else "",
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
        message = f"There is no terminal {request.path[:80]}. If it was deleted, its orders are still here."
        missing = request.refusal(refused.status, refused.code, message)
        orders_path = address(f"{PATH}/orders", {"terminal_id": request.path})
        return problem(request, missing, SECTION, (orders_path, "Its orders"))
    slot = (await request.api.get("terminals/{}/queue", request.path)).get("current")
    orders = await request.api.get("orders", terminal_id=request.path, limit=ORDERS)
    return render(
        request,
        "terminals/page.html",
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


QUERY = queries("terminals", (*BY, "after"))

OPERATIONS = (
    page("/terminals", show, query=QUERY),
    page("/terminals/{terminal_id}", show_one),
)
