"""The operations and words of operators' sessions: end one, or all of an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paydesk.core.errors import FORBIDDEN, PROPERTY_VALUE
from paydesk.core.ids import ULID_PATTERN
from paydesk.core.text.sentences import First, When
from paydesk.operators import errors
from paydesk.operators.documents import Document, Reader
from paydesk.operators.noun import Noun
from paydesk.operators.properties import every
from paydesk.operators.sessions import handlers
from paydesk.operators.sessions.user_agents import browser_of
from paydesk.operators.words import Column, Words


async def _find(api: Reader, names: Mapping[str, str]) -> Document | None:
    """Return the session if it is in the list that the operator sees."""
    return next((one for one in await every(api, "sessions") if one["session_id"] == names["session_id"]), None)


_OPERATOR = "operators/{operator_id}"
_SESSION = Noun(
    "sessions/{session_id}",
    "session",
    f"^{ULID_PATTERN}$",
    handlers.SessionDocument,
    errors.SESSION_NOT_FOUND,
    page="/operators",
    forms="/operators/sessions/{session_id}",
    find=_find,
    facts=lambda names: {"browser": browser_of(names["user_agent"])},
)
_SESSIONS = Noun("sessions", "sessions", "", None, FORBIDDEN, "session", selects={"operator": "{operator_id}"})
_END = Words(
    "End the session of {name}",
    says=(
        "{browser}, signed in from {address}, last used {used_date}.",
        "The browser must sign in again. Nothing else changes.",
    ),
    done="The session of {name} has ended.",
    did="Ended",
    audit="sessions.end",
    submit="End the session",
    role="owner",
    back="/operators",
    form="end",
    command=None,
)

LIST = _SESSION.listing(
    handlers.PAGES,
    FORBIDDEN,
    words=Words(
        "Sessions",
        says="Yours in the console, newest first; as an owner those of all operators.",
        columns=(
            Column("user_agent", "Browser", "browser", style="what", at=4),
            Column("name", "Operator", "session_operator", at=2),
            Column("address", "Address", style="mono address", label="from", at=3),
            Column("used_date", "Last use", "time", style="nowrap", label="last use", at=6),
            Column("created_date", "Signed in", "time", style="nowrap", label="signed in", at=5),
            Column("expires_date", "Ends", "time", style="nowrap", label="ends", at=7),
            Column("session_id", at=1),
        ),
        examples=("", "--operator 01J67CQQH5904WDBVZEM4JMEP3 --json"),
    ),
)
OPERATIONS = (
    LIST,
    _SESSION.deleting(
        handlers.end,
        name="operator_end_session",
        role="every",
        description="Every role ends its own sessions, an owner those of others too.",
        errors=(FORBIDDEN,),
        words=replace(
            _END,
            forms=(
                replace(_END, back=f"/{_OPERATOR}", form=f"/{_OPERATOR}/sessions/{{session_id}}/end"),
                replace(
                    _END,
                    title="End your session",
                    facts=lambda names: {"is_own": names["operator_id"] == names["caller_id"]},
                    impossible=When("is_own", "", otherwise="This is the session of another operator."),
                    done="Your session has ended.",
                    role=None,
                    back="/account",
                    form="/account/sessions/{session_id}/end",
                ),
            ),
        ),
    ),
    _SESSIONS.deleting(
        handlers.end_all,
        name="operator_end_sessions",
        answer=handlers.EndedSessions,
        role="every",
        query=(handlers.OF_OPERATOR,),
        errors=(PROPERTY_VALUE,),
        description="Without `operator` those of the caller; those of others, or of all, for owners only.",
        words=Words(
            "Sign {name} out",
            says="All sessions of {name} end. Every browser must sign in again; the password stays.",
            done=First(
                When("answer.ended", "One session of {name} has ended.", (1,)),
                "{answer[ended]} sessions of {name} have ended.",
            ),
            did="Ended",
            audit="sessions.end",
            submit="End all sessions",
            role="owner",
            reads=_OPERATOR,
            back=f"/{_OPERATOR}",
            form=f"/{_OPERATOR}/sessions/end",
            command=None,
        ),
    ),
)
