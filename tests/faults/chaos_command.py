"""`python -m tests.faults chaos`: a long run on PostgreSQL or SQLite, watched, with a table of what it came to."""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from faults import breaking, chaos
from faults.breaking import Fault
from faults.caller import share_after_one_repeat
from faults.chaos import Plan, Run
from paydesk.core.clock import SystemClock
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.migrate import migrate
from postgres_server import PostgresServer

SHOWN_MAX = 30


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; 1 when a promise did not hold."""
    options = _options(arguments)
    seed = options.seed or random.randrange(10**9)
    plan = Plan(
        seconds=options.minutes * 60,
        faults=_faults(options),
        seed=seed,
        nodes=1 if options.database == "sqlite" else options.nodes,
        terminals=options.terminals,
        applications=options.applications,
    )
    console = Console()
    console.print(f"seed {seed} (--seed {seed} makes the same choices again)")
    with tempfile.TemporaryDirectory(prefix="paydesk-chaos-", ignore_cleanup_errors=True) as name:
        is_sound = False
        try:
            run = _watched(plan, options.database, Path(name), console)
            is_sound = not run.violations
        finally:
            if not is_sound and options.keep is not None:
                _keep_logs(Path(name), options.keep)
    _print(run, console)
    return int(bool(run.violations))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.faults chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long it is broken (10)")
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--only", choices=tuple(breaking.FAULTS), action="append", help="this fault alone; repeatable")
    parser.add_argument("--kill-node-seconds", type=float, default=2, help="a node is killed so often (2)")
    parser.add_argument("--kill-postgres-seconds", type=float, default=20, help="PostgreSQL is killed so often (20)")
    parser.add_argument("--nodes", type=int, default=3, help="nodes on PostgreSQL (3); on SQLite there is one")
    parser.add_argument("--terminals", type=int, default=32, help="terminals, each with its till (32)")
    parser.add_argument("--applications", type=int, default=8, help="applications that refresh (8)")
    parser.add_argument("--seed", type=int, default=0, help="make the choices of an earlier run again")
    parser.add_argument("--keep", type=Path, help="where the nodes' logs go when a promise did not hold")
    return parser.parse_args(arguments)


def _faults(options: argparse.Namespace) -> tuple[Fault, ...]:
    """The chosen faults, each at the pace that was asked for."""
    pace = {"node-kill": options.kill_node_seconds, "postgres-kill": options.kill_postgres_seconds}
    chosen = [fault for name in options.only or breaking.FAULTS for fault in breaking.FAULTS[name]]
    return tuple(
        replace(fault, every_seconds=pace.get(fault.name, fault.every_seconds))
        for fault in chosen
        if options.database == "postgres" or not fault.needs_server
    )


def _watched(plan: Plan, database: str, folder: Path, console: Console) -> Run:
    server = PostgresServer.start() if database == "postgres" else None
    try:
        url = server.create_database("chaos") if server is not None else f"sqlite:{folder / 'paydesk.db'}"
        return asyncio.run(_run(plan, url, folder, server, console))
    finally:
        if server is not None:
            server.end()


async def _run(plan: Plan, url: str, folder: Path, server: PostgresServer | None, console: Console) -> Run:
    opened = await open_database(url)
    await migrate(opened, SystemClock().now_ms())
    await opened.close()
    runs: list[Run] = []
    work = asyncio.create_task(chaos.run(plan, url, folder, server, runs.append))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starts", total=plan.seconds, counts="")
        began: float | None = None
        while not work.done():
            await asyncio.wait((work,), timeout=0.5)
            run = runs[0]
            if began is None and run.phase == "breaks":
                began = time.monotonic()
            done = min(time.monotonic() - began, plan.seconds) if began is not None else 0
            progress.update(task, completed=done, description=run.phase, counts=_counts(run))
    return work.result()


def _counts(run: Run) -> str:
    tally = run.tally
    broken = ", ".join(f"{count} {what}" for what, count in sorted(run.counts.items()))
    return (
        f"{tally.known} known, {sum(tally.acknowledged.values())} changes, {sum(tally.unknowns.values())} unknown, "
        f"{len(run.records.arrivals)} deliveries, {broken}"
    )


def _print(run: Run, console: Console) -> None:
    tally = run.tally
    table = Table("What", "How many", title="Chaos")
    for what, by_attempts in (("requests", tally.requests), ("long polls", tally.polls)):
        table.add_row(f"{what} whose outcome became known", f"{by_attempts.total():,}")
        table.add_row("  answered after at most one repeat", f"{share_after_one_repeat(by_attempts):.3%}")
    table.add_row("attempts with an unknown outcome", f"{sum(tally.unknowns.values()):,}")
    table.add_row("repeats", f"{tally.repeats:,}")
    table.add_row("acknowledged changes", f"{sum(tally.acknowledged.values()):,}")
    for what, count in sorted(tally.acknowledged.items()):
        table.add_row(f"  {what}", f"{count:,}")
    table.add_row("orders", f"{len(run.records.orders):,}")
    table.add_row("notifications", f"{run.deliveries.total():,}")
    for status, count in sorted(run.deliveries.items()):
        table.add_row(f"  {status}", f"{count:,}")
    table.add_row("  arrivals at their receivers", f"{len(run.records.arrivals):,}")
    for what, count in sorted(run.counts.items()):
        table.add_row(what, f"{count:,}")
    table.add_row("violations", f"{len(run.violations):,}")
    console.print(table)
    console.print(f"unknown, by what came: {dict(tally.unknowns.most_common())}")
    for violation in run.violations[:SHOWN_MAX]:
        console.print(f"  {violation}", markup=False)


def _keep_logs(folder: Path, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        (kept / log.name).write_bytes(log.read_bytes())
