"""Changes of operating modes. Rules are checked against the modes that all terminals would have afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.storage.database import Transaction
from paydesk.terminals import action_store, store
from paydesk.terminals.errors import PRECONDITION_FAILED, TERMINAL_BUSY, TERMINAL_NOT_FOUND
from paydesk.terminals.schemas import ModeRequest, OperatingMode
from paydesk.terminals.store import Terminal

ORDER_MODES: tuple[OperatingMode, ...] = ("PDV", "SELF_SERVICE")


async def apply(tx: Transaction, seller_id: int, changes: Sequence[ModeRequest], now_ms: int, *, live: bool) -> None:
    """Make all changes; the errors of the operation are raised before any."""
    _refuse_repeated(changes)
    locked = await store.lock_all(tx, seller_id, [change.id for change in changes])
    terminals = {terminal.terminal_id: terminal for terminal in locked if bool(terminal.live) == live}
    _refuse_unknown(changes, terminals)
    effective = [change for change in changes if terminals[change.id].operating_mode != change.operating_mode]
    busy = [
        _detail(changes.index(change), f"has {holder}")
        for change in effective
        if (holder := await _holder(tx, terminals[change.id], now_ms)) is not None
    ]
    if busy:
        raise TERMINAL_BUSY.with_reason("its slot is taken", *busy)
    await _refuse_second_pdv(tx, changes, terminals)
    for change in effective:
        await store.set_mode(tx, seller_id, change.id, change.operating_mode)


async def _holder(tx: Transaction, terminal: Terminal, now_ms: int) -> str | None:
    """Return what holds the terminal, or None. What is overdue does not count: a worker ends it, usually within 1 s."""
    if await store.has_live_order(tx, terminal.seller_id, terminal.terminal_id, now_ms):
        return "a live order"
    action = await action_store.open_on_terminal(tx, terminal.seller_id, terminal.terminal_id)
    return None if action is None or action.expires_ms <= now_ms else "a print action"


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


async def _refuse_second_pdv(
    tx: Transaction, changes: Sequence[ModeRequest], terminals: Mapping[str, Terminal]
) -> None:
    changed = {change.id for change in changes}
    to_pdv = [index for index, change in enumerate(changes) if change.operating_mode == "PDV"]
    for seller_id, pos_id, live in sorted({_place(terminals[changes[index].id]) for index in to_pdv}):
        current = await store.in_pdv(tx, seller_id, pos_id, live=live)
        added = [index for index in to_pdv if terminals[changes[index].id].pos_id == pos_id]
        count = len(set(current) - changed) + len(added)
        if count > 1:
            raise PRECONDITION_FAILED.with_reason(
                f"pos {pos_id} would have {count} terminals in mode PDV",
                *(_detail(index, "would not be the only terminal in mode PDV at its point of sale") for index in added),
            )


def _place(terminal: Terminal) -> tuple[int, int, bool]:
    """Return where the terminal is: its seller, its point of sale, and live or test."""
    return terminal.seller_id, terminal.pos_id, bool(terminal.live)
