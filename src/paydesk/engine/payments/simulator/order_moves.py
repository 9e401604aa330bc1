"""POST /v1/orders/{order_id}/events: moves a test order to a status without its terminal, by legal moves only.

The order is detached from its terminal: the terminal receives `cancel`, and a later result from it is only recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paydesk.core.errors import BAD_REQUEST, FORBIDDEN, Refusal
from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import Change, change_of
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.engine.orders.handlers import requested_order
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import ORIGINS, Move, State
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.payments import inquiry_store
from paydesk.engine.payments.simulator.schemas import SimulatedRequest
from paydesk.platform.operation import Answer, Call

FAILED_DETAIL = "rejected_other_reason"
"""The default where the request has none."""


@dataclass(frozen=True, slots=True)
class Step:
    """One move, its target state where the move has several, and the columns it changes."""

    move: Move
    to: State | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


async def lock_test_order(call: Call) -> Order:
    """Lock and return the order, expired if it is overdue. Raises `order_not_found`; `forbidden` if it is live."""
    order = await requested_order(call)
    if order.live:
        raise FORBIDDEN.with_reason(
            "a live order", message="Only test orders can be moved to a status. A live order is paid at its terminal."
        )
    locked = await store.lock(call.tx, order.seller_id, order.order_id)
    if locked is None:
        raise ORDER_NOT_FOUND.with_reason("a reset has removed the order")
    return await store.expire_overdue(change_of(call), locked)


async def move_order(call: Call) -> Answer | Refusal:
    """Move the order to a status that needs no acquirer: failed, canceled, expired, action_required."""
    change, order = change_of(call), await lock_test_order(call)
    if is_authorization_permitted(order):
        return unreachable(call, order)
    moved = await make_moves(change, order, steps_to(order, call.body, call.now_ms))
    if moved is None:
        # Returned, not raised: if the order was overdue, its expiry is committed.
        return unreachable(call, order)
    if moved.state == status.CHECK_ON_TERMINAL:
        await inquiry_store.skip(change, moved)
    return Answer(204)


async def make_moves(change: Change, order: Order, steps: Sequence[Step]) -> Order | None:
    """Make the moves and detach the order from its terminal. Return None where the first move is not legal."""
    moved = order
    for step in steps:
        columns = {"detached_ms": change.now_ms, **step.columns}
        following = await store.move(change, step.move, moved, to=step.to, **columns)
        if following is None:
            assert moved is order, f"no move from {moved.state}"
            return None
        moved = following
    await store.end_lease(change, moved, "detached")
    return moved


def steps_to(order: Order, request: SimulatedRequest, now_ms: int) -> list[Step]:
    """Return the moves to the status, through `at_terminal`, whether or not they are legal."""
    first = step_to_terminal(order)
    match request.status:
        case "failed":
            detail = request.status_detail or FAILED_DETAIL
            return [*first, Step(status.DECLINE, status.FAILED[detail], {"origin": ORIGINS[detail]})]
        case "canceled":
            is_requested = order.state == status.CANCELLATION_REQUESTED
            if request.status_detail == "canceled_by_api" or (request.status_detail is None and is_requested):
                if not is_requested:
                    first.append(Step(status.REQUEST_CANCEL, None, {"cancel_requested_ms": now_ms}))
                return [*first, Step(status.CONFIRM_CANCEL)]
            return [*first, Step(status.CANCEL_ON_TERMINAL, None, {"origin": "customer"})]
        case "expired":
            return [*first, Step(status.EXPIRE)]
        case "action_required":
            return [*first, Step(status.CHECK, None, {"origin": "service"})]
        case other:
            raise AssertionError(f"{other} needs the acquirer")


def step_to_terminal(order: Order) -> list[Step]:
    """Return the move to the terminal that a created order makes first."""
    return [Step(status.ACKNOWLEDGE)] if order.state == status.CREATED else []


def is_authorization_permitted(order: Order) -> bool:
    """Whether the terminal may be charging: then the order cannot be moved until the outcome is unknown."""
    return order.permitted_ms is not None and order.status in status.LIVE and order.state != status.CHECK_ON_TERMINAL


def unreachable(call: Call, order: Order) -> Refusal:
    """Return the refusal: the order cannot be moved to the requested status."""
    request: SimulatedRequest = call.body
    current = f"{call.shared.objects[Labels].of(order)} ({order.payment_status_detail})" + (
        ", authorization permitted" * is_authorization_permitted(order)
    )
    return BAD_REQUEST.with_reason(
        f"{order.state} to {request.status}",
        f"the order is {current}",
        message=f"The order cannot be moved to {request.status}.",
    )
