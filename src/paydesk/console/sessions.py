"""Operators who sign in, and their sessions in browsers: one row per session, found by the digest of its token."""

from __future__ import annotations

import re
from dataclasses import dataclass

from paydesk.core import ids
from paydesk.core.secrets import digest, new_hex
from paydesk.core.text.redaction import redacted_agent
from paydesk.engine.sellers.accounts import Accounts
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Transaction

USER_AGENT_CHARACTERS_MAX = 200
SIGN_INS_RESERVED = 8
"""Places in the queue of hashes for operators at a new address, while sign-ins of sellers fill the rest of it."""
TOKEN_PATTERN = re.compile(r"PDS-[0-9a-f]{40}", re.ASCII)
UNKNOWN = "unknown_operator"
"""The subject of the event of failed sign-ins with e-mail addresses that no operator has."""

# valid -> ended; the first instant stays.
END = "UPDATE operator_sessions SET ended_ms = $2 WHERE session_id = $1 AND ended_ms IS NULL"

DELETE_ALL = "DELETE FROM operator_sessions WHERE operator_id = $1"

DELETE_OLD = """DELETE FROM operator_sessions WHERE session_id IN (WITH old AS MATERIALIZED (
    SELECT session_id FROM operator_sessions WHERE expires_ms < $1 ORDER BY expires_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
    SELECT * FROM old)"""

MOVE = "UPDATE operator_sessions SET used_ms = $2, expires_ms = $3 WHERE session_id = $1 AND ended_ms IS NULL"


@dataclass(frozen=True, slots=True)
class Session:
    """A valid session with its operator."""

    session_id: str
    operator_id: str
    name: str
    role: str
    email: str | None


OPERATORS: Accounts[str, Session] = Accounts(
    noun="operator",
    barred="revoked_ms",
    session=Session,
    columns="s.session_id, s.operator_id, a.name, a.role, a.email",
    found_by=("digest",),
    key_of=lambda token: (digest(token),) if TOKEN_PATTERN.fullmatch(token) else (),
    new_token=lambda _: f"PDS-{new_hex(160)}",
    unknown="unknown or revoked operator",
    alert=lambda address, operator_id, _: OperatorEvent(
        "sign_in_failures",
        operator_id or UNKNOWN,
        f"A sign-in of {'this' if operator_id else 'an unknown'} operator failed.",
        None,
        {"address": address},
    ),
    reserved=SIGN_INS_RESERVED,
    further=("session_id", "used_ms", "address", "user_agent"),
    details=lambda now_ms, address, user_agent: (
        ids.ulid(now_ms),
        now_ms,
        address,
        redacted_agent(user_agent)[:USER_AGENT_CHARACTERS_MAX],
    ),
)


async def move(tx: Transaction, session_id: str, *, used_ms: int, expires_ms: int) -> None:
    """Set when a session was last used and when it expires: for `paydesk dev`, where a session can move the clock."""
    await tx.run(MOVE, session_id, used_ms, expires_ms)


async def end_one(tx: Transaction, session_id: str, now_ms: int) -> bool:
    """End a session. Return False if it is unknown or had ended."""
    return bool(await tx.run(END, session_id, now_ms))


async def delete_all(tx: Transaction, operator_id: str) -> None:
    """Delete all sessions of the operator."""
    await tx.run(DELETE_ALL, operator_id)


async def prune(tx: Transaction, before_ms: int, limit: int) -> int:
    """Delete sessions that expired before an instant, at most a number of them; return how many."""
    return await tx.run(DELETE_OLD, before_ms, limit)
