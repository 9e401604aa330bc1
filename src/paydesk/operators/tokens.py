"""Operators' tokens, `PDO-<40 hex>`: made once, shown once, kept as a digest."""

from __future__ import annotations

import re

from paydesk.core import ids
from paydesk.core.secrets import Secret, digest, new_hex
from paydesk.operators import store
from paydesk.storage.database import Transaction

PATTERN = re.compile(r"PDO-[0-9a-f]{40}", re.ASCII)
ROLES = ("owner", "operator", "support")


def new() -> Secret:
    """A new token of 160 random bits."""
    return Secret(f"PDO-{new_hex(160)}")


async def issue(tx: Transaction, token: Secret, name: str, role: str, now_ms: int) -> str:
    """Make an operator who carries the token; the operator's id."""
    assert role in ROLES, f"there is no role {role}"
    operator_id = ids.ulid(now_ms)
    await store.add(tx, operator_id, name, role, digest(token.reveal()), now_ms)
    return operator_id
