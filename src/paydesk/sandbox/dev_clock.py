"""Moves the clock of `paydesk dev`. It never goes back, not even if the process restarts during a move."""

from __future__ import annotations

from functools import partial
from typing import Any

from paydesk.core.clock import MovableClock, rfc3339
from paydesk.sandbox import store
from paydesk.storage.database import Database


async def restore_clock(database: Database) -> MovableClock:
    """Return the clock as it was last moved."""
    return MovableClock(*await database.read(store.clock))


async def freeze(database: Database, clock: MovableClock) -> None:
    """Stop the clock.

    It is stopped before its row is committed: otherwise it would run on during the commit and then jump back. If the
    commit fails it stays stopped, which is not going back either.
    """
    async with clock.moving:
        clock.freeze()
        await _commit(database, clock)


async def advance(database: Database, clock: MovableClock, by_ms: int) -> None:
    """Jump forward after the row is committed: a restart must not go back behind times that clients have seen."""
    async with clock.moving:
        advanced = MovableClock(clock.offset_ms, clock.frozen_ms)
        advanced.advance(by_ms)
        await _commit(database, advanced)
        clock.advance(by_ms)


async def resume(database: Database, clock: MovableClock) -> None:
    """Start the clock again after the row is committed."""
    async with clock.moving:
        running = MovableClock(clock.offset_ms, clock.frozen_ms)
        running.resume()
        await _commit(database, running)
        clock.offset_ms, clock.frozen_ms = running.offset_ms, None


def as_json(clock: MovableClock, real_ms: int) -> dict[str, Any]:
    """Return the clock for the answer, compared with the machine's clock."""
    now_ms = clock.now_ms()
    return {
        "now": rfc3339(now_ms),
        "frozen": clock.frozen_ms is not None,
        "offset_seconds": (now_ms - real_ms) / 1000,
    }


async def _commit(database: Database, clock: MovableClock) -> None:
    await database.write(partial(store.set_clock, offset_ms=clock.offset_ms, frozen_ms=clock.frozen_ms))
