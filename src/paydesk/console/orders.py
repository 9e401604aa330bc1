"""The screen of all orders: stuck ones, filters in the address, totals, and the export as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from paydesk.console.api import ApiRefused, Document, listed
from paydesk.console.lists import columns_of
from paydesk.console.order_rows import totals
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import render, screen
from paydesk.operation import Answer
from paydesk.operators.orders.lists import CONDITIONS_OF_STATE
from paydesk.operators.orders.operations import LIST
from paydesk.web import html, statuses

HERE, CSV_PATH = f"{PATH}/orders", f"{PATH}/orders.csv"
CSV = "text/csv; charset=utf-8"
ROWS, TERMINALS_MAX = 50, 20
NAMES_CHARACTERS_MAX = 100
FILTERS = (
    *("status", "live", "external_reference", "last_digits", "terminal_id", "payer_email", "application", "seller"),
    *("since", "until"),
)
"""The parameters of the address that select orders."""
STATUSES = [(name, statuses.order_look(name, name).word) for name in CONDITIONS_OF_STATE]
"""The choices of the filter `status`: the words that the list has."""
RARE_FILTERS = ("payer_email", "application", "seller", "live")
"""The fields of the form that are folded away while they are empty."""
STUCK = ("outcome_unknown", "order_stuck", "cancel_unanswered")
"""The kinds of items about orders that are not final."""


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the orders, newest first."""
    chosen = filters(request.query)
    after = request.query.get("after", "")
    unknown = {name: value for name, value in request.query.items() if value and name not in (*FILTERS, "after")}
    if len(chosen) + bool(after) + len(unknown) < len(request.query):
        # A form sends empty fields too: an address without them can be read and shared.
        return html.redirect(_address(HERE, {**chosen, **unknown}, after=after))
    terminals = await _terminals(request, chosen)
    if len(terminals) == 1 and terminals[0] != chosen["terminal_id"]:
        return html.redirect(_address(HERE, {**chosen, "terminal_id": terminals[0], **unknown}))
    refused = _refused(request, unknown)
    page: Document = {"data": []}
    if refused is None and len(terminals) < 2:
        page, refused = await listed(request.api.get("orders", **_sent(chosen), after=after, limit=ROWS))
    stuck = [] if request.query else await _stuck(request)
    return render(
        request,
        "orders.html",
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
        terminals=[(one, _address(HERE, {**chosen, "terminal_id": one})) for one in terminals[:TERMINALS_MAX]],
        has_more_terminals=len(terminals) > TERMINALS_MAX,
        refused=refused,
        after=after,
        older=_address(HERE, chosen, after=page["next"]) if "next" in page else "",
        newest=_address(HERE, chosen) if after else "",
        csv=_address(CSV_PATH, chosen) if refused is None and len(terminals) < 2 else "",
        here=HERE,
    )


@screen
async def export(request: ConsoleRequest) -> Answer:
    """Return the newest orders as CSV."""
    reply = await request.api.text("exports/orders", **_sent(filters(request.query)))
    headers = (("content-disposition", reply.headers["content-disposition"]), ("cache-control", "no-store"))
    return Answer(200, reply.body, headers, CSV)


def filters(query: Mapping[str, str]) -> dict[str, str]:
    """Return the filters in an address, without empty ones."""
    return {name: value for name in FILTERS if (value := query.get(name, "").strip())}


def _sent(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the request: the choices of the filter `status` are states there."""
    is_state = chosen.get("status") in CONDITIONS_OF_STATE
    return {"state" if name == "status" and is_state else name: value for name, value in chosen.items()}


def _refused(request: ConsoleRequest, unknown: Mapping[str, str]) -> ApiRefused | None:
    """Return the error of an address with unknown filters: without them the list would have other orders."""
    if not unknown:
        return None
    names, known = ", ".join(unknown), ", ".join(FILTERS)
    message = f"The list has no filter {names[:NAMES_CHARACTERS_MAX]}. The filters in its address are {known}."
    return ApiRefused(400, "unsupported_properties", message, (), request.call.request_id)


async def _terminals(request: ConsoleRequest, chosen: Mapping[str, str]) -> list[str]:
    """Return the ids of the terminals that the filter names: by an id, a part of it, or a place's name.

    There are none without the filter, nor of a deleted terminal.
    """
    text = chosen.get("terminal_id", "")
    if not text:
        return []
    found, _ = await listed(request.api.get("terminals", q=text, seller=chosen.get("seller"), limit=TERMINALS_MAX + 1))
    identities = [str(one["id"]) for one in found["data"]]
    return next(([one] for one in identities if one.lower() == text.lower()), identities)


async def _stuck(request: ConsoleRequest) -> Sequence[Mapping[str, Any]]:
    """Return what needs a person about open orders, the oldest first."""
    found = await request.api.get("attention")
    return sorted((item for item in found["data"] if item["kind"] in STUCK), key=lambda item: str(item["since_date"]))


def _address(path: str, chosen: Mapping[str, str], **more: str) -> str:
    sent = {name: value for name, value in {**chosen, **more}.items() if value}
    return f"{path}?{urlencode(sent)}" if sent else path
