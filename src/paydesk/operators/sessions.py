"""Sessions of operators in browsers: one row per session, found by the digest of its token."""

from __future__ import annotations

import re
from dataclasses import dataclass

from paydesk.core import ids
from paydesk.core.redaction import redacted_agent
from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.storage.database import Database, Transaction

USE_EVERY_MS = 60_000
"""The last use of a session is written at most once in this time."""
USER_AGENT_CHARACTERS_MAX = 200
TOKEN_PATTERN = re.compile(r"PDS-[0-9a-f]{40}", re.ASCII)

# Locks a valid operator whose password is still the verified one, so that a transaction that sets another password or
# revokes the operator sees the session and ends it. An empty hash skips the comparison.
LOCK_OPERATOR = """
SELECT 1 FROM operators WHERE operator_id = $1 AND ($2 = '' OR password = $2) AND revoked_ms IS NULL FOR SHARE"""

INSERT = """
INSERT INTO operator_sessions (session_id, digest, operator_id, address, user_agent, created_ms, used_ms, expires_ms)
VALUES ($1, $2, $3, $4, $5, $6, $6, $7)"""

GET = """
SELECT s.session_id, s.operator_id, o.name, o.role, o.email, s.used_ms, s.expires_ms, s.ended_ms, o.revoked_ms
  FROM operator_sessions s JOIN operators o ON o.operator_id = s.operator_id
 WHERE s.digest = $1"""

USE = "UPDATE operator_sessions SET used_ms = $2 WHERE session_id = $1 AND used_ms <= $3"

# valid -> ended; the first instant stays.
END = "UPDATE operator_sessions SET ended_ms = $2 WHERE session_id = $1 AND ended_ms IS NULL"

END_TOKEN = "UPDATE operator_sessions SET ended_ms = $2 WHERE digest = $1 AND ended_ms IS NULL"  # noqa: S105 - a statement

# All of an operator's sessions: valid -> ended.
END_ALL = "UPDATE operator_sessions SET ended_ms = $2 WHERE operator_id = $1 AND ended_ms IS NULL"

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


@dataclass(frozen=True, slots=True)
class _Found:
    session: Session
    used_ms: int
    is_expired: bool


async def begin(
    tx: Transaction,
    operator_id: str,
    *,
    address: str,
    user_agent: str,
    now_ms: int,
    expires_ms: int,
    password_hash: str = "",
    previous: str = "",
) -> Secret | None:
    """Begin a session, end the one with the token `previous`, and return the new token of 160 random bits.

    Returns None if the operator was revoked or got another password since `password_hash` was verified.
    """
    if await tx.one(LOCK_OPERATOR, operator_id, password_hash) is None:
        return None
    token = Secret(f"PDS-{new_hex(160)}")
    agent = redacted_agent(user_agent)[:USER_AGENT_CHARACTERS_MAX]
    await tx.run(INSERT, ids.ulid(now_ms), digest(token.reveal()), operator_id, address, agent, now_ms, expires_ms)
    await end(tx, previous, now_ms)
    return token


async def move(tx: Transaction, session_id: str, *, used_ms: int, expires_ms: int) -> None:
    """Set when a session was last used and when it expires: for `paydesk dev`, where a session can move the clock."""
    await tx.run(MOVE, session_id, used_ms, expires_ms)


async def current(tx: Transaction, token: str, now_ms: int, *, idle_ms: int, is_use: bool) -> Session | None:
    """Return the valid session of a token, or None if it is unknown, ended or expired.

    A session expires at its fixed time, or `idle_ms` after its last use. An expired one is marked as ended, so
    that it stays invalid. `is_use`: whether this is a use, which is recorded to the minute.
    """
    found = await _find(tx, token, now_ms, idle_ms)
    if found is None:
        return None
    session_id = found.session.session_id
    if found.is_expired:
        await tx.run(END, session_id, now_ms)
        return None
    if is_use and found.used_ms + USE_EVERY_MS <= now_ms:
        await tx.run(USE, session_id, now_ms, now_ms - USE_EVERY_MS)
    return found.session


async def opened(database: Database, token: str, now_ms: int, *, idle_ms: int, is_use: bool) -> Session | None:
    """Return the valid session of a token, as `current` does; use a write transaction only if a row must change."""
    found = await database.read(lambda tx: _find(tx, token, now_ms, idle_ms))
    if found is None:
        return None
    if found.is_expired or (is_use and found.used_ms + USE_EVERY_MS <= now_ms):
        return await database.write(lambda tx: current(tx, token, now_ms, idle_ms=idle_ms, is_use=is_use))
    return found.session


async def end(tx: Transaction, token: str, now_ms: int) -> bool:
    """End the session of this token. Return False if it is unknown or had ended."""
    return bool(TOKEN_PATTERN.fullmatch(token) and await tx.run(END_TOKEN, digest(token), now_ms))


async def end_one(tx: Transaction, session_id: str, now_ms: int) -> bool:
    """End a session. Return False if it is unknown or had ended."""
    return bool(await tx.run(END, session_id, now_ms))


async def end_all(tx: Transaction, operator_id: str, now_ms: int) -> int:
    """End all sessions of the operator; return how many.

    Call it after the new password or the revocation was written, in the same transaction.
    """
    return await tx.run(END_ALL, operator_id, now_ms)


async def delete_all(tx: Transaction, operator_id: str) -> None:
    """Delete all sessions of the operator."""
    await tx.run(DELETE_ALL, operator_id)


async def prune(tx: Transaction, before_ms: int, limit: int) -> int:
    """Delete sessions that expired before an instant, at most a number of them; return how many."""
    return await tx.run(DELETE_OLD, before_ms, limit)


async def _find(tx: Transaction, token: str, now_ms: int, idle_ms: int) -> _Found | None:
    """Return the session unless it has ended or its operator was revoked."""
    row = await tx.one(GET, digest(token)) if TOKEN_PATTERN.fullmatch(token) else None
    if row is None:
        return None
    session_id, operator_id, name, role, email, used_ms, expires_ms, ended_ms, revoked_ms = row
    if ended_ms is not None or revoked_ms is not None:
        return None
    session = Session(session_id, operator_id, name, role, email)
    return _Found(session, used_ms, min(expires_ms, used_ms + idle_ms) <= now_ms)
