"""Resolve a refund that the acquirer has not decided, for an operator who has seen what became of it."""

from __future__ import annotations

from typing import Literal

from paydesk.core.clock import rfc3339
from paydesk.engine.orders.change import Change
from paydesk.engine.payments import confirmation_store
from paydesk.engine.payments.acquirer import Approved
from paydesk.engine.payments.errors import CANNOT_RESOLVE_REFUND
from paydesk.engine.payments.lifecycles import CONFIRMING, PROCESSED, PROCESSING
from paydesk.engine.payments.refunds import store
from paydesk.engine.payments.refunds.attempts import complete_request

Ending = Literal["processed", "failed"]


async def resolve(
    change: Change,
    seller_id: int,
    refund_id: str,
    ending: Ending,
    *,
    reference_id: str,
    wall_ms: int,
    after_seconds: int,
) -> None:
    """End an existing refund, with the order's move as after the acquirer's answer. Raises `CANNOT_RESOLVE_REFUND`.

    `reference_id` is the acquirer's number for a processed refund, or "". `wall_ms` is the machine's time, which leases
    follow.
    """
    is_free = await store.lock_unclaimed(change.tx, seller_id, refund_id, wall_ms)
    refund = await store.find(change.tx, seller_id, refund_id)
    if refund.status != PROCESSING.name:
        raise CANNOT_RESOLVE_REFUND.with_reason(f"is {refund.status}", f"the refund is {refund.status}")
    from_ms = refund.created_ms + after_seconds * 1000
    if change.now_ms < from_ms:
        raise CANNOT_RESOLVE_REFUND.with_reason(
            "too early", f"the acquirer may still decide it; an operator can resolve it from {rfc3339(from_ms)}"
        )
    if not is_free:
        raise CANNOT_RESOLVE_REFUND.with_reason(
            "is claimed", "an attempt at the acquirer is in progress; retry in a minute"
        )
    confirmation = await confirmation_store.find(change.tx, await complete_request(change.tx, refund))
    if confirmation is not None and confirmation.status == CONFIRMING.name:
        raise CANNOT_RESOLVE_REFUND.with_reason(
            "is not confirmed", "it waits for the confirmation of the payment, and was never sent to the acquirer"
        )
    if ending == PROCESSED.name:
        await store.confirm(change, refund, Approved(reference_id, refund.amount_minor))
    else:
        await store.fail(change, refund)
