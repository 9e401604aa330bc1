"""Changes of operating modes. Rules are checked against the modes that all terminals would have afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Call
from paydesk.terminals import store
from paydesk.terminals.errors import PRECONDITION_FAILED, TERMINAL_BUSY, TERMINAL_NOT_FOUND
from paydesk.terminals.schemas import ModeRequest, OperatingMode
from paydesk.terminals.store import Terminal

ORDER_MODES: tuple[OperatingMode, ...] = ("PDV", "SELF_SERVICE")


async def apply(call: Call, changes: Sequence[ModeRequest]) -> None:
    """Make all changes; the errors of the operation are raised before any."""
    _refuse_repeated(changes)
    seller_id, live = call.caller.seller_id, call.caller.live
    locked = await store.lock_all(call.tx, seller_id, [change.id for change in changes])
    terminals = {terminal.terminal_id: terminal for terminal in locked if bool(terminal.live) == live}
    _refuse_unknown(changes, terminals)
    effective = [change for change in changes if terminals[change.id].operating_mode != change.operating_mode]
    await _refuse_busy(call, changes, effective)
    await _refuse_second_pdv(call, changes, terminals)
    for change in effective:
        await store.set_mode(call.tx, seller_id, change.id, change.operating_mode)


def _refuse_repeated(changes: Sequence[ModeRequest]) -> None:
    seen: set[str] = set()
    for index, change in enumerate(changes):
        if change.id in seen:
            raise PROPERTY_VALUE.with_reason("named twice", _detail(index, "repeats an earlier terminal"))
        seen.add(change.id)


def _detail(index: int, problem: str) -> str:
    return f"'$.terminals[{index}]' - {problem}"


def _refuse_unknown(changes: Sequence[ModeRequest], terminals: Mapping[str, Terminal]) -> None:
    unknown = [index for index, change in enumerate(changes) if change.id not in terminals]
    if unknown:
        raise TERMINAL_NOT_FOUND.with_reason(
            "not of this seller and live mode", *(_detail(index, "is unknown") for index in unknown)
        )


async def _refuse_busy(call: Call, changes: Sequence[ModeRequest], effective: Sequence[ModeRequest]) -> None:
    busy = [
        change
        for change in effective
        if await store.has_live_order(call.tx, call.caller.seller_id, change.id, call.now_ms)
    ]
    if busy:
        raise TERMINAL_BUSY.with_reason(
            "a live order", *(_detail(changes.index(change), "has a live order") for change in busy)
        )


async def _refuse_second_pdv(call: Call, changes: Sequence[ModeRequest], terminals: Mapping[str, Terminal]) -> None:
    changed = {change.id for change in changes}
    to_pdv = [index for index, change in enumerate(changes) if change.operating_mode == "PDV"]
    for pos_id in sorted({terminals[changes[index].id].pos_id for index in to_pdv}):
        current = await store.in_pdv(call.tx, call.caller.seller_id, pos_id, live=call.caller.live)
        added = [index for index in to_pdv if terminals[changes[index].id].pos_id == pos_id]
        count = len(set(current) - changed) + len(added)
        if count > 1:
            raise PRECONDITION_FAILED.with_reason(
                f"pos {pos_id} would have {count} terminals in mode PDV",
                *(_detail(index, "would not be the only terminal in mode PDV at its point of sale") for index in added),
            )
