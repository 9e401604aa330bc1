"""The screen of all orders: stuck ones, filters in the address, totals, and the export as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from paydesk.console import statuses
from paydesk.console.api import Document, listed
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import render, screen
from paydesk.operators.list_pages import address, columns_of, filters_in, next_page
from paydesk.operators.orders.lists import CONDITIONS_OF_STATE
from paydesk.operators.orders.operations import LIST
from paydesk.operators.orders.rows import totals
from paydesk.platform.operation import Answer
from paydesk.platform.web import html

HERE, CSV_PATH = f"{PATH}/orders", f"{PATH}/orders.csv"
CSV = "text/csv; charset=utf-8"
ROWS, TERMINALS_MAX = 50, 20
NAMES_CHARACTERS_MAX = 100
FILTERS = (
    *("status", "live", "external_reference", "last_digits", "terminal_id", "payer_email", "application", "seller"),
    *("since", "until"),
)
"""The parameters of the address that select orders."""
STATUSES = {name: statuses.order_look(name, name).word for name in CONDITIONS_OF_STATE}
"""The choices of the filter `status`: the words that the list has."""
RARE_FILTERS = ("payer_email", "application", "seller", "live")
"""The fields of the form that are folded away while they are empty."""
STUCK = ("outcome_unknown", "order_stuck", "cancel_unanswered")
"""The kinds of items about orders that are not final."""


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the orders, newest first."""
    chosen, after = filters_in(request, FILTERS), request.query.get("after", "")
    unknown = {name: value for name, value in request.query.items() if value and name not in (*FILTERS, "after")}
    if len(chosen) + bool(after) + len(unknown) < len(request.query):
        # A form sends empty fields too: an address without them can be read and shared.
        return html.redirect(address(HERE, {**chosen, **unknown}, after=after))
    terminals = await _terminals(request, chosen)
    if len(terminals) == 1 and terminals[0] != chosen["terminal_id"]:
        return html.redirect(address(HERE, {**chosen, "terminal_id": terminals[0], **unknown}))
    page: Document = {"data": []}
    refused, stuck = None, []
    if unknown:  # Without them the list would have other orders.
        names, known = ", ".join(unknown), ", ".join(FILTERS)
        message = f"The list has no filter {names[:NAMES_CHARACTERS_MAX]}. The filters in its address are {known}."
        refused = request.refusal(400, "unsupported_properties", message)
    elif len(terminals) < 2:
        page, refused = await listed(request.api.get("orders", **_sent(chosen), after=after, limit=ROWS))
    if not request.query:
        attention = await request.api.get("attention")
        stuck = sorted((one for one in attention["data"] if one["kind"] in STUCK), key=itemgetter("since_date"))
    return render(
        request,
        "orders/list.html",
        section="orders",
        title="Orders",
        live_on="terminal",
        rows=page["data"],
        columns=columns_of(LIST, "status_detail", "reason"),
        totals=totals(page["data"]),
        stuck=stuck,
        filters=chosen,
        is_open=any(name in chosen for name in RARE_FILTERS),
        by={one.name: one for one in LIST.query},
        statuses=STATUSES,
        terminals=[(one, address(HERE, {**chosen, "terminal_id": one})) for one in terminals[:TERMINALS_MAX]],
        has_more_terminals=len(terminals) > TERMINALS_MAX,
        refused=refused,
        after=after,
        older=next_page(HERE, chosen, page),
        newest=address(HERE, chosen) if after else "",
        csv=address(CSV_PATH, chosen) if refused is None and len(terminals) < 2 else "",
        here=HERE,
    )


@screen
async def export(request: ConsoleRequest) -> Answer:
    """Return the newest orders as CSV."""
    reply = await request.api.text("exports/orders", **_sent(filters_in(request, FILTERS)))
    headers = (("content-disposition", reply.headers["content-disposition"]), ("cache-control", "no-store"))
    return Answer(200, reply.body, headers, CSV)


def _sent(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the request: the choices of the filter `status` are states there."""
    is_state = chosen.get("status") in CONDITIONS_OF_STATE
    return {"state" if name == "status" and is_state else name: value for name, value in chosen.items()}


async def _terminals(request: ConsoleRequest, chosen: Mapping[str, str]) -> list[str]:
    """Return the ids of the terminals that the filter names: by an id, a part of it, or a place's name.

    There are none without the filter, nor of a deleted terminal.
    """
    text = chosen.get("terminal_id", "")
    if not text:
        return []
    terminals, _ = await listed(
        request.api.get("terminals", q=text, seller=chosen.get("seller"), limit=TERMINALS_MAX + 1)
    )
    identities = [str(one["id"]) for one in terminals["data"]]
    return next(([one] for one in identities if one.lower() == text.lower()), identities)
