"""Print actions at the terminal: hand one out with a poll, and take the terminal's report about it."""

from __future__ import annotations

import msgspec

from paydesk.engine.device.schemas import Message, PrintResultAnswer, PrintResultRequest, ReportedAction
from paydesk.engine.device.sessions import lock_session, refuse_revoked
from paydesk.engine.printing.errors import ACTION_NOT_FOUND
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.terminals.print_actions.action import CREATED, FAIL, PRINT
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Transaction


async def hand_out(call: Call, message: Message) -> Message | None:
    """Make the action of the message `on_terminal` and return the message with its content; None if it has ended."""
    seller_id, terminal_id = call.caller.seller_id, call.caller.terminal_id
    action_id, now_ms = message.action_id or "", call.clock.now_ms()

    async def work(tx: Transaction) -> Message | None:
        await terminals.lock(tx, seller_id, terminal_id)
        fetched = await action_store.hand_out(tx, seller_id, action_id, now_ms)
        return None if fetched is None else msgspec.structs.replace(message, subtype=fetched[0], content=fetched[1])

    return await call.database.write(work, conflict_keys=terminal_key(call))


async def report(call: Call) -> Handled:
    """Report whether a print action was printed. A second report changes nothing, nor does one after its end."""
    refuse_revoked(call)
    request: PrintResultRequest = call.body
    seller_id, terminal_id = call.caller.seller_id, call.caller.terminal_id
    # For the change of the row; `lock_session` alone takes a weaker lock, and two calls that have it would deadlock.
    await terminals.lock(call.tx, seller_id, terminal_id)
    await lock_session(call, request.boot_id)
    action = await action_store.find(call.tx, seller_id, call.path)
    if action is None or action.terminal_id != terminal_id or action.status == CREATED.name:
        raise ACTION_NOT_FOUND.with_reason("unknown action" if action is None else "not fetched by this terminal")
    action = await action_store.expire_overdue(call.tx, action, call.now_ms)
    ended = await action_store.end(call.tx, action, PRINT if request.outcome == "printed" else FAIL, call.now_ms)
    action = ended or action
    return Answer(200, PrintResultAnswer(ReportedAction(action.action_id, action.status)))


def terminal_key(call: Call) -> tuple[ConflictKey, ...]:
    """Return what a call about a print action may change or lock: the terminal, with its slot."""
    return (conflict_keys.terminal(call.caller.terminal_id),)
