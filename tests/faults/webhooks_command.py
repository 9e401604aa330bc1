"""Deliver events to receivers that fail, by a process that is killed, and compare with the healthy receiver alone."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path

from faults.long_form import arguments_of, bar, conclude, migrated_url
from faults.unreliable_receivers import BAD, HEALTHY
from faults.unreliable_run import Outcome, Plan, run

ALONE_SHARE = 0.2
"""Of the time and the events, for the run with the healthy receiver alone."""
RATIO_MAX = 2.0


def main(arguments: list[str]) -> int:
    """`python -m tests.faults webhooks --minutes 20 --database sqlite`."""
    parser = arguments_of("webhooks", __doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--kill-seconds", type=float, default=5, help="the mean time between kills")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    chosen = parser.parse_args(arguments)
    chance, started = random.Random(chosen.seed), time.monotonic()
    seconds = chosen.minutes * 60
    alone = Plan(round(chosen.events * ALONE_SHARE), seconds * ALONE_SHARE, chosen.kill_seconds, (HEALTHY,))
    all_of_them = Plan(chosen.events - alone.events, seconds - alone.seconds, chosen.kill_seconds, (HEALTHY, *BAD))
    outcomes = [_run(plan, chosen.database, chance) for plan in (alone, all_of_them)]
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    figures = {"seed": str(chosen.seed), **figures_of(*outcomes)}
    return conclude(f"webhooks, {chosen.database}", figures, findings, started=started)


def _run(plan: Plan, database: str, chance: random.Random) -> Outcome:
    with (
        tempfile.TemporaryDirectory(prefix="paydesk-webhooks-") as name,
        migrated_url(database, Path(name)) as url,
        bar(f"{len(plan.receivers)} receivers, seconds", round(plan.seconds)) as progress,
    ):
        return asyncio.run(run(plan, url, Path(name), chance, lambda seconds: progress(round(seconds))))


def figures_of(alone: Outcome, beside: Outcome) -> dict[str, object]:
    """Return what the table shows."""
    figures: dict[str, object] = {"events": beside.events, "kills": alone.kills + beside.kills}
    for name, statuses in beside.statuses.items():
        said = ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items()))
        figures[name] = f"{said}; {beside.requests.get(name, 0):,} requests"
    for percent in (50, 99):
        figures[f"healthy p{percent}, alone"] = f"{alone.percentile(percent):.3f} s"
        figures[f"healthy p{percent}, beside the others"] = f"{beside.percentile(percent):.3f} s"
    ratio = beside.percentile(99) / alone.percentile(99) if alone.percentile(99) else 0.0
    figures["ratio of the p99"] = f"{ratio:.2f} ({'below' if ratio < RATIO_MAX else 'NOT below'} {RATIO_MAX:g})"
    end = max((second for second, _ in beside.memory_mb), default=0.0)
    for quarter in range(4):
        sizes = [mb for second, mb in beside.memory_mb if quarter <= second / (end or 1) * 4 <= quarter + 1 and mb]
        if sizes:
            shown = f"median {statistics.median(sizes):.0f} MB, at most {max(sizes):.0f} MB"
            figures[f"memory, quarter {quarter + 1}"] = shown
    return figures
