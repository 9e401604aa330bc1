"""Thousands of virtual terminals behind a flaky network, on one node: nothing is lost, nothing is charged twice."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from pathlib import Path

import structlog

from faults import virtual
from faults.caller import share_after_one_repeat
from faults.chaos import Plan, Run
from faults.long_form import Report, arguments_of, bar, conclude, migrate_url
from faults.virtual import Shop
from paydesk.platform.process import node
from postgres_server import PostgresServer

PLAYLIST = (
    "approve:0.2s*4,decline:insufficient_amount:0.2s,approve:0.2s*4,decline:card_disabled:0.2s,approve:0.2s*4,"
    "cancel:0.2s,approve:0.2s*4,no_answer:0.2s"
)


def main(arguments: list[str]) -> int:
    """`python -m tests.faults terminals --count 2000 --rate 100 --flaky 0.05 --seconds 60`."""
    parser = arguments_of("terminals", __doc__)
    parser.add_argument("--count", type=int, default=2_000, help="of terminals (2,000)")
    parser.add_argument("--rate", type=float, default=100, help="orders a second across them (100)")
    parser.add_argument("--flaky", type=float, default=0.05, help="probability of a fault of each message (0.05)")
    parser.add_argument("--seconds", type=float, default=60, help="for which orders are created (60)")
    parser.add_argument("--script", default=PLAYLIST, help="what the terminals do (%(default)s)")
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="sqlite")
    chosen = parser.parse_args(arguments)
    node.allow_open_files(4 * chosen.count)
    # What flaky terminals go through is expected, and counted: only defects are logged.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    started = time.monotonic()
    plan = Plan(
        chosen.seconds,
        (),
        chosen.seed,
        nodes=1,
        terminals=chosen.count,
        second_tills=0,
        kinds=("terminal", "service"),
    )
    shop = Shop(chosen.rate, chosen.script, chosen.flaky)
    server = PostgresServer.start() if chosen.database == "postgres" else None
    try:
        with (
            tempfile.TemporaryDirectory(prefix="paydesk-terminals-", ignore_cleanup_errors=True) as name,
            bar("seconds", int(chosen.seconds)) as progress,
        ):
            url = server.create_database("terminals") if server is not None else f"sqlite:{name}/paydesk.db"
            run = asyncio.run(_watched(plan, shop, url, Path(name), progress))
    finally:
        if server is not None:
            server.end()
    return conclude(
        f"{chosen.count:,} virtual terminals, {chosen.database}", _figures(run), run.violations, started=started
    )


async def _watched(plan: Plan, shop: Shop, url: str, folder: Path, progress: Report) -> Run:
    await migrate_url(url)
    runs: list[Run] = []
    work = asyncio.create_task(virtual.run(plan, shop, url, folder, runs.append))
    began: float | None = None
    while not work.done():
        await asyncio.wait((work,), timeout=0.5)
        if not runs:
            continue
        if began is None and runs[0].phase == "breaks":
            began = time.monotonic()
        done = 0 if began is None else min(int(time.monotonic() - began), int(plan.seconds))
        progress(done, f"{runs[0].phase}, {len(runs[0].records.orders):,} orders")
    return work.result()


def _figures(run: Run) -> dict[str, object]:
    figures: dict[str, object] = {"seed": str(run.plan.seed), "orders": len(run.records.orders)}
    figures |= dict(sorted(run.counts.items()))
    figures |= {f"orders: {name}": count for name, count in sorted(run.tally.acknowledged.items())}
    figures["requests of tills"] = run.tally.requests.total()
    figures["  answered after at most one repeat"] = f"{share_after_one_repeat(run.tally.requests):.3%}"
    figures["notifications"] = run.deliveries.total()
    return figures
