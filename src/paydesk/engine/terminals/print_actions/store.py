"""SQL of print actions. The terminal's row has the id of the open one: see `Terminal`.

Every function that changes an action is called with the terminal's row locked.
"""

from __future__ import annotations

import msgspec

from paydesk.core.lifecycle import Move
from paydesk.engine.terminals.print_actions.action import EXPIRE, HAND_OUT, PRINT_ACTIONS, PrintAction, Subtype
from paydesk.platform.storage.database import Transaction

COLUMNS = ", ".join(PrintAction.__struct_fields__)

INSERT = f"""INSERT INTO print_actions ({COLUMNS}, content)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"""

SET_SLOT = "UPDATE terminals SET action_id = $3 WHERE seller_id = $1 AND terminal_id = $2"

FREE_SLOT = "UPDATE terminals SET action_id = NULL WHERE seller_id = $1 AND terminal_id = $2 AND action_id = $3"

FIND = f"SELECT {COLUMNS} FROM print_actions WHERE seller_id = $1 AND action_id = $2"

OPEN_ON_TERMINAL = f"""SELECT {COLUMNS} FROM print_actions
    WHERE seller_id = $1 AND terminal_id = $2 AND {PRINT_ACTIONS.open}"""

# created -> on_terminal.
SET_ON_TERMINAL = f"""UPDATE print_actions SET {HAND_OUT.target}, updated_ms = $3
    WHERE seller_id = $1 AND action_id = $2 AND {HAND_OUT.guard} AND expires_ms > $3"""

CONTENT = f"""SELECT subtype, content FROM print_actions
    WHERE seller_id = $1 AND action_id = $2 AND {HAND_OUT.target} AND expires_ms > $3"""

# The content is deleted with the end.
END = {
    move: f"""UPDATE print_actions SET {move.target}, content = NULL, updated_ms = $3
    WHERE seller_id = $1 AND action_id = $2 AND {move.guard} RETURNING {COLUMNS}"""
    for move in PRINT_ACTIONS.moves
    if move.target in PRINT_ACTIONS.final
}

OVERDUE = f"""SELECT {COLUMNS} FROM print_actions
    WHERE {PRINT_ACTIONS.open} AND expires_ms <= $1 ORDER BY expires_ms LIMIT $2"""

# Terminals with an action to fetch, paged along the index of open actions.
AWAITING_TERMINAL = f"""SELECT seller_id, terminal_id FROM print_actions
    WHERE {HAND_OUT.guard} AND (seller_id, terminal_id) > ($1, $2) ORDER BY seller_id, terminal_id LIMIT $3"""


async def create(tx: Transaction, action: PrintAction, content: str) -> None:
    """Insert an action for a terminal that has none, and notify the terminal."""
    await tx.run(INSERT, *msgspec.structs.astuple(action), content)
    await tx.run(SET_SLOT, action.seller_id, action.terminal_id, action.action_id)
    tx.notify(f"terminal:{action.terminal_id}")


async def find(tx: Transaction, seller_id: int, action_id: str) -> PrintAction | None:
    """Return the action, or None."""
    row = await tx.one(FIND, seller_id, action_id.lower())
    return PrintAction(*row) if row else None


async def open_on_terminal(tx: Transaction, seller_id: int, terminal_id: str) -> PrintAction | None:
    """Return the terminal's open action, or None."""
    row = await tx.one(OPEN_ON_TERMINAL, seller_id, terminal_id)
    return PrintAction(*row) if row else None


async def hand_out(tx: Transaction, seller_id: int, action_id: str, now_ms: int) -> tuple[Subtype, str] | None:
    """Make the action `on_terminal` and return its subtype and content; None if it has ended or is overdue."""
    await tx.run(SET_ON_TERMINAL, seller_id, action_id, now_ms)
    row = await tx.one(CONTENT, seller_id, action_id, now_ms)
    return (row[0], row[1]) if row else None


async def end(tx: Transaction, action: PrintAction, move: Move, now_ms: int) -> PrintAction | None:
    """Make a move that ends the action, delete its content and free its terminal; None if the move's guard fails."""
    row = await tx.one(END[move], action.seller_id, action.action_id, now_ms)
    if row is None:
        return None
    await tx.run(FREE_SLOT, action.seller_id, action.terminal_id, action.action_id)
    return PrintAction(*row)


async def expire_overdue(tx: Transaction, action: PrintAction, now_ms: int) -> PrintAction:
    """End the action if it is open and its time is over; return its current row."""
    if not action.is_open or action.expires_ms > now_ms:
        return action
    return await end(tx, action, EXPIRE, now_ms) or action


async def overdue(tx: Transaction, now_ms: int, limit: int) -> list[PrintAction]:
    """Return open actions of all sellers whose time is over."""
    return [PrintAction(*row) for row in await tx.all(OVERDUE, now_ms, limit)]


async def awaiting_terminal(tx: Transaction, seller_id: int, terminal_id: str, limit: int) -> list[tuple[int, str]]:
    """Return up to `limit` sellers and terminals after this one with an action that the terminal has not fetched."""
    return [(row[0], row[1]) for row in await tx.all(AWAITING_TERMINAL, seller_id, terminal_id, limit)]
