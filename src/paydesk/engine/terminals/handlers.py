"""Handlers of applications' requests about terminals: list them and set their operating modes."""

from __future__ import annotations

from paydesk.engine.terminals import modes, store
from paydesk.engine.terminals.presence import OrderLabels
from paydesk.engine.terminals.schemas import (
    ITEMS_MAX,
    ListedTerminals,
    Paging,
    SetupAnswer,
    SetupRequest,
    TerminalList,
    TerminalMode,
)
from paydesk.platform.operation import Answer, Call, Handled, Query

NUMBER = {"type": "integer", "minimum": 0}
LIMIT = Query(
    "limit",
    {"type": "integer", "minimum": 1, "default": ITEMS_MAX},
    f"Page size. Values above {ITEMS_MAX} mean {ITEMS_MAX}.",
)
OFFSET = Query("offset", {**NUMBER, "default": 0}, "Number of terminals to skip.")
STORE_ID = Query("store_id", NUMBER, "Only terminals of this store.")
POS_ID = Query("pos_id", NUMBER, "Only terminals of this point of sale.")


async def list_terminals(call: Call) -> Handled:
    """List the seller's terminals: one page of them, live or test as the token is."""
    offset = OFFSET.number(call.query) or 0
    limit = min(LIMIT.number(call.query) or ITEMS_MAX, ITEMS_MAX)
    total, terminals = await store.page(
        call.tx,
        call.caller.seller_id,
        live=call.caller.live,
        limit=limit,
        offset=offset,
        store_id=STORE_ID.number(call.query),
        pos_id=POS_ID.number(call.query),
        label=call.shared.objects[OrderLabels].of_status,
    )
    return Answer(200, TerminalList(ListedTerminals(terminals), Paging(total, offset, limit)))


async def setup(call: Call) -> Handled:
    """Set the operating mode of one or several terminals: all of the modes, or none."""
    request: SetupRequest = call.body
    await modes.apply(call.tx, call.caller.seller_id, request.terminals, call.now_ms, live=call.caller.live)
    return Answer(200, SetupAnswer([TerminalMode(item.id, item.operating_mode) for item in request.terminals]))
