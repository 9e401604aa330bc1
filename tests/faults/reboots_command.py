"""Kill a service and its virtual terminals under load, and see how soon each terminal takes an order again."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from faults.long_form import arguments_of, bar, conclude, console, migrated_url
from faults.reboots import TAKEN_SECONDS_MAX, reboot_often


def main(arguments: list[str]) -> int:
    """`python -m tests.faults reboots --times 50`: on both databases."""
    parser = arguments_of("reboots", __doc__)
    parser.add_argument("--times", type=int, default=50, help="how often the service is killed (50)")
    parser.add_argument("--database", choices=("sqlite", "postgres"), action="append", help="only on this one")
    chosen = parser.parse_args(arguments)
    started, found, figures = time.monotonic(), list[str](), dict[str, object]()
    figures["seed"] = str(chosen.seed)
    for name in chosen.database or ("sqlite", "postgres"):
        with (
            tempfile.TemporaryDirectory(prefix="paydesk-reboots-") as folder,
            migrated_url(name, Path(folder)) as url,
            bar(name, chosen.times) as progress,
        ):
            done = 0

            def seen() -> None:
                nonlocal done
                done += 1
                progress(done)

            result = asyncio.run(reboot_often(chosen.times, url, Path(folder), random.Random(chosen.seed), seen=seen))
        figures |= {
            f"{name}: kills": result.kills,
            f"{name}: of them with the terminals": result.terminal_kills,
            f"{name}: orders processed": result.processed,
            f"{name}: orders failed": result.failed,
            f"{name}: charges reversed": result.reversed,
            f"{name}: an order taken after at most": f"{max(result.taken_seconds):.2f} s",
            f"{name}: waited more than {TAKEN_SECONDS_MAX:g} s": len(result.waited_for),
        }
        for waited in result.waited_for:
            console.print(waited)
        found += [f"{name}: {finding}" for finding in result.findings]
    return conclude("Reboots", figures, found, started=started)
