"""`/operator/v1/sessions`: every operator lists and ends their own sessions, an owner those of all operators."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from msgspec import Meta

from paydesk.console import sessions as store
from paydesk.core.ids import ULID_PATTERN
from paydesk.core.response import Closed, Time, named
from paydesk.operators import audit, lists
from paydesk.operators.errors import SESSION_NOT_FOUND
from paydesk.operators.words import Shown
from paydesk.platform import roles
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row

ALL = "all"
BY_TIME = ("8",)
"""A key after all session ids, which are ULIDs: the newest come first."""

_COLUMNS = "session_id operator_id name address user_agent created_ms used_ms expires_ms"
_SESSION = """
s.session_id, s.operator_id, o.name, s.address, s.user_agent, s.created_ms, s.used_ms, s.expires_ms
  FROM operator_sessions s JOIN operators o ON o.operator_id = s.operator_id"""

_IS_VALID = "s.ended_ms IS NULL AND o.revoked_ms IS NULL"

# A page of the valid sessions of operator $5, or of all, newest first.
LIST = f"""
SELECT {_SESSION}
 WHERE s.session_id < $1 AND s.expires_ms > $3 AND s.used_ms > $4 AND ($5 = '' OR s.operator_id = $5) AND {_IS_VALID}
 ORDER BY s.session_id DESC LIMIT $2"""

ONE = f"SELECT {_SESSION} WHERE s.session_id = $1 AND {_IS_VALID}"


class SessionDocument(Closed, frozen=True):
    """A valid session of an operator."""

    session_id: str
    operator_id: str
    name: Annotated[str, Meta(description="The operator's.")]
    address: Annotated[str, Meta(description="The client address of the sign-in.")]
    user_agent: str
    created_date: Time
    used_date: Annotated[Time, Meta(description="To the minute.")]
    expires_date: Time
    current: Annotated[bool, Meta(description="Whether it is the session of this request.")]


class EndedSessions(Closed, frozen=True):
    """How many sessions were ended."""

    ended: int


async def find_sessions(call: Call, filters: Filters) -> Answer:
    """List valid sessions, newest first. Raises `FORBIDDEN` for those of others unless the caller is an owner."""
    idle_ms = call.settings.session_idle_minutes * 60_000
    default = ALL if call.caller.role == "owner" else call.caller.operator_id
    args = call.now_ms, call.now_ms - idle_ms, _chosen(call, filters, default)
    return await lists.page(call, filters, LIST, BY_TIME, partial(_present, call), *args)


async def end(call: Call) -> Answer:
    """End a session. Raises `FORBIDDEN` for another operator's unless the caller is an owner, `SESSION_NOT_FOUND`."""
    row = await call.tx.one(ONE, call.path)
    if row is None:
        raise SESSION_NOT_FOUND.with_reason("unknown or ended session")
    document = _present(call, row)
    if document.operator_id != call.caller.operator_id:
        roles.check(call.caller.role, "owner")
    if not await store.end_one(call.tx, document.session_id, call.now_ms):
        raise SESSION_NOT_FOUND.with_reason("the session ended meanwhile")
    await _record(call, document)
    return Answer(204)


async def end_all(call: Call) -> Answer:
    """End all sessions of an operator: of the caller or, as an owner, of others. Raises `FORBIDDEN` for others."""
    filters, ended = Filters((OF_OPERATOR,), call.query), 0
    filters.refuse_faults()
    operator_id = _chosen(call, filters, call.caller.operator_id)
    last = BY_TIME[0]
    while rows := await call.tx.all(LIST, last, lists.LIMIT_MAX, call.now_ms, 0, operator_id):
        for row in rows:
            document = _present(call, row)
            if await store.end_one(call.tx, document.session_id, call.now_ms):
                await _record(call, document)
                ended += 1
        last = rows[-1][0]
    return Answer(200, EndedSessions(ended))


def _chosen(call: Call, filters: Filters, default: str) -> str:
    """Return the operator of the query, or the default; an empty text for all. Raises `FORBIDDEN`."""
    operator_id: str = filters.get("operator", default)
    if operator_id != call.caller.operator_id:
        roles.check(call.caller.role, "owner")
    return "" if operator_id == ALL else operator_id


async def _record(call: Call, document: SessionDocument) -> None:
    before = {"operator_id": document.operator_id, "address": document.address}
    await audit.record(call, call.tx, "sessions.end", document.session_id, before=before)


def _present(call: Call, row: Row) -> SessionDocument:
    return SessionDocument.of(named(_COLUMNS, row), current=row[0] == call.caller.session_id)


OF_OPERATOR = Query(
    "operator",
    {"type": "string", "pattern": f"^({ALL}|{ULID_PATTERN})$"},
    f"The operator, or `{ALL}`, for owners; by default the caller.",
    check=lists.id_of(ULID_PATTERN, f"must be an operator's id, or {ALL}", ALL),
)
_LISTED = replace(
    OF_OPERATOR,
    description=f"The operator, or `{ALL}`, for owners; by default `{ALL}` for owners, and else the caller.",
    shown=Shown("Operator", metavar="OPERATOR_ID", help="Only those of this operator; of another one: for owners."),
)
PAGES = lists.Pages(lists.Page[SessionDocument], find_sessions, (_LISTED, *lists.paging(BY_TIME)), "Newest first.")
