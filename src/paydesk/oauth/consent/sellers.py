"""Sellers: whose orders and terminals everything is. Their passwords are hashed by the caller, see `passwords`."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core import ids
from paydesk.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Seller:
    """A seller; `seller_id` is the `user_id` on the wire."""

    seller_id: int
    email: str
    name: str
    country: str
    currency: str
    suspended_ms: int | None
    created_ms: int


_COLUMNS = "seller_id, email, name, country, currency, suspended_ms, created_ms"

# In: a new seller, unless the e-mail address is taken.
INSERT = f"""INSERT INTO sellers ({_COLUMNS}, password) VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)
    ON CONFLICT DO NOTHING RETURNING {_COLUMNS}"""

# Out: one seller.
GET = f"SELECT {_COLUMNS} FROM sellers WHERE seller_id = $1"

# Out: one seller, held until the commit: nobody else changes it meanwhile.
LOCK = f"{GET} FOR UPDATE"

# Out: the seller who signs in, with the hash of the password.
BY_EMAIL = f"SELECT {_COLUMNS}, password FROM sellers WHERE email = $1"

# Out: all sellers, the oldest first.
LIST = f"SELECT {_COLUMNS} FROM sellers ORDER BY created_ms, seller_id"

# What an operator may change of a seller: not the country and the currency, which orders were made in.
CHANGE = "UPDATE sellers SET email = $2, name = $3 WHERE seller_id = $1"

# In: nobody, with an address that a seller is about to get: an UPDATE can't say ON CONFLICT, and two that want the
# same address at once must not both believe that it is free.
CLAIM_EMAIL = f"""INSERT INTO sellers ({_COLUMNS}, password) VALUES ($1, $2, '', '', '', NULL, 0, '')
    ON CONFLICT DO NOTHING"""

# Out: nobody.
DROP_CLAIM = "DELETE FROM sellers WHERE seller_id = $1"

# Another password.
CHANGE_PASSWORD = "UPDATE sellers SET password = $2 WHERE seller_id = $1"

# The same password, hashed anew, unless there is another one by now.
REPLACE_HASH = "UPDATE sellers SET password = $3 WHERE seller_id = $1 AND password = $2"

# active -> suspended; the first instant stays.
SUSPEND = "UPDATE sellers SET suspended_ms = $2 WHERE seller_id = $1 AND suspended_ms IS NULL"

# suspended -> active.
RESUME = "UPDATE sellers SET suspended_ms = NULL WHERE seller_id = $1 AND suspended_ms IS NOT NULL"


async def create(
    tx: Transaction, *, email: str, name: str, country: str, currency: str, password_hash: str, now_ms: int
) -> Seller | None:
    """A new seller; None where the e-mail address, compared without regard to case, is taken."""
    row = await tx.one(INSERT, ids.seller_number(), email.lower(), name, country, currency, now_ms, password_hash)
    return Seller(*row) if row else None


async def get(tx: Transaction, seller_id: int) -> Seller | None:
    """The seller, or None."""
    row = await tx.one(GET, seller_id)
    return Seller(*row) if row else None


async def lock(tx: Transaction, seller_id: int) -> Seller | None:
    """The seller as they are until the commit, or None."""
    row = await tx.one(LOCK, seller_id)
    return Seller(*row) if row else None


async def find_by_email(tx: Transaction, email: str) -> tuple[Seller, str] | None:
    """The seller of that address and the hash of the password, or None."""
    row = await tx.one(BY_EMAIL, email.lower())
    return (Seller(*row[:7]), row[7]) if row else None


async def find_all(tx: Transaction) -> list[Seller]:
    """All sellers, the oldest first."""
    return [Seller(*row) for row in await tx.all(LIST)]


async def change(tx: Transaction, seller_id: int, *, email: str, name: str) -> bool:
    """Another address or name; False where there is no such seller or the address is somebody else's."""
    seller, email = await lock(tx, seller_id), email.lower()
    if seller is None or (email != seller.email and not await _claim_email(tx, seller_id, email)):
        return False
    return bool(await tx.run(CHANGE, seller_id, email, name))


async def _claim_email(tx: Transaction, seller_id: int, email: str) -> bool:
    """Whether the address is free; until the commit nobody else can have it then."""
    nobody = -seller_id
    return bool(await tx.run(CLAIM_EMAIL, nobody, email) and await tx.run(DROP_CLAIM, nobody))


async def change_password(tx: Transaction, seller_id: int, password_hash: str) -> bool:
    """Another password; False where there is no such seller."""
    return bool(await tx.run(CHANGE_PASSWORD, seller_id, password_hash))


async def replace_hash(tx: Transaction, seller_id: int, old: str, new: str) -> bool:
    """Another hash of the same password; False where another password was set meanwhile."""
    return bool(await tx.run(REPLACE_HASH, seller_id, old, new))


async def suspend(tx: Transaction, seller_id: int, now_ms: int) -> bool:
    """Nobody gets tokens to act for them, and those there are stop working; False where it is so already."""
    tx.notify("sellers")
    return bool(await tx.run(SUSPEND, seller_id, now_ms))


async def resume(tx: Transaction, seller_id: int) -> bool:
    """Applications may act for them again, with the tokens they had; False where they were not suspended."""
    tx.notify("sellers")
    return bool(await tx.run(RESUME, seller_id))
