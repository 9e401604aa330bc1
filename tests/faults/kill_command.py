"""Kill a node under load, hundreds of times, and hold every answer and every notification to account."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from faults.kills import Killed, kill_often
from faults.long_form import arguments_of, bar, changes_of, conclude, migrated_database

KILLS_PER_DATABASE = 50


def main(arguments: list[str]) -> int:
    """`python -m tests.faults kill --kills 300`: on SQLite."""
    parser = arguments_of("kill", __doc__)
    parser.add_argument("--kills", type=int, default=300, help="how often the node is killed")
    chosen = parser.parse_args(arguments)
    chance, migrated, started, total = random.Random(chosen.seed), migrated_database(), time.monotonic(), Killed()
    done = 0
    with bar("kills", chosen.kills) as progress:

        def seen() -> None:
            nonlocal done
            done += 1
            progress(done)

        while total.faults < chosen.kills and not total.findings:
            with tempfile.TemporaryDirectory(prefix="paydesk-kills-") as folder:
                file = Path(folder) / "paydesk.db"
                file.write_bytes(migrated)
                kills = min(KILLS_PER_DATABASE, chosen.kills - total.faults)
                killed = asyncio.run(kill_often(kills, f"sqlite:{file}", Path(folder), chance, seen=seen))
            total.add(killed)
            total.deliveries += killed.deliveries
    figures = {"seed": str(chosen.seed), "kills": total.faults, **changes_of(total.acknowledged)}
    figures |= {"outcomes unknown, then repeated": total.unknown, "notifications received": total.deliveries}
    return conclude("kill -9, SQLite", figures, total.findings, started=started)
