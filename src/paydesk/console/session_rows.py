"""Sessions of operators on the console's pages: a row of each, and the form that ends one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from paydesk.console import view
from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.api import Document
from paydesk.console.request import ConsoleRequest
from paydesk.console.user_agents import browser_of
from paydesk.operation import Answer, Query

SESSIONS_MAX = 100
ALL = "all"
AFTER = Query("sessions_after", {"type": "string"}, "Where the page of sessions begins.")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session. `end` is the path of the form that ends it, empty for the session of this page."""

    id: str
    operator_id: str
    name: str
    browser: str
    user_agent: str
    address: str
    created_date: str
    used_date: str
    expires_date: str
    end: str


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of a list of sessions. `older` is the address of the next one, empty if there is none."""

    rows: Sequence[SessionRow]
    older: str


async def page_of(request: ConsoleRequest, operator_id: str, here: str) -> SessionPage:
    """Return the sessions of an operator, or of all, newest first. `here` is the path of the page that lists them."""
    found = await request.api.get(
        "sessions", operator=operator_id, after=request.query.get(AFTER.name), limit=SESSIONS_MAX
    )
    older = f"{here}?{urlencode({AFTER.name: found['next']})}" if "next" in found else ""
    return SessionPage([row_of(one, here) for one in found["data"]], older)


def row_of(session: Document, end: str) -> SessionRow:
    """Return the row of a session."""
    return SessionRow(
        id=session["session_id"],
        operator_id=session["operator_id"],
        name=session["name"],
        browser=browser_of(session["user_agent"]),
        user_agent=session["user_agent"],
        address=session["address"],
        created_date=session["created_date"],
        used_date=session["used_date"],
        expires_date=session["expires_date"],
        end="" if session.get("current") else f"{end}/sessions/{session['session_id']}/end",
    )


async def end(request: ConsoleRequest, session_id: str, *, back: str, section: str, permitted: bool = True) -> Answer:
    """Show the form that ends a session, or end it. The form says whose session it is."""
    row = await _find(request, session_id) if permitted else None
    whose = _whose(request, row)
    action = ActionForm(
        f"End {whose}", _says(request, row), back, section, submit="End the session", permitted=permitted
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("sessions/{}", session_id)
        return Done(f"{whose[0].upper()}{whose[1:]} has ended.")

    return await act(request, action, work)


async def _find(request: ConsoleRequest, session_id: str) -> SessionRow | None:
    """Return the session if it is in one of the lists that the operator sees."""
    operator_id, after = ALL if request.is_owner else request.operator.operator_id, None
    while True:
        found = await request.api.get("sessions", operator=operator_id, after=after)
        for one in found["data"]:
            if one["session_id"] == session_id:
                return row_of(one, "")
        if "next" not in found:
            return None
        after = found["next"]


def _whose(request: ConsoleRequest, row: SessionRow | None) -> str:
    if row is None:
        return "the session"
    return "your session" if row.operator_id == request.operator.operator_id else f"the session of {row.name}"


def _says(request: ConsoleRequest, row: SessionRow | None) -> Sequence[str]:
    then = "The browser must sign in again. Nothing else changes."
    if row is None:
        return (then,)
    used = view.relative(request.now_ms - view.instant_ms(row.used_date))
    return f"{row.browser}, signed in from {row.address}, last used {used}.", then
