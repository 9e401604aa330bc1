"""Deletes a virtual terminal that was switched off while it might be charging, once its order has ended."""

from __future__ import annotations

from contextlib import suppress

from paydesk.core.clock import Clock
from paydesk.core.errors import IN_USE, Refusal
from paydesk.sandbox.virtual import store
from paydesk.storage.database import Database, Locked, Transaction, Unavailable

POLL_INTERVAL_SECONDS = 5.0
"""How soon the end of the order is noticed if its signal is lost."""


async def until_deleted(database: Database, clock: Clock, terminal_id: str) -> None:
    """Return once the terminal is deleted: at the end of its order."""
    while True:
        with database.signals.subscribe(f"terminal:{terminal_id}") as waiter:
            with suppress(Unavailable, Locked):
                if await _is_deleted(database, clock, terminal_id):
                    return
            await waiter.wait(POLL_INTERVAL_SECONDS)


async def _is_deleted(database: Database, clock: Clock, terminal_id: str) -> bool:
    """Delete the terminal unless something holds it; return whether it is gone."""
    now_ms = clock.now_ms()

    async def work(tx: Transaction) -> None:
        terminal = await store.find(tx, None, terminal_id)
        if terminal is not None:
            await store.delete(tx, terminal, now_ms)

    try:
        await database.write(work)
    except Refusal as refusal:
        if refusal.kind is not IN_USE:
            raise
        return False
    return True
