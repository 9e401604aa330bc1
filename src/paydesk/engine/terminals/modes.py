"""Changes of operating modes. Rules are checked against the modes that all terminals would have afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paydesk.core.errors import HOW_TO_GET_TEST_TOKENS, PROPERTY_VALUE, ErrorKind, Refusal
from paydesk.engine.terminals import store
from paydesk.engine.terminals.errors import PRECONDITION_FAILED, TERMINAL_BUSY, TERMINAL_NOT_FOUND
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.terminals.schemas import VIRTUAL_MODEL, ModeRequest, OperatingMode
from paydesk.engine.terminals.store import OrderTerminal, Terminal
from paydesk.platform.storage.database import Transaction

ORDER_MODES: tuple[OperatingMode, ...] = ("PDV", "SELF_SERVICE")
OTHER_MODE = "The terminal belongs to the other mode (test or live)."
FROM_LIST = "an id from GET /terminals/v1/list with the same access token"
UNKNOWN = f"is unknown; send {FROM_LIST}"


async def apply(tx: Transaction, seller_id: int, changes: Sequence[ModeRequest], now_ms: int, *, live: bool) -> None:
    """Make all changes; the errors of the operation are raised before any."""
    seen: set[str] = set()
    for index, change in enumerate(changes):
        if change.id in seen:
            raise PROPERTY_VALUE.with_reason("named twice", _detail(index, "repeats an earlier terminal"))
        seen.add(change.id)
    locked = await store.lock_all(tx, seller_id, [change.id for change in changes])
    terminals = {terminal.terminal_id: terminal for terminal in locked if bool(terminal.live) == live}
    of_seller = {terminal.terminal_id: terminal for terminal in locked}
    unknown = [
        _detail(index, _other_mode(change.id, of_seller[change.id].live) if change.id in of_seller else UNKNOWN)
        for index, change in enumerate(changes)
        if change.id not in terminals
    ]
    if unknown:
        raise TERMINAL_NOT_FOUND.with_reason("not of this seller and live mode", *unknown)
    effective = [change for change in changes if terminals[change.id].operating_mode != change.operating_mode]
    busy = [
        _detail(changes.index(change), f"has {holder}; wait for it to end, or cancel it")
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


def not_usable(kind: ErrorKind, terminal: OrderTerminal | None, terminal_id: str) -> Refusal:
    """Return the refusal of a request for a terminal that its seller does not have, or has in the other mode.

    A terminal of another seller is None here, like an unknown one, so their answers cannot differ.
    """
    field = "'$.config.point.terminal_id' -"
    if terminal is None:
        return kind.with_reason("unknown terminal", f"{field} must be {FROM_LIST}")
    return kind.with_reason("other mode", f"{field} {_other_mode(terminal_id, terminal.live)}", message=OTHER_MODE)


def takes_no_orders(kind: ErrorKind, terminal: OrderTerminal) -> Refusal:
    """Return the refusal of a request for a terminal whose operating mode takes no orders."""
    mode = terminal.operating_mode
    return kind.with_reason(f"mode is {mode}", f"its operating_mode is {mode}; PATCH /terminals/v1/setup changes it")


def _other_mode(terminal_id: str, live: int) -> str:
    """Return what is wrong with a terminal of the seller whose mode is not the token's."""
    if live:
        return (
            "is a live terminal, and the access token is a test token; use the seller's live token (APP_USR-…), or a"
            " virtual terminal for test orders"
        )
    model = "virtual" if terminal_id.startswith(f"{VIRTUAL_MODEL}__") else "test"
    return (
        f"is a {model} terminal, which takes test tokens only, and the access token is live; {HOW_TO_GET_TEST_TOKENS}"
    )


def _detail(index: int, problem: str) -> str:
    return f"'$.terminals[{index}]' - {problem}"


async def _refuse_second_pdv(
    tx: Transaction, changes: Sequence[ModeRequest], terminals: Mapping[str, Terminal]
) -> None:
    changed = {change.id for change in changes}
    to_pdv = [index for index, change in enumerate(changes) if change.operating_mode == "PDV"]
    in_pdv = [terminals[changes[index].id] for index in to_pdv]
    places = {(terminal.seller_id, terminal.pos_id, bool(terminal.live)) for terminal in in_pdv}
    for seller_id, pos_id, live in sorted(places):
        current = await store.in_pdv(tx, seller_id, pos_id, live=live)
        added = [index for index in to_pdv if terminals[changes[index].id].pos_id == pos_id]
        count = len(set(current) - changed) + len(added)
        if count > 1:
            raise PRECONDITION_FAILED.with_reason(
                f"pos {pos_id} would have {count} terminals in mode PDV",
                *(_detail(index, "would not be the only terminal in mode PDV at its point of sale") for index in added),
            )
