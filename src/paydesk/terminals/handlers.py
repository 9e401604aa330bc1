"""Handlers of applications' requests about terminals: list them and set their operating modes."""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.core.errors import PROPERTY_VALUE, Refusal
from paydesk.operation import Answer, Call, Handled
from paydesk.terminals import modes, store
from paydesk.terminals.schemas import ITEMS_MAX, SetupRequest, list_item

DIGITS_MAX = 15
NUMBER_MAX = 10**DIGITS_MAX


async def list_terminals(call: Call) -> Handled:
    """Return one page of the seller's terminals, live or test as the token is."""
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


def _limit(query: Mapping[str, str]) -> int:
    limit = _number(query, "limit")
    if limit == 0:
        raise _invalid("limit", f"a number from 1 to {ITEMS_MAX}")
    return ITEMS_MAX if limit is None else limit


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise _invalid(name, "a number, zero or above")
    # Capped to fit a database integer.
    return int(text) if len(text) <= DIGITS_MAX else NUMBER_MAX


def _invalid(name: str, expected: str) -> Refusal:
    return PROPERTY_VALUE.with_reason(f"{name} is not {expected}", f"'{name}' - must be {expected}")
