"""The screen of the audit trail: who changed what, when and from where, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.console.api import listed
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.operators.audit_trail import operations
from paydesk.operators.list_pages import address, columns_of, filters_in, next_page, queries
from paydesk.platform.operation import Answer
from paydesk.platform.web import html

HERE, SECTION = f"{PATH}/audit", "audit"
ROWS, AUTHORS_MAX = 50, 200
NEWEST = 10
"""The entries on the page of what was changed, or of who changed it."""
FILTERS = ("operator", "subject")
LIVE_ON = (
    "applications codes deliveries grants operators orders pairings pos reversals sellers sessions stores subscriptions"
    " terminals"
)


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the entries, newest first."""
    filters, after = filters_in(request, FILTERS), request.query.get("after", "")
    if len(filters) + bool(after) < len(request.query):
        # A form sends empty fields too: an address without them can be read and shared.
        return html.redirect(address(HERE, filters, after=after))
    trail, refused = await listed(request.api.get("audit", limit=ROWS, after=after, **filters))
    operators = await request.api.get("operators", limit=AUTHORS_MAX)
    people = sorted(operators["data"], key=lambda one: one["name"].casefold())
    authors = {one["operator_id"]: one["name"] for one in people}
    if "operator" in filters and filters["operator"] not in authors:
        authors = {filters["operator"]: filters["operator"], **authors}  # It is deleted.
    return render(
        request,
        "audit_trail/page.html",
        section=SECTION,
        title="Audit trail",
        live_on="" if after else LIVE_ON,
        here=HERE,
        columns=columns_of(operations.LIST),
        entries=trail["data"],
        names=authors,
        filters=filters,
        operators=authors,
        by={one.name: one for one in operations.LIST.query},
        refused=refused,
        newest=address(HERE, filters) if after else "",
        older=next_page(HERE, filters, trail),
    )


async def newest(request: ConsoleRequest, names: Mapping[str, str], *without: str, **of: object) -> dict[str, Any]:
    """Return what a page shows of the newest entries, without some columns. `names`: of subjects, by their ids."""
    trail = await request.api.get("audit", limit=NEWEST, **of)
    return {"audit_columns": columns_of(operations.LIST, *without), "entries": trail["data"], "names": names}


OPERATIONS = (page("/audit", show, query=queries("audit", (*FILTERS, "after"))),)
