"""Answers that are fixed later than their idempotency key was claimed: once, by whoever comes first.

The key's request asks somebody in between; who takes its intent up after a crash fixes the answer in its place.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from paydesk.storage.database import Transaction

BY_KEY = """
WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND operation = $4 AND object_id = $5
  AND idempotency_key = $6"""

# Without an answer -> answered, for good.
COMPLETE = f"UPDATE idempotency_keys SET status = $7, answer = $8 {BY_KEY} AND answer IS NULL"


class Key(NamedTuple):
    """Whose key it is and for what, as the primary key of its row: the same key elsewhere is another one."""

    seller_id: int
    application_id: int
    live: int
    operation: str
    object_id: str
    value: str

    @property
    def topic(self) -> str:
        """What is woken when the answer is fixed."""
        return f"answer:{hashlib.sha256(repr(tuple(self)).encode()).hexdigest()[:32]}"


async def complete(tx: Transaction, key: Key, status: int, body: bytes) -> bool:
    """Fix the key's answer and wake who waits for it; False where it has one, which stays."""
    completed = await tx.run(COMPLETE, *key, status, body) > 0
    if completed:
        tx.notify(key.topic)
    return completed
