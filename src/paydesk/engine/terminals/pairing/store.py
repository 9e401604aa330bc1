"""SQL of pairings. Codes are stored as digests; an expired row counts as missing."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core.secrets import digest
from paydesk.platform.storage.database import Transaction

DELETED_MAX = 20
"""Expired rows that a new pairing deletes, so that the table shrinks after a flood."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """One row of `pairings`. `expires_ms` is the end of the code; of an approved row, of the time to get its token."""

    device_digest: bytes
    model: str
    serial: str
    address: str
    expires_ms: int
    denied_ms: int | None
    seller_id: int | None
    """Set when it was approved, with `key_version`: the server key that the device token is derived from."""
    key_version: int | None

    @property
    def terminal_id(self) -> str:
        """Return the id of the terminal that asks to be paired."""
        return f"{self.model}__{self.serial}"


_PAIRING = "device_digest, model, serial, address, expires_ms, denied_ms, seller_id, key_version"

DELETE_EXPIRED = """DELETE FROM pairings WHERE device_digest IN (WITH old AS MATERIALIZED (
    SELECT device_digest FROM pairings WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
    SELECT * FROM old)"""

COUNT_OPEN = """SELECT COUNT(*) FROM (SELECT 1 AS one FROM pairings WHERE expires_ms > $1 LIMIT $2) counted"""

# Inserts nothing if the user code is taken.
INSERT = """INSERT INTO pairings (device_digest, user_digest, model, serial, address, created_ms, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING"""

BY_DEVICE_CODE = f"SELECT {_PAIRING} FROM pairings WHERE device_digest = $1 AND expires_ms > $2"

_PENDING = "user_digest = $1 AND expires_ms > $2 AND approved_ms IS NULL AND denied_ms IS NULL"

PENDING = f"SELECT {_PAIRING} FROM pairings WHERE {_PENDING}"

# pending -> approved: of two operators exactly one.
APPROVE = f"""UPDATE pairings SET approved_ms = $2, seller_id = $3, key_version = $4, expires_ms = $5
    WHERE {_PENDING} RETURNING {_PAIRING}"""

# pending -> denied.
DENY = f"UPDATE pairings SET denied_ms = $2 WHERE {_PENDING} RETURNING {_PAIRING}"


async def delete_expired(tx: Transaction, now_ms: int) -> None:
    """Delete the oldest expired rows, at most `DELETED_MAX`."""
    await tx.run(DELETE_EXPIRED, now_ms, DELETED_MAX)


async def is_full(tx: Transaction, now_ms: int, open_max: int) -> bool:
    """Return whether `open_max` pairings have not expired."""
    row = await tx.one(COUNT_OPEN, now_ms, open_max)
    assert row is not None, "an aggregate has a row"
    return bool(row[0] >= open_max)


async def insert(
    tx: Transaction,
    device_code: str,
    user_code: str,
    *,
    model: str,
    serial: str,
    address: str,
    now_ms: int,
    expires_ms: int,
) -> bool:
    """Insert a pending pairing; return False if the user code is taken."""
    codes = digest(device_code), digest(user_code)
    return bool(await tx.run(INSERT, *codes, model, serial, address, now_ms, expires_ms))


async def by_device_code(tx: Transaction, device_code: str, now_ms: int) -> Pairing | None:
    """Return the pairing, pending or decided, or None."""
    row = await tx.one(BY_DEVICE_CODE, digest(device_code), now_ms)
    return Pairing(*row) if row else None


async def pending(tx: Transaction, user_code: str, now_ms: int) -> Pairing | None:
    """Return the pairing that an operator can still decide, or None."""
    row = await tx.one(PENDING, digest(user_code), now_ms)
    return Pairing(*row) if row else None


async def approve(
    tx: Transaction, user_code: str, now_ms: int, *, seller_id: int, key_version: int, expires_ms: int
) -> Pairing | None:
    """Approve the pairing for a seller, once; return None if it is decided or has expired."""
    row = await tx.one(APPROVE, digest(user_code), now_ms, seller_id, key_version, expires_ms)
    return Pairing(*row) if row else None


async def deny(tx: Transaction, user_code: str, now_ms: int) -> Pairing | None:
    """Deny the pairing, once; return None if it is decided or has expired."""
    row = await tx.one(DENY, digest(user_code), now_ms)
    return Pairing(*row) if row else None
