"""The SQL of the `operators` table."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.platform.storage.database import Row, Transaction

# Adds nothing if another operator has the e-mail address.
ADD = """
INSERT INTO operators (operator_id, name, role, email, digest, created_ms) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (email) DO NOTHING"""

BY_DIGEST = "SELECT operator_id, role, revoked_ms FROM operators WHERE digest = $1"

PERSON = "SELECT operator_id, name, role, email, password, revoked_ms FROM operators WHERE operator_id = $1"

LOCK_PERSON = f"{PERSON} AND revoked_ms IS NULL FOR UPDATE"

_ACCOUNT = """operator_id, name, role, email, CASE WHEN digest IS NULL THEN 0 ELSE 1 END,
CASE WHEN password IS NULL THEN 0 ELSE 1 END, created_ms, revoked_ms"""

ACCOUNT = f"SELECT {_ACCOUNT} FROM operators WHERE operator_id = $1"

# An account with the end of its open link, and the last use of a session that is still stored.
_SHOWN = f"""{_ACCOUNT},
(SELECT MAX(l.expires_ms) FROM operator_links l WHERE l.operator_id = operators.operator_id AND l.used_ms IS NULL),
(SELECT MAX(s.used_ms) FROM operator_sessions s WHERE s.operator_id = operators.operator_id)"""

SHOWN = f"SELECT {_SHOWN} FROM operators WHERE operator_id = $1"

# A page of the operators, revoked ones included.
LIST = f"SELECT {_SHOWN} FROM operators WHERE operator_id > $1 ORDER BY operator_id LIMIT $2"

# The valid owners, locked until the commit: of concurrent requests one at a time may reduce their number, or give an
# e-mail address to an operator. Those without a token and a password cannot authenticate.
LOCK_OWNERS = """
SELECT operator_id, CASE WHEN digest IS NULL AND (email IS NULL OR password IS NULL) THEN 0 ELSE 1 END FROM operators
 WHERE role = 'owner' AND revoked_ms IS NULL ORDER BY operator_id FOR UPDATE"""

LOCK = f"{ACCOUNT} FOR UPDATE"

IS_EMAIL_TAKEN = "SELECT 1 FROM operators WHERE email = $1 AND operator_id <> $2"

CHANGE = "UPDATE operators SET name = $2, role = $3, email = $4 WHERE operator_id = $1"

DELETE = "DELETE FROM operators WHERE operator_id = $1"

# valid -> revoked; the time of the first revocation is kept.
REVOKE = "UPDATE operators SET revoked_ms = $2 WHERE operator_id = $1 AND revoked_ms IS NULL"


@dataclass(frozen=True, slots=True)
class Person:
    """An operator who may have a password. `revoked_ms` is None for a valid one."""

    operator_id: str
    name: str
    role: str
    email: str | None
    password_hash: str | None
    revoked_ms: int | None


async def add(
    tx: Transaction, operator_id: str, name: str, role: str, *, email: str | None, digest: bytes | None, now_ms: int
) -> bool:
    """Insert an operator; return False if another one has the e-mail address, which is in lower case."""
    return bool(await tx.run(ADD, operator_id, name, role, email, digest, now_ms))


async def by_digest(tx: Transaction, digest: bytes) -> Row | None:
    """Return the id, the role and the revocation of the operator whose token has this digest, None if it is unknown."""
    return await tx.one(BY_DIGEST, digest)


async def person(tx: Transaction, operator_id: str) -> Person | None:
    """Return the operator, revoked or not, with the hash of the password, or None."""
    row = await tx.one(PERSON, operator_id)
    return Person(*row) if row else None


async def lock_person(tx: Transaction, operator_id: str) -> Person | None:
    """Return the operator, locked until the commit, or None if it is unknown or revoked."""
    row = await tx.one(LOCK_PERSON, operator_id)
    return Person(*row) if row else None


async def lock_owners(tx: Transaction) -> dict[str, bool]:
    """Return the valid owners by id, locked until the commit: whether each has a token or a password."""
    return {operator_id: bool(can_authenticate) for operator_id, can_authenticate in await tx.all(LOCK_OWNERS)}


async def change(tx: Transaction, operator_id: str, name: str, role: str, email: str | None) -> bool:
    """Set the operator's name, role and e-mail address; return False if another operator has that address.

    Call it with the owners locked, so that no other transaction takes the address.
    """
    if email is not None and await tx.one(IS_EMAIL_TAKEN, email, operator_id) is not None:
        return False
    return bool(await tx.run(CHANGE, operator_id, name, role, email))


async def revoke(tx: Transaction, operator_id: str, now_ms: int) -> bool:
    """Revoke the operator; return False when it is unknown or already revoked."""
    return bool(await tx.run(REVOKE, operator_id, now_ms))
