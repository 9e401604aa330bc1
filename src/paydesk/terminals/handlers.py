"""Handlers of applications' requests about terminals: list them and set their operating modes."""

from __future__ import annotations

from paydesk.operation import COUNT, Answer, Call, Handled, Query
from paydesk.terminals import modes, store
from paydesk.terminals.schemas import ITEMS_MAX, SetupRequest, list_item

LIMIT = Query(
    "limit",
    {"type": "integer", "minimum": 1, "default": ITEMS_MAX},
    f"Page size. Values above {ITEMS_MAX} mean {ITEMS_MAX}.",
)
OFFSET = Query("offset", {"type": "integer", "minimum": 0, "default": 0}, "Number of terminals to skip.")
STORE_ID = Query("store_id", COUNT, "Only terminals of this store.")
POS_ID = Query("pos_id", COUNT, "Only terminals of this point of sale.")


async def list_terminals(call: Call) -> Handled:
    """Return one page of the seller's terminals, live or test as the token is."""
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
            "data": {"terminals": [list_item(terminal) for terminal in terminals]},
            "paging": {"total": total, "offset": offset, "limit": limit},
        },
    )


async def setup(call: Call) -> Handled:
    """Set the operating modes of one or several terminals: all of them, or none."""
    request: SetupRequest = call.body
    changes = [modes.Change(item.id, item.operating_mode) for item in request.terminals]
    modes.refuse_repeated(changes)
    await modes.apply(call, changes)
    terminals = [{"id": change.terminal_id, "operating_mode": change.operating_mode} for change in changes]
    return Answer(200, {"terminals": terminals})
