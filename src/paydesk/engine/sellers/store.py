"""Sellers: the accounts that own orders and terminals. The caller hashes their passwords, see `passwords`."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core import ids
from paydesk.core.text.characters import canonical_email
from paydesk.platform.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Seller:
    """A seller; `seller_id` is `user_id` on the wire."""

    seller_id: int
    email: str
    name: str
    country: str
    currency: str
    suspended_ms: int | None
    created_ms: int


_COLUMNS = "seller_id, email, name, country, currency, suspended_ms, created_ms"

# Inserts a seller, unless the e-mail address is taken.
INSERT = f"""INSERT INTO sellers ({_COLUMNS}, password) VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)
    ON CONFLICT DO NOTHING RETURNING {_COLUMNS}"""

# Selects one seller.
GET = f"SELECT {_COLUMNS} FROM sellers WHERE seller_id = $1"

# Selects one seller, locked until the commit against changes.
LOCK = f"{GET} FOR UPDATE"

# Selects one seller, locked until the commit against deletion and changes; others may add what belongs to it.
LOCK_SHARED = f"{GET} FOR SHARE"

# Selects all sellers, the oldest first.
LIST = f"SELECT {_COLUMNS} FROM sellers ORDER BY created_ms, seller_id"

# The fields that an operator may change: not country and currency, on which existing orders depend.
CHANGE = "UPDATE sellers SET email = $2, name = $3 WHERE seller_id = $1"

# Inserts a placeholder that reserves an e-mail address. UPDATE has no ON CONFLICT, and of two concurrent transactions
# that change to the same address only one may succeed.
CLAIM_EMAIL = f"""INSERT INTO sellers ({_COLUMNS}, password) VALUES ($1, $2, '', '', '', NULL, 0, '')
    ON CONFLICT DO NOTHING"""

# Deletes the placeholder.
DROP_CLAIM = "DELETE FROM sellers WHERE seller_id = $1"

# Deletes a seller without anything that belongs to it.
DELETE = "DELETE FROM sellers WHERE seller_id = $1"

# active -> suspended; the first instant stays.
SUSPEND = "UPDATE sellers SET suspended_ms = $2 WHERE seller_id = $1 AND suspended_ms IS NULL"

# suspended -> active.
RESUME = "UPDATE sellers SET suspended_ms = NULL WHERE seller_id = $1 AND suspended_ms IS NOT NULL"


async def create(
    tx: Transaction, *, email: str, name: str, country: str, currency: str, password_hash: str, now_ms: int
) -> Seller | None:
    """Create a seller. Return None if the e-mail address, in its canonical form, is taken."""
    row = await tx.one(
        INSERT, ids.seller_number(), canonical_email(email), name, country, currency, now_ms, password_hash
    )
    return Seller(*row) if row else None


async def get(tx: Transaction, seller_id: int) -> Seller | None:
    """Return the seller, or None."""
    row = await tx.one(GET, seller_id)
    return Seller(*row) if row else None


async def lock(tx: Transaction, seller_id: int) -> Seller | None:
    """Return the seller, locked until the commit, or None."""
    row = await tx.one(LOCK, seller_id)
    return Seller(*row) if row else None


async def find_all(tx: Transaction) -> list[Seller]:
    """Return all sellers, the oldest first."""
    return [Seller(*row) for row in await tx.all(LIST)]


async def change(tx: Transaction, seller_id: int, *, email: str, name: str) -> bool:
    """Change the e-mail address and the name. Return False if the seller is unknown or the address is taken."""
    seller, email = await lock(tx, seller_id), canonical_email(email)
    if seller is None or (email != seller.email and not await _claim_email(tx, seller_id, email)):
        return False
    return bool(await tx.run(CHANGE, seller_id, email, name))


async def _claim_email(tx: Transaction, seller_id: int, email: str) -> bool:
    """Return whether the address is free; if so, no other transaction can take it before the commit."""
    placeholder_id = -seller_id
    return bool(await tx.run(CLAIM_EMAIL, placeholder_id, email) and await tx.run(DROP_CLAIM, placeholder_id))


async def lock_shared(tx: Transaction, seller_id: int) -> Seller | None:
    """Return the seller, which is not deleted before the commit, or None."""
    row = await tx.one(LOCK_SHARED, seller_id)
    return Seller(*row) if row else None


async def delete(tx: Transaction, seller_id: int) -> None:
    """Delete the seller, which the caller has locked and found to be unused."""
    tx.notify("sellers")
    await tx.run(DELETE, seller_id)


async def suspend(tx: Transaction, seller_id: int, now_ms: int) -> bool:
    """Stop all tokens of the seller and refuse new ones. Return False if the seller is suspended already."""
    tx.notify("sellers")
    return bool(await tx.run(SUSPEND, seller_id, now_ms))


async def resume(tx: Transaction, seller_id: int) -> bool:
    """Make the seller's tokens work again. Return False if the seller is not suspended."""
    tx.notify("sellers")
    return bool(await tx.run(RESUME, seller_id))
