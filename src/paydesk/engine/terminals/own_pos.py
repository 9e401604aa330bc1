"""The point of sale that is made for a virtual terminal, and is deleted with it."""

from __future__ import annotations

from paydesk.engine.terminals import registry, stores
from paydesk.engine.terminals.store import Terminal
from paydesk.platform.storage.database import Transaction


async def remove(tx: Transaction, terminal: Terminal, now_ms: int) -> None:
    """Delete the terminal, which is locked and which nothing holds, and the point of sale made for a virtual one."""
    seller_id, terminal_id = terminal.seller_id, terminal.terminal_id
    await registry.delete(tx, seller_id, terminal_id, now_ms)
    if not terminal.is_virtual or not await has_own_pos(tx, terminal):
        return
    # Another terminal may have been moved there.
    if not await stores.terminals_on(tx, seller_id, terminal.pos_id):
        await stores.delete_pos(tx, seller_id, terminal.pos_id)


async def has_own_pos(tx: Transaction, terminal: Terminal) -> bool:
    """Return whether the terminal is at the point of sale that was made for it, which is locked."""
    pos = await stores.lock_pos(tx, terminal.seller_id, terminal.pos_id)
    return pos is not None and pos.external_pos_id == external_id_of(terminal.terminal_id)


def external_id_of(terminal_id: str) -> str:
    """Return the external id of the point of sale that is made for a virtual terminal."""
    return f"VIRTUAL-{serial(terminal_id)}"


def serial(terminal_id: str) -> str:
    """Return the last part of the terminal's id."""
    return terminal_id.rpartition("_")[2]
