"""SQL of the changes of paired terminals: pair anew, move, configure, delete."""

from __future__ import annotations

import json
from collections.abc import Sequence

from paydesk.engine.terminals import store
from paydesk.engine.terminals.schemas import Kind
from paydesk.platform.storage.database import Transaction

OWNER = "SELECT seller_id FROM terminal_owners WHERE terminal_id = $1"

# Another device, or the same after a repair: its earlier mode and script no longer apply.
REPLACE = """UPDATE terminals SET live = $3, store_id = $4, pos_id = $5, kind = $6, is_virtual = 0,
       operating_mode = 'UNDEFINED', script = NULL
    WHERE seller_id = $1 AND terminal_id = $2"""

MOVE = """UPDATE terminals SET pos_id = $3,
       store_id = (SELECT store_id FROM pos WHERE seller_id = $1 AND pos_id = $3)
    WHERE seller_id = $1 AND terminal_id = $2"""

SET_TIPS = "UPDATE terminals SET tip_percentages = $3 WHERE seller_id = $1 AND terminal_id = $2"

SET_SCRIPT = "UPDATE terminals SET script = $3 WHERE seller_id = $1 AND terminal_id = $2"

DELETE_SESSIONS = "DELETE FROM terminal_sessions WHERE seller_id = $1 AND terminal_id = $2"

DELETE = "DELETE FROM terminals WHERE seller_id = $1 AND terminal_id = $2"

RELEASE_ID = "DELETE FROM terminal_owners WHERE terminal_id = $1 AND seller_id = $2"


async def owner_of(tx: Transaction, terminal_id: str) -> int | None:
    """Return the seller that the terminal is paired with, or None."""
    row = await tx.one(OWNER, terminal_id)
    return int(row[0]) if row else None


async def replace(
    tx: Transaction, seller_id: int, terminal_id: str, *, live: bool, store_id: int, pos_id: int, kind: Kind
) -> None:
    """Give a terminal that is paired anew its place and kind, and the mode `UNDEFINED`."""
    await tx.run(REPLACE, seller_id, terminal_id, int(live), store_id, pos_id, kind)
    tx.notify(f"terminal:{terminal_id}")


async def move(tx: Transaction, seller_id: int, terminal_id: str, pos_id: int) -> None:
    """Move the terminal to another point of sale, which the caller has locked."""
    await tx.run(MOVE, seller_id, terminal_id, pos_id)


async def set_tips(tx: Transaction, seller_id: int, terminal_id: str, percentages: Sequence[int]) -> None:
    """Set the tips that the terminal offers; none for an empty list."""
    await tx.run(SET_TIPS, seller_id, terminal_id, json.dumps(list(percentages)) if percentages else None)


async def set_script(tx: Transaction, seller_id: int, terminal_id: str, script: str) -> None:
    """Set the script of a virtual terminal."""
    await tx.run(SET_SCRIPT, seller_id, terminal_id, script)


async def delete(tx: Transaction, seller_id: int, terminal_id: str, now_ms: int) -> None:
    """Delete the terminal and its sessions, and revoke its tokens, which may report results for 7 more days.

    The caller has locked it and knows that it has no live order. Any seller can then be paired with it.
    """
    await store.revoke_tokens(tx, seller_id, terminal_id, now_ms)
    await tx.run(DELETE_SESSIONS, seller_id, terminal_id)
    await tx.run(DELETE, seller_id, terminal_id)
    await tx.run(RELEASE_ID, terminal_id, seller_id)
    # Its open polls end.
    tx.notify(f"terminal:{terminal_id}")
