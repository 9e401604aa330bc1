"""Withdrawing: a seller, or an operator for them, ends what an application was allowed."""

from __future__ import annotations

from paydesk.oauth import authorizations
from paydesk.storage.database import Transaction
from paydesk.webhooks import outbox
from paydesk.webhooks.schemas import DEAUTHORIZED


async def withdraw(tx: Transaction, *, seller_id: int, authorization_id: str, now_ms: int) -> bool:
    """End one authorization; False where it had ended before, or is unknown: then nothing happens.

    None of its codes and tokens is good for anything from the commit on, those included that are being made in this
    very moment; those of another authorization of the same two stay as they are. Orders under way go on.
    """
    application_id = await authorizations.withdraw(tx, seller_id, authorization_id, now_ms)
    if application_id is None:
        return False
    await _announce(tx, seller_id, application_id, authorization_id, now_ms)
    return True


async def withdraw_all(tx: Transaction, *, seller_id: int, now_ms: int) -> list[str]:
    """End every authorization of the seller, each as `withdraw` does; return their ids.

    Call it after the seller's sessions were ended in the same transaction: a consent that is being given in one of
    them is then either refused or among these.
    """
    withdrawn = await authorizations.withdraw_all(tx, seller_id, now_ms)
    for application_id, authorization_id in withdrawn:
        await _announce(tx, seller_id, application_id, authorization_id, now_ms)
    return [authorization_id for _, authorization_id in withdrawn]


async def _announce(tx: Transaction, seller_id: int, application_id: int, authorization_id: str, now_ms: int) -> None:
    tx.notify(authorizations.topic(authorization_id))
    await outbox.announce_connect(
        tx, seller_id=seller_id, application_id=application_id, action=DEAUTHORIZED, now_ms=now_ms
    )
