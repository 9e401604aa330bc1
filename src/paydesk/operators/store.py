"""The SQL of operators: who they are, what they changed, and what they should know about."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.storage.database import Transaction

ADD = """
INSERT INTO operators (operator_id, name, role, digest, created_ms) VALUES ($1, $2, $3, $4, $5)"""

BY_DIGEST = "SELECT operator_id, role FROM operators WHERE digest = $1 AND revoked_ms IS NULL"

_PERSON = "operator_id, name, role, created_ms, revoked_ms"

# Out: one operator, whoever they are.
PERSON = f"SELECT {_PERSON} FROM operators WHERE operator_id = $1"

# Out: a page of the operators, those that were revoked too.
LIST = f"SELECT {_PERSON} FROM operators WHERE operator_id > $1 ORDER BY operator_id LIMIT $2"

# good -> revoked; the first instant stays.
REVOKE = "UPDATE operators SET revoked_ms = $2 WHERE operator_id = $1 AND revoked_ms IS NULL"

AUDIT = """
INSERT INTO operator_audit (entry_id, operator_id, action, subject, address, before, after, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""


@dataclass(frozen=True, slots=True)
class Operator:
    """Who acts: the operator's id and role."""

    operator_id: str
    role: str


@dataclass(frozen=True, slots=True)
class Person:
    """An operator as others see them."""

    operator_id: str
    name: str
    role: str
    created_ms: int
    revoked_ms: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit trail, its columns in their order; `before` and `after` are JSON or None."""

    entry_id: str
    operator_id: str
    action: str
    subject: str
    address: str
    before: str | None
    after: str | None
    created_ms: int


async def add(tx: Transaction, operator_id: str, name: str, role: str, digest: bytes, now_ms: int) -> None:
    """A new operator with the digest of their token."""
    await tx.run(ADD, operator_id, name, role, digest, now_ms)


async def by_digest(tx: Transaction, digest: bytes) -> Operator | None:
    """The operator whose token has this digest, or None when there is none or it was revoked."""
    row = await tx.one(BY_DIGEST, digest)
    return Operator(*row) if row else None


async def person(tx: Transaction, operator_id: str) -> Person | None:
    """The operator, revoked or not, or None."""
    row = await tx.one(PERSON, operator_id)
    return Person(*row) if row else None


async def revoke(tx: Transaction, operator_id: str, now_ms: int) -> bool:
    """The operator's token is good for nothing any more; False where it is so already, or unknown."""
    return bool(await tx.run(REVOKE, operator_id, now_ms))


async def audit(tx: Transaction, entry: Entry) -> None:
    """Write a line of the audit trail, in the transaction of what it tells of."""
    await tx.run(
        AUDIT,
        entry.entry_id,
        entry.operator_id,
        entry.action,
        entry.subject,
        entry.address,
        entry.before,
        entry.after,
        entry.created_ms,
    )
