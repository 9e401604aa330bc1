"""The screen of the audit trail: who changed what, when and from where, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from paydesk.console.api import Document, listed
from paydesk.console.lists import columns_of
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.operation import Answer, Query
from paydesk.operators.audit_trail import operations
from paydesk.web import html

HERE, SECTION = f"{PATH}/audit", "audit"
ROWS, AUTHORS_MAX = 50, 200
NEWEST = 10
"""On the page of what was changed, or of who changed it."""
FILTERS = ("operator", "subject")
LIVE_ON = (
    "applications codes deliveries grants operators orders pairings pos reversals sellers sessions stores subscriptions"
    " terminals"
)


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the entries, newest first."""
    filters = {name: value for name in FILTERS if (value := request.query.get(name, "").strip())}
    after = request.query.get("after", "")
    if len(filters) + bool(after) < len(request.query):
        # A form sends empty fields too: an address without them can be read and shared.
        return html.redirect(_address(filters, after=after))
    found, refused = await listed(request.api.get("audit", limit=ROWS, after=after, **filters))
    authors = await _authors(request, filters.get("operator", ""))
    return render(
        request,
        "audit.html",
        section=SECTION,
        title="Audit trail",
        live_on="" if after else LIVE_ON,
        here=HERE,
        columns=columns_of(operations.LIST),
        entries=found["data"],
        names=dict(authors),
        filters=filters,
        authors=authors,
        refused=refused,
        newest=_address(filters) if after else "",
        older=_address(filters, after=found["next"]) if "next" in found else "",
    )


async def newest(request: ConsoleRequest, names: Mapping[str, str], *without: str, **of: object) -> dict[str, Any]:
    """Return what a page shows of the newest entries, without some columns. `names`: of subjects, by their ids."""
    found = await request.api.get("audit", limit=NEWEST, **of)
    return {"audit_columns": columns_of(operations.LIST, *without), "entries": found["data"], "names": names}


async def _authors(request: ConsoleRequest, chosen: str) -> list[tuple[str, str]]:
    """Return the ids and names of the operators, and the chosen one also if it is deleted."""
    found: Document = await request.api.get("operators", limit=AUTHORS_MAX)
    authors = sorted(((one["operator_id"], one["name"]) for one in found["data"]), key=lambda one: one[1].casefold())
    is_listed = not chosen or any(operator_id == chosen for operator_id, _ in authors)
    return authors if is_listed else [(chosen, chosen), *authors]


def _address(filters: Mapping[str, str], **more: str) -> str:
    chosen = {name: value for name, value in {**filters, **more}.items() if value}
    return f"{HERE}?{urlencode(chosen)}" if chosen else HERE


_QUERY = tuple(Query(name, {"type": "string"}, "As in `GET /operator/v1/audit`.") for name in (*FILTERS, "after"))

OPERATIONS = (page("/audit", show, query=_QUERY),)
