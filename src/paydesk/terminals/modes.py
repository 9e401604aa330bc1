"""Changing operating modes: what stands against a change, judged on how all would stand after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Call
from paydesk.orders import status
from paydesk.orders import store as orders
from paydesk.terminals import store
from paydesk.terminals.errors import PRECONDITION_FAILED, TERMINAL_BUSY, TERMINAL_NOT_FOUND
from paydesk.terminals.store import OperatingMode, Terminal

TAKES_ORDERS: tuple[OperatingMode, ...] = ("PDV", "SELF_SERVICE")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A terminal and the mode it is to have."""

    terminal_id: str
    operating_mode: OperatingMode


def refuse_repeated(wanted: Sequence[Wanted]) -> None:
    """Raise `property_value` where a terminal is named twice."""
    seen: set[str] = set()
    for index, item in enumerate(wanted):
        if item.terminal_id in seen:
            raise PROPERTY_VALUE.with_reason("named twice", told(index, "is named before"))
        seen.add(item.terminal_id)


async def change(call: Call, wanted: Sequence[Wanted]) -> None:
    """Make the changes. Raises `terminal_not_found`, `terminal_busy`, `precondition_failed`; then nothing is done."""
    seller_id, live = call.caller.seller_id, call.caller.live
    held = await store.lock_all(call.tx, seller_id, [item.terminal_id for item in wanted])
    known = {terminal.terminal_id: terminal for terminal in held if bool(terminal.live) == live}
    _refuse_unknown(wanted, known)
    changed = [item for item in wanted if known[item.terminal_id].operating_mode != item.operating_mode]
    await _refuse_busy(call, wanted, changed)
    await _refuse_second_pdv(call, wanted, known)
    for item in changed:
        await store.set_mode(call.tx, seller_id, item.terminal_id, item.operating_mode)


def told(index: int, what: str) -> str:
    """A detail of a refusal, with the path of the item that it is about."""
    return f"'$.terminals[{index}]' - {what}"


def _refuse_unknown(wanted: Sequence[Wanted], known: Mapping[str, Terminal]) -> None:
    unknown = [index for index, item in enumerate(wanted) if item.terminal_id not in known]
    if unknown:
        raise TERMINAL_NOT_FOUND.with_reason("not of this seller and kind", *(told(i, "is not known") for i in unknown))


async def _refuse_busy(call: Call, wanted: Sequence[Wanted], changed: Sequence[Wanted]) -> None:
    busy = [item for item in changed if await _holds_an_order(call, item.terminal_id)]
    if busy:
        details = (told(wanted.index(item), "holds an order") for item in busy)
        raise TERMINAL_BUSY.with_reason("a live order", *details)


async def _holds_an_order(call: Call, terminal_id: str) -> bool:
    order = await orders.live_on_terminal(call.tx, call.caller.seller_id, terminal_id)
    if order is None:
        return False
    current = await orders.expire_overdue(call.tx, order, call.now_ms)
    return current.status in status.LIVE


async def _refuse_second_pdv(call: Call, wanted: Sequence[Wanted], known: Mapping[str, Terminal]) -> None:
    after = {item.terminal_id: item.operating_mode for item in wanted}
    for pos_id in sorted({known[item.terminal_id].pos_id for item in wanted if item.operating_mode == "PDV"}):
        before = await store.in_pdv(call.tx, call.caller.seller_id, pos_id, live=call.caller.live)
        staying = [terminal_id for terminal_id in before if terminal_id not in after]
        coming = [
            index
            for index, item in enumerate(wanted)
            if item.operating_mode == "PDV" and known[item.terminal_id].pos_id == pos_id
        ]
        if len(staying) + len(coming) > 1:
            raise PRECONDITION_FAILED.with_reason(
                f"pos {pos_id} would have {len(staying) + len(coming)} terminals in mode PDV",
                *(told(index, "would not be the only terminal in mode PDV at its point of sale") for index in coming),
            )
