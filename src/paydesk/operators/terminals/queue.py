"""A terminal's slot: which order or print action holds it and what that waits for; and its release by an operator."""

from __future__ import annotations

from typing import Any, Literal

from paydesk.core.clock import rfc3339
from paydesk.core.response import Closed, Time, time_or_none
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import change_of
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.waiting import WaitsFor
from paydesk.engine.terminals import presence
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.presence import Seen
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.terminals.print_actions.action import CREATED, ON_TERMINAL, RELEASE
from paydesk.engine.terminals.schemas import Presence
from paydesk.operators import audit
from paydesk.operators.errors import CANNOT_RELEASE_TERMINAL
from paydesk.operators.orders.waiting import Sentence, WaitTimes, periods_of, wait_for
from paydesk.operators.schemas import ReasonRequest
from paydesk.operators.terminals.handlers import unknown
from paydesk.platform.operation import Answer, Call

PrintWaitsFor = Literal["fetch", "printing"]
PRINT_WAITS: dict[str, tuple[PrintWaitsFor, str]] = {
    CREATED.name: ("fetch", "The print action waits for the terminal to fetch it; at {until} it is canceled."),
    ON_TERMINAL.name: (
        "printing",
        "The terminal has the print action and has not reported that it printed it; at {until} it is canceled.",
    ),
}
"""The wait of an open print action by its status, and as people read it."""


class SlotDocument(WaitTimes, frozen=True):
    """What holds a terminal."""

    type: Literal["order", "print"]
    id: str
    status: str
    since_date: Time
    application_id: str
    waits_for: WaitsFor | PrintWaitsFor
    message: Sentence
    terminal_presence: Presence
    last_seen_date: Time | None = None


class Released(Closed, frozen=True):
    """The order or print action that a release has ended."""

    type: Literal["order", "print"]
    id: str
    status: str


class QueueDocument(Closed, frozen=True):
    """What holds a terminal: `current` is absent if nothing does."""

    current: SlotDocument | None = None


class ReleaseDocument(QueueDocument, frozen=True):
    """What was released, and what holds the terminal now."""

    released: Released | None = None


async def queue(call: Call) -> Answer:
    """Show what holds a terminal: an order or a print action, and what that waits for."""
    seen = await _seen(call)
    order = await orders.live_on_terminal(call.tx, seen.seller_id, call.path)
    last_seen = time_or_none(seen.last_seen_ms)
    if order is not None:
        wait = await wait_for(call.tx, order, periods_of(call.settings), call.shared.objects[Acquirers])
        slot = SlotDocument.of(
            wait,
            type="order",
            id=order.order_id,
            status=call.shared.objects[Labels].of(order),
            since_date=rfc3339(await orders.status_since_ms(call.tx, order)),
            application_id=str(order.application_id),
            message=wait.sentence(),
            terminal_presence=seen.presence,
            last_seen_date=last_seen,
        )
        return Answer(200, QueueDocument(slot))
    action = await action_store.open_on_terminal(call.tx, seen.seller_id, call.path)
    if action is None:
        return Answer(200, QueueDocument())
    (waits_for, sentence), until = PRINT_WAITS[action.status], rfc3339(action.expires_ms)
    slot = SlotDocument.of(
        action,
        type="print",
        id=action.action_id,
        since_date=rfc3339(action.updated_ms),
        application_id=str(action.application_id),
        waits_for=waits_for,
        message=sentence.format(until=until),
        terminal_presence=seen.presence,
        last_seen_date=last_seen,
        until_date=until,
    )
    return Answer(200, QueueDocument(slot))


async def release(call: Call) -> Answer:
    """Release a terminal from its order: cancel it, unless authorization is permitted. Likewise its print action.

    Without either nothing changes.
    """
    body: ReasonRequest = call.body
    seller_id, change = (await _seen(call)).seller_id, change_of(call)
    # New orders and actions and the terminal's calls wait meanwhile.
    await terminals.lock(call.tx, seller_id, call.path)
    action = await action_store.open_on_terminal(call.tx, seller_id, call.path)
    if action is not None:
        ended = await action_store.end(call.tx, action, RELEASE, call.now_ms)
        assert ended is not None, "it was read as open, and the terminal's row is locked"
        earlier = {"action_id": action.action_id, "status": action.status}
        later = {**earlier, "status": ended.status, "reason": body.reason}
        await audit.record(call, call.tx, "terminals.release", call.path, before=earlier, after=later)
        return Answer(200, ReleaseDocument(released=Released("print", ended.action_id, ended.status)))
    live = await orders.live_on_terminal(call.tx, seller_id, call.path)
    before = None if live is None else await orders.lock(call.tx, seller_id, live.order_id)
    if before is None or (await orders.expire_overdue(change, before)).status not in status.LIVE:
        return Answer(200, ReleaseDocument())
    released = await orders.end(change, status.RELEASE, before, "detached")
    if released is None:
        wait = await wait_for(call.tx, before, periods_of(call.settings), call.shared.objects[Acquirers])
        detail = f"{before.order_id}: {wait.sentence()}"
        raise CANNOT_RELEASE_TERMINAL.with_reason(f"the order is {before.state}", detail)
    after = {**_audited(released), "reason": body.reason}
    await audit.record(call, call.tx, "terminals.release", call.path, before=_audited(before), after=after)
    label = change.labels.of(released)
    return Answer(200, ReleaseDocument(released=Released("order", released.order_id, label)))


async def _seen(call: Call) -> Seen:
    """Return the terminal's seller and presence. Raises `TERMINAL_NOT_FOUND`."""
    seen = await presence.find(call.tx, call.path)
    if seen is None:
        raise unknown()
    return seen


def _audited(order: Order) -> dict[str, Any]:
    return {"order_id": order.order_id, "status": order.status, "version": order.version}
