"""Withdrawal of authorizations by a seller, or by an operator for the seller."""

from __future__ import annotations

from paydesk.oauth import authorizations, lifecycle
from paydesk.storage.database import Transaction
from paydesk.webhooks import outbox
from paydesk.webhooks.schemas import DEAUTHORIZED

# valid -> withdrawn; the first instant stays.
WITHDRAW = f"""UPDATE authorizations SET withdrawn_ms = $3
    WHERE seller_id = $1 AND authorization_id = $2 AND {lifecycle.WITHDRAW.guard("authorizations")}
    RETURNING application_id"""

# All valid ones of a seller: valid -> withdrawn.
WITHDRAW_ALL = f"""UPDATE authorizations SET withdrawn_ms = $2
    WHERE seller_id = $1 AND {lifecycle.WITHDRAW.guard("authorizations")}
    RETURNING application_id, authorization_id"""


async def withdraw(tx: Transaction, *, seller_id: int, authorization_id: str, now_ms: int) -> bool:
    """Withdraw one authorization. Return False, without effect, if it is unknown or was withdrawn before.

    From the commit on all its codes and tokens are invalid, those included that a concurrent request creates. Other
    authorizations of the same seller and application stay valid, and orders in progress continue.
    """
    row = await tx.one(WITHDRAW, seller_id, authorization_id, now_ms)
    if row is None:
        return False
    await _announce(tx, seller_id, row[0], authorization_id, now_ms)
    return True


async def withdraw_all(tx: Transaction, *, seller_id: int, now_ms: int) -> list[str]:
    """Withdraw every authorization of the seller, each as `withdraw` does; return their ids.

    Call it after the seller's sessions were ended in the same transaction: a consent given concurrently in one of the
    sessions is then either refused or among the withdrawn.
    """
    withdrawn = sorted((row[0], row[1]) for row in await tx.all(WITHDRAW_ALL, seller_id, now_ms))
    for application_id, authorization_id in withdrawn:
        await _announce(tx, seller_id, application_id, authorization_id, now_ms)
    return [authorization_id for _, authorization_id in withdrawn]


async def _announce(tx: Transaction, seller_id: int, application_id: int, authorization_id: str, now_ms: int) -> None:
    tx.notify(authorizations.topic(authorization_id))
    await outbox.announce_connect(
        tx, seller_id=seller_id, application_id=application_id, action=DEAUTHORIZED, now_ms=now_ms
    )
