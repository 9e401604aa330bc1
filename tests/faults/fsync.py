"""Syncs that fail: the process ends, comes up again on what the system still shows, and later the power fails too."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults.machine import Machine, Tally
from faults.power import OPERATIONS_UNTIL_CUT, SYNC_SECONDS, in_memory

ROUNDS_PER_DATABASE = 12
SYNCS_UNTIL_FAILURE = (1, 40)


@dataclass
class Unsynced(Tally):
    """What was seen of syncs that failed."""

    ends: int = 0


async def fail_syncs(
    rounds: int,
    migrated: bytes,
    chance: random.Random,
    *,
    seen: Callable[[Tally], object] = lambda _tally: None,
) -> Unsynced:
    """Fail a sync under load, start again, then cut the power: so often, and what was seen."""
    total = Unsynced()
    while total.ends < rounds and not total.findings:
        with in_memory() as name:
            async with Machine(Path(name), migrated, chance) as machine:
                machine.disk.sync_seconds = SYNC_SECONDS
                while len(machine.ends) < min(ROUNDS_PER_DATABASE, rounds - total.ends) and not machine.tally.findings:
                    await _one_round(machine, chance)
                total.ends += len(machine.ends)
                total.add(machine.tally)
        seen(total)
    return total


async def _one_round(machine: Machine, chance: random.Random) -> None:
    ends = len(machine.ends)
    machine.disk.syncs_until_failure = chance.randint(*SYNCS_UNTIL_FAILURE)
    await machine.live_through_a_fault()
    if machine.ends[ends:] != [1]:
        machine.tally.findings.append(f"a sync failed and the process was ended {machine.ends[ends:]}")
    machine.disk.operations_until_cut = chance.randint(*OPERATIONS_UNTIL_CUT)
    await machine.live_through_a_fault()
    del machine.ends[ends + 1 :]
