"""Deletes a virtual terminal that was switched off while it might be charging, once its order has ended."""

from __future__ import annotations

from functools import partial

from paydesk.core.clock import Clock
from paydesk.core.errors import IN_USE, Refusal
from paydesk.sandbox.virtual import store
from paydesk.storage.database import Database, Locked, Transaction, Unavailable

POLL_INTERVAL_SECONDS = 5.0
"""How soon the end of the order is noticed if its signal is lost."""


async def until_deleted(database: Database, clock: Clock, terminal_id: str) -> None:
    """Return once the terminal is deleted: at the end of its order."""

    async def delete(tx: Transaction, now_ms: int) -> None:
        terminal = await store.find(tx, None, terminal_id)
        if terminal is not None:
            await store.delete(tx, terminal, now_ms)

    while True:
        with database.signals.subscribe(f"terminal:{terminal_id}") as waiter:
            try:
                await database.write(partial(delete, now_ms=clock.now_ms()))
            except (Unavailable, Locked):
                pass
            except Refusal as refusal:
                if refusal.kind is not IN_USE:
                    raise
            else:
                return
            await waiter.wait(POLL_INTERVAL_SECONDS)
