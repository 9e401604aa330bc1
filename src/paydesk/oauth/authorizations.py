"""Authorizations: which seller has authorized which application. A token is valid only while its authorization is."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core import ids
from paydesk.oauth import lifecycle
from paydesk.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Authorization:
    """A seller's consent for one application; its tokens are invalid once it is withdrawn."""

    seller_id: int
    authorization_id: str
    application_id: int
    scope: str
    created_ms: int
    withdrawn_ms: int | None


_COLUMNS = "seller_id, authorization_id, application_id, scope, created_ms, withdrawn_ms"

# Inserts an authorization, beside earlier ones of the same seller and application.
INSERT = f"INSERT INTO authorizations ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, NULL)"

# Selects one authorization.
GET = f"SELECT {_COLUMNS} FROM authorizations WHERE seller_id = $1 AND authorization_id = $2"

# Counts a seller's valid authorizations.
COUNT = f"SELECT COUNT(*) FROM authorizations WHERE seller_id = $1 AND {lifecycle.WITHDRAW.guard('authorizations')}"


async def create(tx: Transaction, *, seller_id: int, application_id: int, scope: str, now_ms: int) -> Authorization:
    """Create an authorization; earlier ones of the same seller and application stay as they are."""
    authorization = Authorization(seller_id, ids.ulid(now_ms), application_id, scope, now_ms, None)
    await tx.run(INSERT, seller_id, authorization.authorization_id, application_id, scope, now_ms)
    return authorization


def topic(authorization_id: str) -> str:
    """Return the topic notified when the authorization is withdrawn."""
    return f"authorization:{authorization_id}"


async def get(tx: Transaction, seller_id: int, authorization_id: str) -> Authorization | None:
    """Return the authorization, or None."""
    row = await tx.one(GET, seller_id, authorization_id)
    return Authorization(*row) if row else None


async def count(tx: Transaction, seller_id: int) -> int:
    """Return how many authorizations of the seller have not been withdrawn."""
    row = await tx.one(COUNT, seller_id)
    assert row is not None
    number: int = row[0]
    return number
