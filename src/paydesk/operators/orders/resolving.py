"""Operators set the outcome of an order, a reversal or a refund, and record how a refused payment was settled.

The audit trail records each with the operator and the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from paydesk.core.errors import ErrorKind
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change, change_at, change_of
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.presentation import order_document
from paydesk.engine.payments import confirmation_store, resolving, terms
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.errors import (
    CANNOT_RESOLVE_CONFIRMATION,
    CANNOT_RESOLVE_ORDER,
    REFUND_NOT_FOUND,
    REVERSAL_NOT_FOUND,
)
from paydesk.engine.payments.outcomes import Paid, claim_reference
from paydesk.engine.payments.refunds import resolving as refund_resolving
from paydesk.operators import audit, owners
from paydesk.operators.deliveries.retried import Retried
from paydesk.operators.orders.fields import ResolveRequest
from paydesk.operators.orders.outcomes import (
    CONFIRMATION,
    REFUND,
    REVERSAL,
    ConfirmationDocument,
    ListedRefund,
    ReversalDocument,
    Work,
    find,
)
from paydesk.operators.schemas import ReasonRequest
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction

OWNER = {work.table: owners.statement(work.table, work.key) for work in (REVERSAL, REFUND)}


async def order(call: Call) -> Answer:
    """Set the outcome of an order whose outcome is unknown; the audit trail records the operator and the reason."""
    body: ResolveRequest = call.body
    change, before = change_of(call), await _locked(call.tx, await owners.owner_of(call.tx, call.path), call.path)
    paid = await _paid(call.tx, before, body)
    if paid.reference_id is not None and not await claim_reference(call.tx, before, paid.reference_id):
        raise CANNOT_RESOLVE_ORDER.with_reason(
            "reference of another order", f"{paid.reference_id} is the reference of another order's payment"
        )
    acquirer = call.shared.objects[Acquirers].of(before)
    resolved = await resolving.resolve(change, before, body.outcome, paid, settings=call.settings, acquirer=acquirer)
    after = {**_state(resolved), **body.model_dump(exclude_none=True)}
    await audit.record(call, call.tx, "orders.resolve", resolved.order_id, before=_state(before), after=after)
    return Answer(200, order_document(resolved, change.labels))


async def reversal(call: Call) -> Answer:
    """Set the outcome of an unconfirmed reversal; the audit trail records the operator and the reason."""

    async def end(change: Change, one: SimpleNamespace, **times: int) -> None:
        of_order = await _locked(change.tx, one.seller_id, one.order_id)
        await resolving.resolve_reversal(change, of_order, one.id, call.body.outcome, **times)

    return await _change(call, "reversals.resolve", REVERSAL, REVERSAL_NOT_FOUND, ReversalDocument, end)


async def refund(call: Call) -> Answer:
    """Set the outcome of a refund that the acquirer has not decided; the audit trail records operator and reason."""

    async def end(change: Change, one: SimpleNamespace, **times: int) -> None:
        outcome, reference_id = call.body.outcome, call.body.reference_id or ""
        await refund_resolving.resolve(change, one.seller_id, one.id, outcome, reference_id=reference_id, **times)

    return await _change(call, "refunds.resolve", REFUND, REFUND_NOT_FOUND, ListedRefund, end)


async def confirmation(call: Call) -> Answer:
    """Record how an operator has settled a payment that the acquirer refused to confirm."""
    body: ReasonRequest = call.body
    of_order = await _locked(call.tx, await owners.owner_of(call.tx, call.path), call.path)
    is_resolved = await confirmation_store.resolve(call.tx, of_order, body.reason)
    one = await find(call.tx, CONFIRMATION, of_order.seller_id, call.path)
    if one is None:
        raise CANNOT_RESOLVE_CONFIRMATION.with_reason("has none", "the payment needed no confirmation")
    if not is_resolved:
        is_settled = one.resolution is not None
        reason = "is resolved" if is_settled else f"is {one.status}"
        detail = f"it is resolved: {one.resolution}" if is_settled else f"the confirmation is {one.status}, not refused"
        raise CANNOT_RESOLVE_CONFIRMATION.with_reason(reason, detail)
    before, after = {"status": one.status}, {"status": one.status, "reason": body.reason}
    await audit.record(call, call.tx, "confirmations.resolve", call.path, before=before, after=after)
    return Answer(200, ConfirmationDocument.of(one))


async def _change(
    call: Call, name: str, work: Work, unknown: ErrorKind, document: type[Retried], end: Callable[..., Awaitable[None]]
) -> Answer:
    """End the work of the path, record it under the name, and return its document.

    `end` gets the change, the row, and the times that decide whether it may end: claims follow the machine's. Raises
    `unknown`, and the refusals of `end`.
    """
    call.read_wall_clock()
    body, noun = call.body, work.table.removesuffix("s")

    async def ended(tx: Transaction) -> Any:
        owner = await tx.one(OWNER[work.table], call.path)
        before = None if owner is None else await find(tx, work, owner[0], call.path)
        if before is None:
            raise unknown.with_reason(f"no seller has this {noun}")
        times = {"wall_ms": call.wall_ms, "after_seconds": call.settings.resolve_after_seconds}
        await end(change_at(tx, call.now_ms, call.settings), before, **times)
        after = {"status": body.outcome, **body.model_dump(exclude_none=True, exclude={"outcome"})}
        earlier = {"status": before.status}
        await audit.record(call, tx, name, call.path, before=earlier, after=after)
        return document.of(await find(tx, work, before.seller_id, call.path))

    return Answer(200, await call.database.write(ended))


async def _locked(tx: Transaction, seller_id: int, order_id: str) -> Order:
    """Return the order, locked until the commit, of a seller who has it."""
    locked = await orders.lock(tx, seller_id, order_id)
    assert locked is not None, "its owner was found in this transaction"
    return locked


async def _paid(tx: Transaction, before: Order, body: ResolveRequest) -> Paid:
    """Return what the operator knows of an approval; the number of installments is that of the request."""
    method, card = None, None
    if body.payment_method_id is not None:
        requested = (await terms.find(tx, before)).requested
        asked = {} if requested is None else msgspec.json.decode(requested.payment_method)
        installments = asked.get("installments", 1)
        method = {"id": body.payment_method_id, "type": body.payment_method_type, "installments": installments}
    if body.first_digits is not None:
        card = {"first_digits": body.first_digits, "last_digits": body.last_digits}
    return Paid(body.reference_id, body.authorization_code, method, card)


def _state(one: Order) -> dict[str, Any]:
    return {"status": one.status, "status_detail": one.status_detail, "version": one.version}
