"""Moves the clock of `paydesk dev` so that it never goes back, not even over a restart in the middle of a move."""

from __future__ import annotations

from functools import partial
from typing import Any

from paydesk.core.clock import MovableClock, rfc3339
from paydesk.sandbox import store
from paydesk.storage.database import Database


async def restore_clock(database: Database) -> MovableClock:
    """The clock as it was when it was last moved."""
    return MovableClock(*await database.read(store.clock))


async def freeze(database: Database, clock: MovableClock) -> None:
    """Stand still from now on.

    It stands before its row is committed: otherwise it would run on during the commit and then jump back. When the
    commit fails it stands all the same, which is not going back either.
    """
    async with clock.moving:
        clock.freeze()
        await _keep(database, clock)
    database.signals.notify(["clock"])


async def advance(database: Database, clock: MovableClock, by_ms: int) -> None:
    """Jump forward, once the row is committed: what was told of the future must not be forgotten by a restart."""
    async with clock.moving:
        ahead = MovableClock(clock.offset_ms, clock.frozen_ms)
        ahead.advance(by_ms)
        await _keep(database, ahead)
        clock.advance(by_ms)
    database.signals.notify(["clock"])


async def resume(database: Database, clock: MovableClock) -> None:
    """Run again, once the row is committed."""
    async with clock.moving:
        running = MovableClock(clock.offset_ms, clock.frozen_ms)
        running.resume()
        await _keep(database, running)
        clock.offset_ms, clock.frozen_ms = running.offset_ms, None
    database.signals.notify(["clock"])


def shown(clock: MovableClock, real_ms: int) -> dict[str, Any]:
    """The clock on the wire, against the machine's own."""
    now_ms = clock.now_ms()
    return {
        "now": rfc3339(now_ms),
        "frozen": clock.frozen_ms is not None,
        "offset_seconds": (now_ms - real_ms) / 1000,
    }


async def _keep(database: Database, clock: MovableClock) -> None:
    await database.write(partial(_set, offset_ms=clock.offset_ms, frozen_ms=clock.frozen_ms))


async def _set(tx: Any, offset_ms: int, frozen_ms: int | None) -> None:
    await store.set_clock(tx, offset_ms, frozen_ms)
