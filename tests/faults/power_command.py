"""Cut the power under load, thousands of times, and hold every answer against what is left on the disk."""

from __future__ import annotations

import asyncio
import random
import time

from faults.long_form import arguments_of, bar, changes_of, conclude, migrated_database
from faults.machine import Tally
from faults.power import cut_power, cut_power_of_a_careless_one


def main(arguments: list[str]) -> int:
    """`python -m tests.faults power --cuts 2000`; with `--careless` the same with `synchronous = NORMAL`."""
    parser = arguments_of("power", __doc__)
    parser.add_argument("--cuts", type=int, default=2000, help="how often the power is cut")
    parser.add_argument("--careless", action="store_true", help="with a setting that loses what it acknowledged")
    chosen = parser.parse_args(arguments)
    chance, migrated, started = random.Random(chosen.seed), migrated_database(), time.monotonic()
    cut = cut_power_of_a_careless_one if chosen.careless else cut_power
    with bar("power cuts", chosen.cuts) as progress:

        def seen(tally: Tally) -> None:
            progress(tally.faults, f"{tally.acknowledged.total():,} answers")

        tally = asyncio.run(cut(chosen.cuts, migrated, chance, seen=seen))
    figures: dict[str, object] = {"seed": str(chosen.seed), "power cuts": tally.faults}
    findings = tally.findings
    if chosen.careless:
        figures |= {"cuts that lost something acknowledged": tally.faults_with_findings, "losses": len(findings)}
        findings = [] if findings else ["nothing was lost: the harness sees nothing"]
    figures |= changes_of(tally.acknowledged) | {"outcomes unknown, then repeated": tally.unknown}
    return conclude("Power cuts, SQLite", figures, findings, started=started)
