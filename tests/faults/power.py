"""Power cuts by the hundred: a machine under load whose power fails at a random write or sync, again and again."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from faults.disk import Remains
from faults.machine import Machine, Tally

CUTS_PER_DATABASE = 25
"""Then a new database: what the cuts meet is to be small, so that there can be many."""
OPERATIONS_UNTIL_CUT = (1, 1200)
SYNC_SECONDS = (0.0, 0.002)
STOPPED_SHARE = 0.1


async def cut_power(
    cuts: int,
    migrated: bytes,
    chance: random.Random,
    *,
    seen: Callable[[Tally], object] = lambda _tally: None,
) -> Tally:
    """Cut the power `cuts` times and return the tally; `seen` is called with it now and then."""
    total = Tally()
    while total.faults < cuts and not total.findings:
        series = Tally()
        with in_memory() as name:
            async with Machine(Path(name), migrated, chance) as machine:
                machine.disk.sync_seconds = SYNC_SECONDS
                while machine.tally.faults < min(CUTS_PER_DATABASE, cuts - total.faults) and not machine.tally.findings:
                    machine.disk.operations_until_cut = chance.randint(*OPERATIONS_UNTIL_CUT)
                    await machine.live_through_a_fault()
                    if chance.random() < STOPPED_SHARE:
                        await machine.stop_and_lose_power()
                series = machine.tally
        total.add(series)
        seen(total)
    return total


async def cut_power_of_a_careless_one(
    cuts: int,
    migrated: bytes,
    chance: random.Random,
    *,
    remains: tuple[Remains, ...] | None = None,
    seen: Callable[[Tally], object] = lambda _tally: None,
) -> Tally:
    """The same with `synchronous = NORMAL`, each time from a new database: how often acknowledged changes are lost."""
    total = Tally()
    while total.faults < cuts:
        with in_memory() as name:
            async with Machine(Path(name), migrated, chance) as machine:
                machine.disk.sync_seconds = SYNC_SECONDS
                machine.disk.remains = remains or machine.disk.remains
                machine.database._writer.execute("PRAGMA synchronous = NORMAL")
                machine.disk.operations_until_cut = chance.randint(400, 1200)
                await machine.live_through_a_fault()
        total.add(machine.tally)
        seen(total)
    return total


def in_memory() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where there is one."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder in it; the disk underneath is none of the test's
    return tempfile.TemporaryDirectory(prefix="paydesk-power-", dir=memory if memory.is_dir() else None)
