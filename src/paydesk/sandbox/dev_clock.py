"""Moves the clock of `paydesk dev`. It never goes back, not even if the process restarts during a move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from paydesk.core.clock import MovableClock
from paydesk.sandbox import store
from paydesk.storage.database import Database


async def restore_clock(database: Database) -> MovableClock:
    """Return the clock as it was last moved."""
    return MovableClock(*await database.read(store.clock))


async def freeze(database: Database, clock: MovableClock) -> None:
    """Stop the clock.

    It is stopped before its row is committed: otherwise it would run on during the commit and then jump back. If the
    commit fails, it stays stopped.
    """
    async with clock.moving:
        clock.freeze()
        await _commit(database, clock)


async def move(database: Database, clock: MovableClock, change: Callable[[MovableClock], None]) -> None:
    """Advance or resume the clock after its row is committed: a restart must not go back behind a time in use."""
    async with clock.moving:
        moved = MovableClock(clock.offset_ms, clock.frozen_ms)
        change(moved)
        await _commit(database, moved)
        clock.offset_ms, clock.frozen_ms = moved.offset_ms, moved.frozen_ms


async def _commit(database: Database, clock: MovableClock) -> None:
    await database.write(partial(store.set_clock, offset_ms=clock.offset_ms, frozen_ms=clock.frozen_ms))
