"""What an application does with terminals: list them, and set their modes."""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.core.errors import PROPERTY_VALUE, Refusal
from paydesk.operation import Answer, Call, Handled
from paydesk.terminals import modes, store
from paydesk.terminals.schemas import ITEMS_MAX, SetupRequest, shown

DIGITS_MAX = 15
COUNT_MAX = 10**DIGITS_MAX


async def list_terminals(call: Call) -> Handled:
    """One page of the seller's terminals, of the token's kind."""
    offset = _number(call.query, "offset") or 0
    limit = min(_limit(call.query), ITEMS_MAX)
    total, terminals = await store.page(
        call.tx,
        call.caller.seller_id,
        live=call.caller.live,
        limit=limit,
        offset=offset,
        store_id=_number(call.query, "store_id"),
        pos_id=_number(call.query, "pos_id"),
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


def _limit(query: Mapping[str, str]) -> int:
    limit = _number(query, "limit")
    if limit == 0:
        raise _not_a_number("limit", f"a number from 1 to {ITEMS_MAX}")
    return ITEMS_MAX if limit is None else limit


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise _not_a_number(name, "a number, zero or above")
    # More than a database can count is as good as what it can.
    return int(text) if len(text) <= DIGITS_MAX else COUNT_MAX


def _not_a_number(name: str, expected: str) -> Refusal:
    return PROPERTY_VALUE.with_reason(f"{name} is not {expected}", f"'{name}' - must be {expected}")
