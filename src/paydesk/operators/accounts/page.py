"""The screens of the operators: all of them, and one with its sessions and its last changes."""

from __future__ import annotations

from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.core.ids import ULID_PATTERN
from paydesk.operators.accounts import operations
from paydesk.operators.accounts.fields import MEANINGS
from paydesk.operators.audit_trail import page as audit_trail
from paydesk.operators.list_pages import AFTER, columns_of, next_page
from paydesk.operators.sessions import rows as session_rows
from paydesk.platform.operation import Answer

HERE, SECTION = f"{PATH}/operators", "operators"
ROWS = 50
LIVE_ON = "operators sessions"


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the operators, those who may still do something first; for owners also who is signed in."""
    listing = await request.api.get("operators", limit=ROWS, after=request.query.get("after"))
    return render(
        request,
        "accounts/list.html",
        section=SECTION,
        title="Operators",
        live_on=LIVE_ON,
        here=HERE,
        columns=columns_of(operations.LIST),
        rows=sorted(listing["data"], key=lambda one: ("revoked_date" in one, one["name"].casefold())),
        sessions=await session_rows.page_of(request, session_rows.ALL, HERE) if request.is_owner else None,
        roles=MEANINGS,
        more=next_page(HERE, {}, listing),
    )


@screen
async def show_one(request: ConsoleRequest) -> Answer:
    """Show an operator: the state, and for owners the sessions."""
    operator = await request.api.get("operators/{}", request.path)
    operator_id, name, here = operator["operator_id"], operator["name"], f"{HERE}/{operator['operator_id']}"
    sees_sessions = request.is_owner or operator_id == request.operator.operator_id
    return render(
        request,
        "accounts/page.html",
        section=SECTION,
        title=name,
        live_on=f"operators:{operator_id} sessions",
        here=here,
        person=operator,
        roles=MEANINGS,
        sessions=await session_rows.page_of(request, operator_id, here) if sees_sessions else None,
        **await audit_trail.newest(request, {operator_id: name}, "name", operator=operator_id),
    )


OPERATIONS = (
    page("/operators", show, query=(AFTER, session_rows.AFTER)),
    page("/operators/{operator_id}", show_one, path_pattern=f"^{ULID_PATTERN}$", query=(session_rows.AFTER,)),
)
