"""What an application does with terminals: list them, and set their modes."""

from __future__ import annotations

from paydesk.operation import Answer, Call, Handled, Query
from paydesk.terminals import modes, store
from paydesk.terminals.schemas import ITEMS_MAX, SetupRequest, shown

COUNT = {"type": "integer", "minimum": 0}
LIMIT = Query(
    "limit", {"type": "integer", "minimum": 1, "default": ITEMS_MAX}, f"At most {ITEMS_MAX}; more is {ITEMS_MAX}."
)
OFFSET = Query("offset", {"type": "integer", "minimum": 0, "default": 0}, "How many to skip.")
STORE_ID = Query("store_id", COUNT, "Only those of this store.")
POS_ID = Query("pos_id", COUNT, "Only those of this point of sale.")


async def list_terminals(call: Call) -> Handled:
    """One page of the seller's terminals, of the token's kind."""
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
    )
    return Answer(
        200,
        {
            "data": {"terminals": [shown(terminal) for terminal in terminals]},
            "paging": {"total": total, "offset": offset, "limit": limit},
        },
    )


async def setup(call: Call) -> Handled:
    """Set the modes of one or several terminals: all of them, or none."""
    request: SetupRequest = call.body
    wanted = [modes.Wanted(item.id, item.operating_mode) for item in request.terminals]
    modes.refuse_repeated(wanted)
    await modes.change(call, wanted)
    answered = [{"id": item.terminal_id, "operating_mode": item.operating_mode} for item in wanted]
    return Answer(200, {"terminals": answered})
