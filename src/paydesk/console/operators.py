"""The screens of the operators: all of them, and one with its sessions and its last changes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from paydesk.console import audit_rows, session_rows
from paydesk.console.api import Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import page, render, screen
from paydesk.core.ids import ULID_PATTERN
from paydesk.operation import Answer, Query
from paydesk.operators.accounts.fields import MEANINGS
from paydesk.web.statuses import Look

HERE, SECTION = f"{PATH}/operators", "operators"
ROWS, CHANGES = 50, 10
LIVE_ON = "operators sessions"


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator."""

    id: str
    name: str
    role: str
    email: str
    look: Look
    is_revoked: bool
    is_own: bool
    last_used_date: str | None
    created_date: str
    href: str


@screen
async def show(request: ConsoleRequest) -> Answer:
    """List the operators, those who may still do something first; for owners also who is signed in."""
    found = await request.api.get("operators", limit=ROWS, after=request.query.get("after"))
    rows = [row_of(request, one) for one in found["data"]]
    return render(
        request,
        "operators.html",
        section=SECTION,
        title="Operators",
        live_on=LIVE_ON,
        here=HERE,
        rows=sorted(rows, key=lambda row: (row.is_revoked, row.name.casefold())),
        sessions=await session_rows.page_of(request, session_rows.ALL, HERE) if request.is_owner else None,
        roles=MEANINGS,
        more=f"{HERE}?after={quote(found['next'])}" if "next" in found else "",
    )


@screen
async def show_one(request: ConsoleRequest) -> Answer:
    """Show an operator: the state, and for owners the sessions."""
    operator = await request.api.get("operators/{}", request.path)
    operator_id = operator["operator_id"]
    row, changes = row_of(request, operator), await request.api.get("audit", operator=operator_id, limit=CHANGES)
    sees_sessions = request.is_owner or row.is_own
    return render(
        request,
        "operator.html",
        section=SECTION,
        title=operator["name"],
        live_on=f"operators:{operator_id} sessions",
        here=row.href,
        operators_path=HERE,
        person=operator,
        row=row,
        state=state_of(operator),
        roles=MEANINGS,
        sees_sessions=sees_sessions,
        sessions=await session_rows.page_of(request, operator_id, row.href) if sees_sessions else None,
        entries=[audit_rows.row_of(one, {operator_id: row.name}) for one in changes["data"]],
        trail=f"{PATH}/audit?operator={operator_id}",
        about=f"{PATH}/audit?subject={operator_id}",
    )


def row_of(request: ConsoleRequest, operator: Document) -> OperatorRow:
    """Return the row of an operator."""
    return OperatorRow(
        id=operator["operator_id"],
        name=operator["name"],
        role=operator["role"],
        email=operator.get("email", ""),
        look=look_of(operator),
        is_revoked="revoked_date" in operator,
        is_own=operator["operator_id"] == request.operator.operator_id,
        last_used_date=operator.get("last_used_date"),
        created_date=operator["created_date"],
        href=f"{HERE}/{operator['operator_id']}",
    )


def look_of(operator: Document) -> Look:
    """Return how the state of an operator is shown."""
    if "revoked_date" in operator:
        return Look("off", "dash", "Revoked")
    if operator["has_token"] or operator["has_password"]:
        return Look("ok", "check", "Active")
    if "link_expires_date" in operator:
        return Look("wait", "clock", "Link open")
    return Look("look", "triangle", "No password")


def state_of(operator: Document) -> str:
    """Return what the state of an operator means, and what to do; empty if there is nothing to do."""
    if "revoked_date" in operator:
        return "The token, the sessions and the links are refused. To give access again, add another operator."
    if "link_expires_date" in operator:
        until = operator["link_expires_date"]
        if operator["has_password"]:
            return f"A link to set a new password is open until {until}. The password is valid until it is used."
        return f"The link to set a password is open until {until}, and was not used yet."
    if not operator["has_token"] and not operator["has_password"]:
        return "The link has ended before a password was set. Make a new one."
    return ""


OPERATIONS = (
    page(
        "/operators",
        "operators",
        "List the operators",
        show,
        query=(Query("after", {"type": "string"}, "Where the page begins."), session_rows.AFTER),
    ),
    page(
        "/operators/{operator_id}",
        "operator",
        "Show an operator",
        show_one,
        path_pattern=f"^{ULID_PATTERN}$",
        query=(session_rows.AFTER,),
    ),
)
