"""Moves the clock of `paydesk dev`. Only `reset` moves it back; a restart during another move does not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from paydesk.core.clock import MovableClock
from paydesk.core.errors import IN_USE
from paydesk.engine.terminals import presence
from paydesk.platform.storage import mark
from paydesk.platform.storage.database import Database, Transaction
from paydesk_dev.inbox import store

# What has times that would be in the future. `POST /dev/reset` deletes all of it.
DATED = """
SELECT 'orders' WHERE EXISTS (SELECT 1 FROM orders)
UNION ALL SELECT 'print actions' WHERE EXISTS (SELECT 1 FROM print_actions)
UNION ALL SELECT 'idempotency keys' WHERE EXISTS (SELECT 1 FROM idempotency_keys)
UNION ALL SELECT 'authorization codes' WHERE EXISTS (SELECT 1 FROM codes)"""
TOKENS = "SELECT digest FROM access_tokens UNION ALL SELECT digest FROM refresh_tokens"


async def restore_clock(database: Database) -> MovableClock:
    """Return the clock as it was last moved."""
    return MovableClock(*await database.read(mark.moved_clock))


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


async def reset(database: Database, clock: MovableClock, kept_tokens: Collection[bytes]) -> None:
    """Let the clock show the machine's time again. Raises `IN_USE` while there are orders or tokens.

    Tokens with the digests `kept_tokens` may stay: a reset of the service keeps them too.
    """

    async def work(tx: Transaction) -> None:
        dated = [str(row[0]) for row in await tx.all(DATED)]
        if any(bytes(row[0]) not in kept_tokens for row in await tx.all(TOKENS)):
            dated.append("tokens")
        if dated:
            listed = " and ".join(filter(None, (", ".join(dated[:-1]), dated[-1])))
            raise IN_USE.with_reason(
                "there are orders or tokens",
                f"there are {listed}, whose times would be in the future; remove them with `paydesk reset` or"
                " `POST /dev/reset`, then reset the clock",
                message="The clock cannot go back while there are orders or tokens.",
            )
        await store.set_clock(tx, offset_ms=0, frozen_ms=None)
        await presence.forget_future(tx)

    async with clock.moving:
        await database.write(work)
        clock.offset_ms, clock.frozen_ms = 0, None


async def _commit(database: Database, clock: MovableClock) -> None:
    await database.write(partial(store.set_clock, offset_ms=clock.offset_ms, frozen_ms=clock.frozen_ms))
