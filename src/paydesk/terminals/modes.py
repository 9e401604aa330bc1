"""Changes of operating modes. Rules are checked against the modes that all terminals would have afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Call
from paydesk.terminals import store
from paydesk.terminals.errors import PRECONDITION_FAILED, TERMINAL_BUSY, TERMINAL_NOT_FOUND
from paydesk.terminals.schemas import OperatingMode
from paydesk.terminals.store import Terminal

ORDER_MODES: tuple[OperatingMode, ...] = ("PDV", "SELF_SERVICE")


@dataclass(frozen=True, slots=True)
class Change:
    """A terminal and its new mode."""

    terminal_id: str
    operating_mode: OperatingMode


def refuse_repeated(changes: Sequence[Change]) -> None:
    """Raise `property_value` if a terminal is named twice."""
    seen: set[str] = set()
    for index, change in enumerate(changes):
        if change.terminal_id in seen:
            raise PROPERTY_VALUE.with_reason("named twice", _detail(index, "repeats an earlier terminal"))
        seen.add(change.terminal_id)


async def apply(call: Call, changes: Sequence[Change]) -> None:
    """Make all changes. Raises `terminal_not_found`, `terminal_busy` and `precondition_failed` before any."""
    seller_id, live = call.caller.seller_id, call.caller.live
    locked = await store.lock_all(call.tx, seller_id, [change.terminal_id for change in changes])
    terminals = {terminal.terminal_id: terminal for terminal in locked if bool(terminal.live) == live}
    _refuse_unknown(changes, terminals)
    effective = [change for change in changes if terminals[change.terminal_id].operating_mode != change.operating_mode]
    await _refuse_busy(call, changes, effective)
    await _refuse_second_pdv(call, changes, terminals)
    for change in effective:
        await store.set_mode(call.tx, seller_id, change.terminal_id, change.operating_mode)


def _detail(index: int, problem: str) -> str:
    return f"'$.terminals[{index}]' - {problem}"


def _refuse_unknown(changes: Sequence[Change], terminals: Mapping[str, Terminal]) -> None:
    unknown = [index for index, change in enumerate(changes) if change.terminal_id not in terminals]
    if unknown:
        raise TERMINAL_NOT_FOUND.with_reason(
            "not of this seller and live mode", *(_detail(index, "is unknown") for index in unknown)
        )


async def _refuse_busy(call: Call, changes: Sequence[Change], effective: Sequence[Change]) -> None:
    busy = [
        change
        for change in effective
        if await store.has_live_order(call.tx, call.caller.seller_id, change.terminal_id, call.now_ms)
    ]
    if busy:
        raise TERMINAL_BUSY.with_reason(
            "a live order", *(_detail(changes.index(change), "has a live order") for change in busy)
        )


async def _refuse_second_pdv(call: Call, changes: Sequence[Change], terminals: Mapping[str, Terminal]) -> None:
    changed = {change.terminal_id for change in changes}
    to_pdv = [index for index, change in enumerate(changes) if change.operating_mode == "PDV"]
    for pos_id in sorted({terminals[changes[index].terminal_id].pos_id for index in to_pdv}):
        current = await store.in_pdv(call.tx, call.caller.seller_id, pos_id, live=call.caller.live)
        added = [index for index in to_pdv if terminals[changes[index].terminal_id].pos_id == pos_id]
        count = len(set(current) - changed) + len(added)
        if count > 1:
            raise PRECONDITION_FAILED.with_reason(
                f"pos {pos_id} would have {count} terminals in mode PDV",
                *(_detail(index, "would not be the only terminal in mode PDV at its point of sale") for index in added),
            )
