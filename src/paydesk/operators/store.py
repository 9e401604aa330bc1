"""The SQL of the `operators` table."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.storage.database import Row, Transaction

ADD = """
INSERT INTO operators (operator_id, name, role, digest, created_ms) VALUES ($1, $2, $3, $4, $5)"""

BY_DIGEST = "SELECT operator_id, role FROM operators WHERE digest = $1 AND revoked_ms IS NULL"

_ACCOUNT = "operator_id, name, role, created_ms, revoked_ms"

ACCOUNT = f"SELECT {_ACCOUNT} FROM operators WHERE operator_id = $1"

# A page of the operators, revoked ones included.
LIST = f"SELECT {_ACCOUNT} FROM operators WHERE operator_id > $1 ORDER BY operator_id LIMIT $2"

# The valid owners, locked until the commit: of concurrent requests one at a time may reduce their number.
LOCK_OWNERS = """
SELECT operator_id FROM operators WHERE role = 'owner' AND revoked_ms IS NULL ORDER BY operator_id FOR UPDATE"""

LOCK = f"{ACCOUNT} FOR UPDATE"

CHANGE = "UPDATE operators SET name = $2, role = $3 WHERE operator_id = $1"

DELETE = "DELETE FROM operators WHERE operator_id = $1"

# valid -> revoked; the time of the first revocation is kept.
REVOKE = "UPDATE operators SET revoked_ms = $2 WHERE operator_id = $1 AND revoked_ms IS NULL"


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator that a bearer token authenticates."""

    operator_id: str
    role: str


async def add(tx: Transaction, operator_id: str, name: str, role: str, digest: bytes, now_ms: int) -> None:
    """Insert an operator with the digest of their token."""
    await tx.run(ADD, operator_id, name, role, digest, now_ms)


async def by_digest(tx: Transaction, digest: bytes) -> Operator | None:
    """Return the operator whose token has this digest, or None when it is unknown or revoked."""
    row = await tx.one(BY_DIGEST, digest)
    return Operator(*row) if row else None


async def account(tx: Transaction, operator_id: str) -> Row | None:
    """Return the row of the operator, revoked or not, or None."""
    return await tx.one(ACCOUNT, operator_id)


async def lock_owners(tx: Transaction) -> list[str]:
    """Return the ids of the valid owners, locked until the commit."""
    return [row[0] for row in await tx.all(LOCK_OWNERS)]


async def lock(tx: Transaction, operator_id: str) -> Row | None:
    """Return the row of the operator, locked until the commit, or None."""
    return await tx.one(LOCK, operator_id)


async def change(tx: Transaction, operator_id: str, name: str, role: str) -> None:
    """Set the operator's name and role."""
    await tx.run(CHANGE, operator_id, name, role)


async def delete(tx: Transaction, operator_id: str) -> None:
    """Delete the operator, whose token is unknown from then on."""
    await tx.run(DELETE, operator_id)


async def revoke(tx: Transaction, operator_id: str, now_ms: int) -> bool:
    """Revoke the operator's token; return False when it is unknown or already revoked."""
    return bool(await tx.run(REVOKE, operator_id, now_ms))
