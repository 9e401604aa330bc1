"""One idempotency key, one effect, one answer. The key is claimed before the work, in the work's own transaction.

Claimed first, ten thousand creates with one key give one effect; looked up first, they give ten thousand.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from paydesk.errors import (
    EMPTY_REQUIRED_HEADER,
    IDEMPOTENCY_KEY_ALREADY_USED,
    INVALID_IDEMPOTENCY_KEY_LENGTH,
    RESOURCE_LOCKED,
)
from paydesk.storage.database import Transaction

_VISIBLE = re.compile("[!-~]{1,64}")

CLAIM = """
INSERT INTO idempotency_keys (seller_id, application_id, live, operation, object_id, idempotency_key, digest, replays,
                              created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8) ON CONFLICT DO NOTHING RETURNING 1"""

_MINE = """
WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND operation = $4 AND object_id = $5
  AND idempotency_key = $6"""

REPLAY = f"UPDATE idempotency_keys SET replays = replays + 1 {_MINE} RETURNING digest, status, answer"

KEEP = f"UPDATE idempotency_keys SET status = $7, answer = $8 {_MINE}"

RELEASE = f"DELETE FROM idempotency_keys {_MINE}"

# Out: keys of operation $4 that were claimed before $2 are gone, at most $3.
PRUNE = """
DELETE FROM idempotency_keys
 WHERE seller_id = $1 AND (application_id, live, operation, object_id, idempotency_key) IN (
       SELECT application_id, live, operation, object_id, idempotency_key FROM idempotency_keys
        WHERE seller_id = $1 AND operation = $4 AND created_ms < $2
        ORDER BY created_ms LIMIT $3 FOR UPDATE SKIP LOCKED)"""


class Key(NamedTuple):
    """Whose key it is and for what, as the primary key of its row: the same key elsewhere is another one."""

    seller_id: int
    application_id: int
    live: int
    operation: str
    object_id: str
    value: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer that was given before."""

    status: int
    body: bytes


def check(values: list[str]) -> str:
    """The one key among the header's values. Raises where there is none or it is malformed."""
    if not values or values == [""]:
        raise EMPTY_REQUIRED_HEADER.because("no idempotency key")
    if len(values) > 1 or not _VISIBLE.fullmatch(values[0]):
        raise INVALID_IDEMPOTENCY_KEY_LENGTH.because("malformed idempotency key")
    return values[0]


def request_digest(document: object, headers: list[str]) -> bytes:
    """What makes two requests the same: the parsed body and the operation's own headers."""
    return hashlib.sha256(msgspec.json.encode([document, headers], order="deterministic")).digest()


async def claim(tx: Transaction, key: Key, digest: bytes, now_ms: int) -> Stored | None:
    """None when the key is ours now; the stored answer when the same request was answered before.

    A replay counts itself: it commits a write of its own, so it never confirms what isn't durable.
    """
    if await tx.one(CLAIM, *key, digest, now_ms) is not None:
        return None
    row = await tx.one(REPLAY, *key)
    if row is None or row[1] is None:
        # Released between the two statements, or still to be answered: the caller tries again.
        raise RESOURCE_LOCKED.because("the key's first request is still running")
    stored_digest, status, answer = row
    if stored_digest != digest:
        raise IDEMPOTENCY_KEY_ALREADY_USED.because("same key, other request")
    return Stored(status, answer)


def keep(tx: Transaction, key: Key, status: int, body: bytes) -> None:
    """Store the answer with its effect."""
    tx.then(KEEP, *key, status, body)


async def release(tx: Transaction, key: Key) -> None:
    """A refusal binds no key, also where it keeps something else."""
    await tx.run(RELEASE, *key)


async def prune(tx: Transaction, seller_id: int, before_ms: int, limit: int, *, operation: str) -> int:
    """Free keys of an operation that were claimed before; how many."""
    return await tx.run(PRUNE, seller_id, before_ms, limit, operation)
