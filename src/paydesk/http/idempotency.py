"""One idempotency key, one effect, one answer. The key is claimed before the work, in the work's own transaction.

Claimed first, ten thousand creates with one key give one effect; looked up first, they give ten thousand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from paydesk.core import card_numbers
from paydesk.core.errors import (
    EMPTY_REQUIRED_HEADER,
    IDEMPOTENCY_KEY_ALREADY_USED,
    INVALID_IDEMPOTENCY_KEY_LENGTH,
    RESOURCE_LOCKED,
    Refusal,
)
from paydesk.core.idempotency import BY_KEY, Key
from paydesk.operation import Call
from paydesk.storage.database import Transaction

T = TypeVar("T")

CARD_NUMBER_AS_KEY = "X-Idempotency-Key must not contain a card number; send a UUID."
_VISIBLE = re.compile("[!-~]{1,64}")

CLAIM = """
INSERT INTO idempotency_keys (seller_id, application_id, live, operation, object_id, idempotency_key, digest, replays,
                              created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8) ON CONFLICT DO NOTHING"""

# Answered -> answered once more.
REPLAY = f"""
UPDATE idempotency_keys SET replays = replays + 1 {BY_KEY} AND answer IS NOT NULL RETURNING digest, status, answer"""

# While its first request is still running.
REQUESTED = f"SELECT digest FROM idempotency_keys {BY_KEY}"

# Held, so that nobody fixes another answer before the commit.
LOCK = f"SELECT status, answer FROM idempotency_keys {BY_KEY} FOR UPDATE"

STORE_RESPONSE = f"UPDATE idempotency_keys SET status = $7, answer = $8 {BY_KEY}"

RELEASE = f"DELETE FROM idempotency_keys {BY_KEY}"


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer that was given before."""

    status: int
    body: bytes


def check(sent: str | None, *, references_checked: bool = False) -> str:
    """Return the key of the header. Raises where there is none or it is malformed."""
    if not sent:
        raise EMPTY_REQUIRED_HEADER.with_reason("no idempotency key")
    if not _VISIBLE.fullmatch(sent):
        raise INVALID_IDEMPOTENCY_KEY_LENGTH.with_reason("malformed idempotency key")
    if references_checked and card_numbers.carried_by_reference(sent):
        raise INVALID_IDEMPOTENCY_KEY_LENGTH.with_reason("idempotency key is a card number", message=CARD_NUMBER_AS_KEY)
    return sent


def request_digest(document: object, headers: list[str]) -> bytes:
    """What makes two requests the same: the parsed body and the operation's own headers."""
    return hashlib.sha256(msgspec.json.encode([document, headers], order="deterministic")).digest()


async def claim(tx: Transaction, key: Key, digest: bytes, now_ms: int) -> Stored | None:
    """None when the key is ours now; the stored answer when the same request was answered before.

    A replay counts itself: it commits a write of its own, so it never confirms what isn't durable.
    """
    if await tx.run(CLAIM, *key, digest, now_ms):
        return None
    row = await tx.one(REPLAY, *key)
    requested = row or await tx.one(REQUESTED, *key)
    if requested is not None and requested[0] != digest:
        raise IDEMPOTENCY_KEY_ALREADY_USED.with_reason("same key, other request")
    if row is None:
        # Still to be answered, or released between the statements: the caller tries again.
        raise RESOURCE_LOCKED.with_reason("the key's first request is still running")
    return Stored(row[1], row[2])


async def lock(tx: Transaction, key: Key) -> Stored | None:
    """What the key was answered meanwhile, or None; nobody else answers it until the end of the transaction."""
    row = await tx.one(LOCK, *key)
    return Stored(row[0], row[1]) if row is not None and row[1] is not None else None


def store_response(tx: Transaction, key: Key, status: int, body: bytes) -> None:
    """Store the answer with its effect."""
    tx.defer(STORE_RESPONSE, *key, status, body)


async def release(tx: Transaction, key: Key) -> None:
    """A refusal binds no key, also where it keeps something else."""
    await tx.run(RELEASE, *key)


async def unless_it_wrote(call: Call, handle: Callable[[Call], Awaitable[T]]) -> T | Refusal:
    """What the handler answers; a refusal that it raised before it wrote needs no more than the key's release."""
    writes = call.tx.writes
    try:
        return await handle(call)
    except Refusal as refusal:
        if call.tx.writes != writes:
            raise
        return refusal
