"""Authorizations: which seller lets which application act for them. Every token hangs on one that stands."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core import ids
from paydesk.oauth import lifecycle
from paydesk.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Authorization:
    """A seller's consent for one application; withdrawn, none of its tokens is good for anything."""

    seller_id: int
    authorization_id: str
    application_id: int
    scope: str
    created_ms: int
    withdrawn_ms: int | None


_COLUMNS = "seller_id, authorization_id, application_id, scope, created_ms, withdrawn_ms"

# In: a new consent, beside earlier ones of the same two.
INSERT = f"INSERT INTO authorizations ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, NULL)"

# Out: one consent.
GET = f"SELECT {_COLUMNS} FROM authorizations WHERE seller_id = $1 AND authorization_id = $2"

# Out: a seller's consents, the oldest first.
LIST = f"SELECT {_COLUMNS} FROM authorizations WHERE seller_id = $1 ORDER BY authorization_id"

# standing -> withdrawn; the first instant stays.
WITHDRAW = f"""UPDATE authorizations SET withdrawn_ms = $3
    WHERE seller_id = $1 AND authorization_id = $2 AND {lifecycle.WITHDRAW.guard("authorizations")}
    RETURNING application_id"""

# All that stand of a seller: standing -> withdrawn.
WITHDRAW_ALL = f"""UPDATE authorizations SET withdrawn_ms = $2
    WHERE seller_id = $1 AND {lifecycle.WITHDRAW.guard("authorizations")}
    RETURNING application_id, authorization_id"""

# Out: how many of a seller's authorizations stand.
COUNT = f"SELECT COUNT(*) FROM authorizations WHERE seller_id = $1 AND {lifecycle.WITHDRAW.guard('authorizations')}"


async def create(tx: Transaction, *, seller_id: int, application_id: int, scope: str, now_ms: int) -> Authorization:
    """A new consent; those the seller gave the application before stay as they are."""
    authorization = Authorization(seller_id, ids.ulid(now_ms), application_id, scope, now_ms, None)
    await tx.run(INSERT, seller_id, authorization.authorization_id, application_id, scope, now_ms)
    return authorization


def topic(authorization_id: str) -> str:
    """What is woken when the authorization is withdrawn."""
    return f"authorization:{authorization_id}"


async def get(tx: Transaction, seller_id: int, authorization_id: str) -> Authorization | None:
    """The authorization, or None."""
    row = await tx.one(GET, seller_id, authorization_id)
    return Authorization(*row) if row else None


async def find_of_seller(tx: Transaction, seller_id: int) -> list[Authorization]:
    """Whom the seller lets, or once let, act for them; the oldest first."""
    return [Authorization(*row) for row in await tx.all(LIST, seller_id)]


async def withdraw(tx: Transaction, seller_id: int, authorization_id: str, now_ms: int) -> int | None:
    """The application whose consent this ended; None where it had ended before, or is unknown."""
    row = await tx.one(WITHDRAW, seller_id, authorization_id, now_ms)
    return row[0] if row else None


async def withdraw_all(tx: Transaction, seller_id: int, now_ms: int) -> list[tuple[int, str]]:
    """End every authorization of the seller; return the application and the authorization's id of each, in order."""
    return sorted((row[0], row[1]) for row in await tx.all(WITHDRAW_ALL, seller_id, now_ms))


async def count(tx: Transaction, seller_id: int) -> int:
    """Return how many authorizations of the seller have not been withdrawn."""
    row = await tx.one(COUNT, seller_id)
    assert row is not None
    number: int = row[0]
    return number
