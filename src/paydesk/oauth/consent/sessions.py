"""Sessions of sellers in browsers: one row per session, found by the digest of its cookie."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core import ids
from paydesk.core.secrets import digest, new_hex
from paydesk.oauth.consent import sellers
from paydesk.storage.database import Transaction

USE_EVERY_MS = 60_000
"""The last use of a session is written at most once in this time."""


@dataclass(frozen=True, slots=True)
class Session:
    """A valid session with its seller."""

    seller_id: int
    digest: bytes
    email: str
    name: str


# Locks the seller, if the password is still the verified one, until the session is committed, so that a
# transaction that sets another password or suspends the seller sees the session and ends it.
LOCK_SELLER = """SELECT 1 FROM sellers WHERE seller_id = $1 AND password = $2 AND suspended_ms IS NULL FOR SHARE"""

# Inserts a session.
INSERT = "INSERT INTO seller_sessions (seller_id, digest, created_ms, expires_ms) VALUES ($1, $2, $3, $4)"

# Selects a session with its seller.
GET = """SELECT s.expires_ms, COALESCE(s.used_ms, s.created_ms), s.expired_ms, s.ended_ms, p.suspended_ms, p.email,
        p.name
    FROM seller_sessions s JOIN sellers p ON p.seller_id = s.seller_id
    WHERE s.seller_id = $1 AND s.digest = $2"""

# Selects the same, locked until the commit: no other transaction ends the session before that.
LOCK = f"{GET} FOR UPDATE OF s"

# Records a use of the session, if the last recorded one was at $4 or before.
USE = """UPDATE seller_sessions SET used_ms = $3
    WHERE seller_id = $1 AND digest = $2 AND COALESCE(used_ms, created_ms) <= $4"""

# valid -> expired: a session refused as expired stays expired, also if the clock is set back.
EXPIRE = "UPDATE seller_sessions SET expired_ms = $3 WHERE seller_id = $1 AND digest = $2 AND expired_ms IS NULL"

# valid -> ended; the first instant stays.
END = "UPDATE seller_sessions SET ended_ms = $3 WHERE seller_id = $1 AND digest = $2 AND ended_ms IS NULL"

# All of a seller's sessions: valid -> ended.
END_ALL = "UPDATE seller_sessions SET ended_ms = $2 WHERE seller_id = $1 AND ended_ms IS NULL"


async def begin(
    tx: Transaction, *, seller_id: int, password_hash: str, now_ms: int, expires_ms: int, previous_cookie: str = ""
) -> str | None:
    """Begin a session, end the browser's previous one, and return the cookie: 256 random bits and the seller's id.

    Returns None if the seller was suspended or got another password since `password_hash` was verified.
    """
    if await tx.one(LOCK_SELLER, seller_id, password_hash) is None:
        return None
    cookie = f"{new_hex(256)}-{seller_id}"
    await tx.run(INSERT, seller_id, digest(cookie), now_ms, expires_ms)
    await end(tx, previous_cookie, now_ms)
    return cookie


async def current(tx: Transaction, cookie: str, now_ms: int, *, idle_ms: int, locked: bool = False) -> Session | None:
    """Return the valid session of this cookie and record its use; None if it is unknown, ended or expired.

    A session expires at its fixed time and after `idle_ms` without use; the first refusal as expired is recorded.
    `locked`: no other transaction ends the session before the commit, so that an action that it permits is committed
    before the session's end or not at all.
    """
    seller_id = ids.seller_of(cookie)
    if seller_id is None:
        return None
    key = seller_id, digest(cookie)
    row = await tx.one(LOCK if locked else GET, *key)
    if row is None:
        return None
    expires_ms, used_ms, expired_ms, ended_ms, suspended_ms, email, name = row
    if any(over_ms is not None for over_ms in (expired_ms, ended_ms, suspended_ms)):
        return None
    if min(expires_ms, used_ms + idle_ms) <= now_ms:
        await tx.run(EXPIRE, *key, now_ms)
        return None
    if used_ms + USE_EVERY_MS <= now_ms:
        await tx.run(USE, *key, now_ms, now_ms - USE_EVERY_MS)
    return Session(*key, email, name)


async def end(tx: Transaction, cookie: str, now_ms: int) -> bool:
    """End the session of this cookie. Return False if it is unknown or had ended."""
    seller_id = ids.seller_of(cookie)
    return seller_id is not None and bool(await tx.run(END, seller_id, digest(cookie), now_ms))


async def end_all(tx: Transaction, seller_id: int, now_ms: int) -> int:
    """End all sessions of the seller; return how many.

    Call it after the new password or the suspension was written, in the same transaction.
    """
    return await tx.run(END_ALL, seller_id, now_ms)


async def end_everywhere(tx: Transaction, cookie: str, now_ms: int, *, idle_ms: int) -> bool:
    """End all sessions of the seller of this session. Return False, without effect, if this session is not valid.

    The seller is locked first, as when a password is set, so that two such transactions can't deadlock on sessions.
    """
    seller_id = ids.seller_of(cookie)
    if seller_id is None or await sellers.lock(tx, seller_id) is None:
        return False
    if await current(tx, cookie, now_ms, idle_ms=idle_ms) is None:
        return False
    await end_all(tx, seller_id, now_ms)
    return True
