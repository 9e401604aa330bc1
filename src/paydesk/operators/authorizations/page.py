"""Authorizations on the pages of applications and of sellers: a page of those that are valid, or of the withdrawn."""

from __future__ import annotations

from typing import Any

from paydesk.console.request import ConsoleRequest
from paydesk.operators.authorizations import operations
from paydesk.operators.list_pages import address, columns_of, next_page
from paydesk.platform.operation import Query

READ_MAX = 50
VALID, WITHDRAWN = "valid", "withdrawn"
QUERY = (
    Query("authorizations", {"enum": [VALID, WITHDRAWN]}, "Which authorizations are shown, by default the valid ones."),
    Query("authorizations_after", {"type": "string"}, "Where the page of authorizations begins."),
)


async def page_of(request: ConsoleRequest, here: str, **of: object) -> dict[str, Any]:
    """Return what `authorizations/parts.html` shows on the page at `here`, that of an application or of a seller."""
    status = WITHDRAWN if request.query.get("authorizations") == WITHDRAWN else VALID
    after = request.query.get("authorizations_after")
    listed = await request.api.get("grants", status=status, limit=READ_MAX, after=after, **of)
    others = address(here, {"authorizations": VALID if status == WITHDRAWN else WITHDRAWN})
    own = "seller_name" if "seller" in of else "application_name"
    return {
        "columns": columns_of(operations.LIST, own, *(() if status == WITHDRAWN else ("withdrawn_date",))),
        "rows": listed["data"],
        "other": "application_name" if "seller" in of else "seller_name",
        "is_withdrawn": status == WITHDRAWN,
        "others": f"{others}#authorizations",
        "more": next_page(here, {QUERY[0].name: status}, listed, QUERY[1].name, fragment="#authorizations"),
    }
