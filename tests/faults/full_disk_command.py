"""Fill the disk of a machine with SQLite under load, make room, and hold every answer to account."""

from __future__ import annotations

import asyncio
import random
import time

from faults.full_disk import CannotMount, fill_small_disks, find_no_room
from faults.long_form import arguments_of, bar, changes_of, conclude, console, migrated_database
from faults.machine import Tally


def main(arguments: list[str]) -> int:
    """`python -m tests.faults full-disk --rounds 20`: so many real disks, and as many where single writes fail."""
    parser = arguments_of("full-disk", __doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how often the disk is full")
    chosen = parser.parse_args(arguments)
    chance, migrated, started, total = random.Random(chosen.seed), migrated_database(), time.monotonic(), Tally()
    figures: dict[str, object] = {"seed": str(chosen.seed)}
    for what, fill in (("full disks", fill_small_disks), ("writes without room", find_no_room)):
        with bar(what, chosen.rounds) as progress:

            def seen(tally: Tally) -> None:
                progress(tally.faults, f"{tally.acknowledged.total():,} answers")

            try:
                tally = asyncio.run(fill(chosen.rounds, migrated, chance, seen=seen))
            except CannotMount as error:
                console.print(str(error))
                continue
        figures[what] = tally.faults
        total.add(tally)
    figures |= changes_of(total.acknowledged) | {"refused or unknown, then repeated": total.unknown}
    return conclude("Full disks, SQLite", figures, total.findings, started=started)
