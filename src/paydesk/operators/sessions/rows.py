"""Sessions of operators on the console's pages."""

from __future__ import annotations

from typing import Any

from paydesk.console.request import PATH, ConsoleRequest
from paydesk.operators.list_pages import columns_of, next_page
from paydesk.operators.sessions import operations
from paydesk.platform.operation import Query

SESSIONS_MAX = 100
ALL = "all"
AFTER = Query("sessions_after", {"type": "string"}, "Where the page of sessions begins.")


async def page_of(request: ConsoleRequest, operator_id: str, here: str) -> dict[str, Any]:
    """Return what `sessions/parts.html` shows: the sessions of an operator, or of all, on the page at `here`."""
    listed = await request.api.get(
        "sessions", operator=operator_id, after=request.query.get(AFTER.name), limit=SESSIONS_MAX
    )
    return {
        "columns": columns_of(operations.LIST, *(() if operator_id == ALL else ("name",))),
        "rows": listed["data"],
        "older": next_page(here, {}, listed, AFTER.name),
        # Only owners end sessions on the pages of operators.
        "here": here if request.is_owner else f"{PATH}/account",
    }
