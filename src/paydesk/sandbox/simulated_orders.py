"""POST /v1/orders/{order_id}/events: brings a test order to a status without its terminal, by the moves of the table.

The order is taken off its terminal: who has it is told `cancel`, and what it says of it from then on is evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paydesk.core.errors import BAD_REQUEST, FORBIDDEN, Refusal
from paydesk.operation import Answer, Call
from paydesk.orders import status, status_labels, store
from paydesk.orders.handlers import requested_order
from paydesk.orders.order import Order
from paydesk.orders.status import ORIGINS, Move, State
from paydesk.payments import inquiry_store
from paydesk.sandbox.schemas import SimulatedRequest

FAILED_DETAIL = "rejected_other_reason"
"""Where none is asked for."""


@dataclass(frozen=True, slots=True)
class Step:
    """One move on the way, where it leads to if it may lead to several states, and what changes with it."""

    move: Move
    to: State | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


async def opened(call: Call) -> Order:
    """The order, held; out of time, it is expired now. Raises `order_not_found`, and `forbidden` if it is live."""
    order = await requested_order(call)
    if order.live:
        raise FORBIDDEN.with_reason(
            "a live order", message="Only test orders are brought to a status; a live one is paid at its terminal."
        )
    held = await store.lock(call.tx, order.seller_id, order.order_id)
    assert held is not None, "orders are never deleted"
    return await store.expire_overdue(call.tx, held, call.now_ms)


async def walk(call: Call) -> Answer | Refusal:
    """Make the moves of a status that needs no acquirer: failed, canceled, expired, action_required."""
    request: SimulatedRequest = call.body
    order = await opened(call)
    if is_granted(order):
        return illegal(order, request)
    moved = await go(call, order, way(order, request, call.now_ms))
    if moved is None:
        # Returned, not raised: an order that was overdue is expired now, and stays so.
        return illegal(order, request)
    if moved.state == status.CHECK_ON_TERMINAL:
        await inquiry_store.skip(call.tx, moved, call.now_ms)
    return Answer(204)


async def go(call: Call, order: Order, steps: Sequence[Step]) -> Order | None:
    """Make the moves one by one and take the order off its terminal; None where the first one is not legal."""
    moved = order
    for step in steps:
        changes = {"detached_ms": call.now_ms, **step.changes}
        made = await store.move(call.tx, step.move, moved, call.now_ms, to=step.to, **changes)
        if made is None:
            assert moved is order, f"{moved.state} leads on"
            return None
        moved = made
    await store.end_lease(call.tx, moved, "detached", call.now_ms)
    return moved


def way(order: Order, request: SimulatedRequest, now_ms: int) -> list[Step]:
    """The moves to the status, by way of the terminal, whether or not they are legal."""
    first = to_terminal(order)
    match request.status:
        case "failed":
            detail = request.status_detail or FAILED_DETAIL
            return [*first, Step(status.DECLINE, status.FAILED[detail], {"origin": ORIGINS[detail]})]
        case "canceled":
            return [*first, *_canceled(order, request.status_detail, now_ms)]
        case "expired":
            return [*first, Step(status.EXPIRE)]
        case "action_required":
            return [*first, Step(status.CHECK, None, {"origin": "service"})]
        case other:
            raise AssertionError(f"{other} needs the acquirer")


def to_terminal(order: Order) -> list[Step]:
    """The move that comes before every other."""
    return [Step(status.ACKNOWLEDGE)] if order.state == status.CREATED else []


def is_granted(order: Order) -> bool:
    """Whether the terminal may be charging: then nobody else has a say, until nobody knows the outcome."""
    return order.permitted_ms is not None and order.status in status.LIVE and order.state != status.CHECK_ON_TERMINAL


def illegal(order: Order, request: SimulatedRequest) -> Refusal:
    """The order does not go there."""
    standing = f"{status_labels.status_of(order)} ({order.payment_status_detail})" + (
        ", granted to its terminal" * is_granted(order)
    )
    return BAD_REQUEST.with_reason(
        f"{order.state} to {request.status}",
        f"the order is {standing}",
        message=f"The order can't be brought to {request.status}.",
    )


def _canceled(order: Order, detail: str | None, now_ms: int) -> list[Step]:
    asked = order.state == status.CANCELLATION_REQUESTED
    if detail == "canceled_by_api" or (detail is None and asked):
        ask = [] if asked else [Step(status.REQUEST_CANCEL, None, {"cancel_requested_ms": now_ms})]
        return [*ask, Step(status.CONFIRM_CANCEL)]
    return [Step(status.CANCEL_ON_TERMINAL, None, {"origin": "customer"})]
