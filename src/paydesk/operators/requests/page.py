"""The screens of the last requests of applications and terminals: the list, and one request with its response."""

from __future__ import annotations

import msgspec

from paydesk.console.api import listed
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.core.ids import ULID_PATTERN
from paydesk.operators.list_pages import address, columns_of, filters_in, next_page, queries
from paydesk.operators.requests import curl
from paydesk.operators.requests.operations import LIST
from paydesk.platform.operation import Answer
from paydesk.platform.web import html

HERE = f"{PATH}/requests"
SECTION = "requests"
ROWS = 50
FILTERS = ("sender", "status", "method", "order", "application", "seller", "terminal", "request_id")
RARE_FILTERS = ("application", "seller")
"""The fields of the form that are folded away while they are empty."""
APPLICATIONS, BOTH = "applications", "all"
SENDERS = ((APPLICATIONS, "Applications"), ("terminals", "Terminals"), (BOTH, "Both"))
STATUSES = (("", "All"), ("failed", "Failed"), ("2xx", "2xx"), ("4xx", "4xx"), ("5xx", "5xx"))


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the requests, newest first; without any filter those of applications."""
    filters, after = filters_in(request, FILTERS), request.query.get("after", "")
    if len(filters) + bool(after) < len(request.query):
        # A form sends empty fields too: an address without them can be read and shared.
        return html.redirect(address(HERE, filters, after=after))
    if not filters and not after:
        filters = {"sender": APPLICATIONS}
    sender = filters.get("sender", BOTH)
    asked = {name: value for name, value in filters.items() if (name, value) != ("sender", BOTH)}
    listing, refused = await listed(request.api.get("requests", limit=ROWS, after=after, **asked))
    return render(
        request,
        "requests/list.html",
        section=SECTION,
        title="Requests",
        live_on="" if after else "requests",
        rows=listing["data"],
        columns=columns_of(LIST),
        dropped=listing.get("dropped", 0),
        filters=filters,
        sender=sender,
        is_filtered=filters != {"sender": APPLICATIONS},
        is_open=any(name in filters for name in RARE_FILTERS),
        senders=[(value, label, address(HERE, filters, sender=value)) for value, label in SENDERS],
        statuses=[(value, label, address(HERE, filters, status=value)) for value, label in STATUSES],
        by={one.name: one for one in LIST.query},
        refused=refused,
        older=next_page(HERE, filters, listing),
        newest=address(HERE, filters) if after else "",
        here=HERE,
    )


@screen
async def show_one(request: ConsoleRequest) -> Answer:
    """Show a request with its answer."""
    one = await request.api.get("requests/{}", request.path)
    command = curl.command(one, curl.base_url(request))
    return render(
        request,
        "requests/page.html",
        section=SECTION,
        title=f"{one['method']} {one['path']}",
        one=one,
        here=HERE,
        said=sentences_of(one.get("response_body", "")) if "error" in one else [],
        curl=command,
        needs=curl.needs(command),
        sent=html.indented(one.get("request_body", "")),
        answered=html.indented(one.get("response_body", "")),
    )


def sentences_of(body: str) -> list[str]:
    """Return the message of an error response, and the details that it does not contain."""
    try:
        document = msgspec.json.decode(body)
        first = document["errors"][0] if "errors" in document else document
        message, details = str(first["message"]), first.get("details", ())
        return [message, *(str(detail) for detail in details if str(detail) not in message)]
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError, RecursionError):
        return []


OPERATIONS = (
    page("/requests", show, query=queries("requests", (*FILTERS, "after"))),
    page("/requests/{entry_id}", show_one, path_pattern=f"^{ULID_PATTERN}$"),
)
