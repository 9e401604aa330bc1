"""Create, get and cancel print actions."""

from __future__ import annotations

from paydesk.core import ids
from paydesk.engine.orders import slot
from paydesk.engine.orders.change import change_of
from paydesk.engine.orders.errors import TERMINAL_NOT_IN_PDV_MODE
from paydesk.engine.printing.errors import ACTION_NOT_FOUND, CANNOT_CANCEL_ACTION
from paydesk.engine.printing.schemas import ActionRequest, action_document
from paydesk.engine.terminals import modes
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.errors import TERMINAL_NOT_FOUND
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.terminals.print_actions.action import CANCEL, PrintAction
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey

LIFETIME_SECONDS = 900


def terminal_key(call: Call) -> tuple[ConflictKey, ...]:
    """Return the conflict key of creating a print action: its terminal."""
    return (conflict_keys.terminal(call.body.config.point.terminal_id),)


async def create(call: Call) -> Handled:
    """Print a text or an image on a terminal. It must accept orders, and have neither an order nor another action."""
    body: ActionRequest = call.body
    change, caller, point = change_of(call), call.caller, body.config.point
    # The row stays locked until the commit, so that no order can be created meanwhile.
    terminal = await terminals.for_order(call.tx, caller.seller_id, point.terminal_id)
    if terminal is None or bool(terminal.live) != caller.live:
        raise modes.not_usable(TERMINAL_NOT_FOUND, terminal, point.terminal_id)
    if terminal.operating_mode not in modes.ORDER_MODES:
        raise modes.takes_no_orders(TERMINAL_NOT_IN_PDV_MODE, terminal)
    await slot.expire_order(change, caller.seller_id, point.terminal_id, caller.application_id)
    await slot.expire_action(change, caller.seller_id, terminal.action_id, caller.application_id)
    action = PrintAction(
        seller_id=caller.seller_id,
        action_id=ids.uuid(),
        application_id=caller.application_id,
        live=int(caller.live),
        terminal_id=point.terminal_id,
        external_reference=body.external_reference,
        subtype=point.subtype,
        status="created",
        created_ms=call.now_ms,
        updated_ms=call.now_ms,
        expires_ms=call.now_ms + LIFETIME_SECONDS * 1000,
    )
    await action_store.create(call.tx, action, body.content)
    return Answer(201, action_document(action))


async def get(call: Call) -> Handled:
    """Retrieve a print action."""
    return Answer(200, action_document(await _requested_action(call)))


async def cancel(call: Call) -> Handled:
    """Cancel a print action. Its terminal must not have fetched it."""
    action = await _requested_action(call)
    await terminals.lock(call.tx, action.seller_id, action.terminal_id)
    action = await action_store.expire_overdue(call.tx, await _requested_action(call), call.now_ms)
    canceled = await action_store.end(call.tx, action, CANCEL, call.now_ms)
    if canceled is None:
        # Returned, not raised, so that an expiry above is committed.
        return CANNOT_CANCEL_ACTION.with_reason(f"is {action.status}", f"the action is {action.status}")
    return Answer(200, action_document(canceled))


async def _requested_action(call: Call) -> PrintAction:
    """Return the action of the path, of the caller's seller and mode. Raises `action_not_found`."""
    action = await action_store.find(call.tx, call.caller.seller_id, call.path)
    if action is None or bool(action.live) != call.caller.live:
        raise ACTION_NOT_FOUND.with_reason("unknown action" if action is None else "other mode")
    return action
