"""The results of the search box. A single result opens at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from paydesk.console import statuses
from paydesk.console.api import Document, listed
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.console.statuses import Look
from paydesk.operators.lists import TEXT_CHARACTERS_MAX
from paydesk.operators.search.hits import RESULTS_MAX
from paydesk.operators.search.orders import ORDERS_READ
from paydesk.operators.terminals.looks import PRESENCES
from paydesk.platform.operation import Answer, Query
from paydesk.platform.web import html

KINDS: Mapping[str, tuple[str, str]] = {
    "order": ("Order", f"{PATH}/orders/{{}}"),
    "terminal": ("Terminal", f"{PATH}/terminals/{{}}"),
    "request": ("Request", f"{PATH}/requests/{{}}"),
    "subscription": ("Subscription", f"{PATH}/webhooks/subscriptions/{{}}"),
    "delivery": ("Notification", f"{PATH}/webhooks/deliveries/{{}}"),
    "application": ("Application", f"{PATH}/applications/{{}}"),
    "seller": ("Seller", f"{PATH}/sellers/{{}}"),
}
"""The name of each type of result, and the address that it opens."""


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show the results for the text, or redirect to a single one."""
    text = request.query.get("q", "").strip()
    results: Document = {"data": []}
    refused = None
    if len(text) > TEXT_CHARACTERS_MAX:
        message = f"This text has {len(text)} characters. It must have at most {TEXT_CHARACTERS_MAX} characters."
        refused = request.refusal(400, "property_value", message)
    elif text:
        results, refused = await listed(request.api.get("search", q=text))
    hits = results["data"]
    if len(hits) == 1:
        return html.redirect(address_of(hits[0]))
    return render(
        request,
        "search/page.html",
        section="",
        title="Search",
        text=text,
        sought=text,
        hits=hits,
        kinds=KINDS,
        address_of=address_of,
        look_of=look_of,
        hits_max=RESULTS_MAX,
        orders_read=ORDERS_READ,
        refused=refused,
    )


def address_of(hit: Mapping[str, Any]) -> str:
    """Return the address of the page about a result."""
    return KINDS[hit["type"]][1].format(quote(hit["id"], safe=""))


def look_of(hit: Mapping[str, Any]) -> Look | None:
    """Return how the status of a result is shown, None without one."""
    status = hit.get("status")
    if status is None:
        return None
    match hit["type"]:
        case "order":
            return statuses.order_look(status)
        case "terminal":
            return PRESENCES.get(status)
        case "delivery":
            return statuses.look_in(statuses.DELIVERIES, status)
        case "request":
            return statuses.answer_look(int(status))
    return Look("off", "info", status.capitalize())


OPERATIONS = (page("/search", show, query=(Query("q", {"type": "string"}, "What to search for."),)),)
