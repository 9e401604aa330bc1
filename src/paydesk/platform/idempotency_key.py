"""The key of a request: what `platform.idempotency` stores a response under."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Key(NamedTuple):
    """The primary key of an idempotency key's row: the same value for another operation or object is another key."""

    seller_id: int
    application_id: int
    live: int
    operation: str
    object_id: str
    value: str

    @property
    def topic(self) -> str:
        """The signal that is sent when the key's response is stored."""
        return f"answer:{hashlib.sha256(repr(tuple(self)).encode()).hexdigest()[:32]}"
