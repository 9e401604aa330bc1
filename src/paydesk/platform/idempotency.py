"""Idempotency keys: one key, one effect, one response.

The key is claimed in the work's own transaction: ten thousand creates with one key have one effect. A lookup first,
outside that transaction, would let all of them through.

A new request does its work first and claims the key together with the response, in one statement. Whatever is in its
way, a refusal or the key itself, undoes that attempt; the next one claims the key before the work, so that a repeated
request gets the stored response and not the refusal that its own effect would bring about.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from paydesk.core.errors import (
    EMPTY_REQUIRED_HEADER,
    IDEMPOTENCY_KEY_ALREADY_USED,
    INVALID_IDEMPOTENCY_KEY_LENGTH,
    RESOURCE_LOCKED,
    Refusal,
)
from paydesk.core.text import card_numbers
from paydesk.platform.idempotency_key import Key

if TYPE_CHECKING:
    from paydesk.platform.operation import Call
    from paydesk.platform.storage.database import Transaction

T = TypeVar("T")

CARD_NUMBER_AS_KEY = "X-Idempotency-Key must not contain a card number; send a UUID."
_VISIBLE = re.compile("[!-~]{1,64}")

_BY_KEY = """
WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND operation = $4 AND object_id = $5
  AND idempotency_key = $6"""

CLAIM = """
INSERT INTO idempotency_keys (seller_id, application_id, live, operation, object_id, idempotency_key, digest, replays,
                              created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8) ON CONFLICT DO NOTHING"""

# The key with its response, in one statement.
STORE = """
INSERT INTO idempotency_keys (seller_id, application_id, live, operation, object_id, idempotency_key, digest, status,
                              answer, replays, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10) ON CONFLICT DO NOTHING"""

# Matches only a key with a stored response.
REPLAY = f"""
UPDATE idempotency_keys SET replays = replays + 1 {_BY_KEY} AND answer IS NOT NULL RETURNING digest, status, answer"""

# For a key whose first request is still running.
REQUESTED = f"SELECT digest FROM idempotency_keys {_BY_KEY}"

# Locks the row, so that no other response is stored before the commit.
LOCK = f"SELECT status, answer FROM idempotency_keys {_BY_KEY} FOR UPDATE"

STORE_RESPONSE = f"UPDATE idempotency_keys SET status = $7, answer = $8 {_BY_KEY}"

COMPLETE = f"{STORE_RESPONSE} AND answer IS NULL"

RELEASE = f"DELETE FROM idempotency_keys {_BY_KEY}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored response."""

    status: int
    body: bytes


def check(sent: str | None, *, references_checked: bool = False) -> str:
    """Return the header's key. Raises a refusal if it is missing or malformed."""
    if not sent:
        raise EMPTY_REQUIRED_HEADER.with_reason("no idempotency key")
    if not _VISIBLE.fullmatch(sent):
        raise INVALID_IDEMPOTENCY_KEY_LENGTH.with_reason("malformed idempotency key")
    if references_checked and card_numbers.carried_by_reference(sent):
        raise INVALID_IDEMPOTENCY_KEY_LENGTH.with_reason("idempotency key is a card number", message=CARD_NUMBER_AS_KEY)
    return sent


def request_digest(document: object, headers: list[str]) -> bytes:
    """Return a digest of the parsed body and the operation's own headers: equal digests are the same request."""
    return hashlib.sha256(msgspec.json.encode([document, headers], order="deterministic")).digest()


def claim_with_response(tx: Transaction, key: Key, digest: bytes, status: int, body: bytes, now_ms: int) -> None:
    """Claim the key at the end of the work and store the response with it. If the key exists, the work is overtaken."""
    tx.defer(STORE, *key, digest, status, body, now_ms, required=True)


async def claim(tx: Transaction, key: Key, digest: bytes, now_ms: int) -> Stored | None:
    """Claim the key and return None, or return the stored response of an earlier identical request.

    A replay increments a counter: it commits a write of its own, so it never confirms what isn't durable. Raises
    `idempotency_key_already_used` for a different request, `resource_locked` while the first one is running.
    """
    if await tx.run(CLAIM, *key, digest, now_ms):
        return None
    row = await tx.one(REPLAY, *key)
    requested = row or await tx.one(REQUESTED, *key)
    if requested is not None and requested[0] != digest:
        raise IDEMPOTENCY_KEY_ALREADY_USED.with_reason("same key, other request")
    if row is None:
        # No response yet, or the key was released between the statements: the client retries.
        raise RESOURCE_LOCKED.with_reason("the key's first request is still running")
    return Stored(row[1], row[2])


async def lock(tx: Transaction, key: Key) -> Stored | None:
    """Lock the key until the end of the transaction; return its response if one has been stored."""
    row = await tx.one(LOCK, *key)
    return Stored(row[0], row[1]) if row is not None and row[1] is not None else None


def store_response(tx: Transaction, key: Key, status: int, body: bytes) -> None:
    """Store the response with its effect."""
    tx.defer(STORE_RESPONSE, *key, status, body)


async def complete(tx: Transaction, key: Key, status: int, body: bytes) -> bool:
    """Store the response of a key that was claimed in an earlier transaction, and notify the requests waiting for it.

    Returns False if a response was stored before, by the request or by the worker that resumed it; that one is kept.
    """
    completed = await tx.run(COMPLETE, *key, status, body) > 0
    if completed:
        tx.notify(key.topic)
    return completed


async def release(tx: Transaction, key: Key) -> None:
    """Free the key of a refused request, even if the refusal committed something else."""
    await tx.run(RELEASE, *key)


async def unless_it_wrote(call: Call, handle: Callable[[Call], Awaitable[T]]) -> T | Refusal:
    """Return what the handler returns, or the refusal it raised before its first write.

    Such a refusal needs no rollback, only the key's release; one raised after a write is raised again.
    """
    writes = call.tx.writes
    try:
        return await handle(call)
    except Refusal as refusal:
        if call.tx.writes != writes:
            raise
        return refusal
