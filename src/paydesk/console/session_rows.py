"""Sessions of operators on the console's pages: a row of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from paydesk.console.api import Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.operation import Query
from paydesk.operators.user_agents import browser_of

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
    # Only owners end sessions on the pages of operators.
    end = here if request.is_owner else f"{PATH}/account"
    return SessionPage([_row_of(one, end) for one in found["data"]], older)


def _row_of(session: Document, end: str) -> SessionRow:
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
