"""Fail a sync under load, start again, then cut the power: hundreds of times, every answer held to account."""

from __future__ import annotations

import asyncio
import random
import time

from faults.fsync import fail_syncs
from faults.long_form import arguments_of, bar, changes_of, conclude, migrated_database
from faults.machine import Tally


def main(arguments: list[str]) -> int:
    """`python -m tests.faults fsync --rounds 300`."""
    parser = arguments_of("fsync", __doc__)
    parser.add_argument("--rounds", type=int, default=300, help="how many syncs fail")
    chosen = parser.parse_args(arguments)
    chance, migrated, started = random.Random(chosen.seed), migrated_database(), time.monotonic()
    with bar("failing syncs", chosen.rounds) as progress:

        def seen(tally: Tally) -> None:
            progress(tally.faults // 2, f"{tally.acknowledged.total():,} answers")

        unsynced = asyncio.run(fail_syncs(chosen.rounds, migrated, chance, seen=seen))
    figures = {"seed": str(chosen.seed), "syncs that failed, each the end of its process": unsynced.ends}
    figures |= {"power cuts after them": unsynced.faults - unsynced.ends, **changes_of(unsynced.acknowledged)}
    figures |= {"outcomes unknown, then repeated": unsynced.unknown}
    return conclude("Failing syncs, SQLite", figures, unsynced.findings, started=started)
