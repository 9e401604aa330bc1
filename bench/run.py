"""Run the benchmark: start the servers, run each step of the plan and store its figures."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench import machine
from bench.kept import Kept
from bench.load import BenchError, Measured, family_cpu_seconds
from bench.peers import servers
from bench.pgbench import Pgbench
from bench.postgres import Postgres
from bench.rows import Plan, Row
from bench.running import Running, service
from bench.seed import Sizes

WARM_UP_SECONDS = 1
# A just-in-time compiler needs thousands of requests to reach its full speed.
PEER_WARM_UP_SECONDS = 5
STEP_OVERHEAD_SECONDS = 0.4
START_SECONDS = 40

Step = tuple[int, Row, int]
Loader = Callable[[str, int, float], Measured]


@dataclass(slots=True)
class Servers:
    """The servers of the plan on one database, with a loader for each."""

    running: Running
    loaders: dict[str, Loader]
    postgres: Postgres | None = None
    warm: set[str] = field(default_factory=set)

    def one(self, row: Row, connections: int, seconds: float, pause_ms: float = 0) -> Measured:
        """Run a row once, and measure PostgreSQL's CPU time."""
        load = self.running.one_logged if row.operation == "logged" else self.loaders[row.server]
        if pause_ms:
            load = partial(self.running.one, pause_ms=pause_ms)
        before = family_cpu_seconds(self.postgres.pid) if self.postgres else 0
        made = dataclasses.replace(load(row.script, connections, seconds), operation=row.name)
        if self.postgres is None or row.server == "prism" or made.postgres_us is not None:
            return made
        spent = family_cpu_seconds(self.postgres.pid) - before
        return dataclasses.replace(made, postgres_us=spent / made.requests * 1e6)

    def warm_up(self, row: Row, connections: int) -> None:
        """Load a row without measuring, to fill caches and open connections.

        Logged rows and half load share the warm-up of their operation; pgbench reconnects for every run.
        """
        if row.name not in self.warm and row.operation not in ("logged", "half") and row.server != "pgbench":
            self.warm.add(row.name)
            self.one(row, connections, PEER_WARM_UP_SECONDS if row.is_peer else WARM_UP_SECONDS)


def run(plan: Plan, kept: Kept, console: Console, terminals: int | None = None) -> None:
    """Measure the steps of the plan that the file lacks."""
    if not any(_left(plan, kept, database) for database in plan.databases):
        return
    kept.machine |= {**machine.description(), "Date": dt.datetime.now(dt.UTC).date().isoformat()}
    # Steps that failed in an earlier run are tried again.
    kept.notes = []
    if plan.peers and any(row.is_peer for database in plan.databases for _, row, _ in _left(plan, kept, database)):
        plan = _with_peers_if_possible(plan, kept, console)
    left = {database: _left(plan, kept, database) for database in plan.databases}
    count = sum(len(steps) for steps in left.values())
    minutes = (count * (plan.seconds + STEP_OVERHEAD_SECONDS) + START_SECONDS * len(plan.databases)) / 60
    console.print(f"{count} runs of {plan.seconds} s: about {minutes:.0f} min.")
    with Progress(console=console) as progress:
        task = progress.add_task("bench", total=count)
        for database, steps in left.items():
            if steps:
                progress.update(task, description=f"{database}: seeding")
                with _servers(plan, kept, database, terminals) as under_load:
                    _measure(under_load, plan, kept, database, steps, progress)


def _left(plan: Plan, kept: Kept, database: str) -> list[Step]:
    return [
        (number, row, connections)
        for number, row, connections in plan.steps(database)
        if (database, row.name, connections, number) not in kept.measured
    ]


def _with_peers_if_possible(plan: Plan, kept: Kept, console: Console) -> Plan:
    try:
        servers.install(console.print)
    except servers.PeersMissing as missing:
        kept.notes.append(f"Without the peers: {missing}")
        console.print(kept.notes[-1])
        return dataclasses.replace(plan, peers=False)
    kept.machine |= servers.versions()
    return plan


def _measure(under_load: Servers, plan: Plan, kept: Kept, database: str, steps: list[Step], progress: Progress) -> None:
    for number, row, connections in steps:
        shown = f"{database}: {row.name} from {connections}"
        progress.update(progress.task_ids[0], description=shown)
        try:
            under_load.warm_up(row, max(plan.connections))
            pause_ms = 0.0
            if row.operation == "half":
                # Twice the time between two requests of a connection, of which an answer takes little.
                pause_ms = 2000 * connections / kept.measured[database, "create", connections, number].per_second
            made = under_load.one(row, connections, plan.seconds, pause_ms)
        except BenchError as failed:
            if row.server == "service":
                raise
            # A failing peer does not end the benchmark: its row lacks this round, and a note says why.
            kept.notes.append(f"{row.name}, round {number}: {failed}")
            progress.console.print(kept.notes[-1])
        else:
            kept.add((database, row.name, connections, number), made)
            if not progress.console.is_terminal:
                progress.console.print(f"round {number}: {shown}: {made.per_second:,.0f} a second")
        progress.advance(progress.task_ids[0])


@contextlib.contextmanager
def _servers(plan: Plan, kept: Kept, database: str, terminals: int | None) -> Iterator[Servers]:
    sizes = Sizes(terminals or plan.terminals(database), plan.families_per_run * plan.refresh_runs)
    if database == "sqlite":
        with (
            tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder,
            service(f"sqlite:{Path(folder)}/bench.db", sizes, plan.families_per_run) as running,
        ):
            yield Servers(running, {"service": running.one})
        return
    postgres = Postgres(clients_max=max(plan.connections))
    kept.machine["PostgreSQL"] = postgres.version
    with contextlib.ExitStack() as stack:
        stack.callback(postgres.end)
        url = postgres.create_database("bench")
        running = stack.enter_context(service(url, sizes, plan.families_per_run))
        pgbench = Pgbench(postgres, url, running)
        loaders: dict[str, Loader] = {
            "service": running.one,
            "pgbench": lambda _, connections, seconds: pgbench.one(connections, seconds),
            **_peers(plan, postgres, stack),
        }
        postgres.settle(url)
        yield Servers(running, loaders, postgres)


def _peers(plan: Plan, postgres: Postgres, stack: contextlib.ExitStack) -> dict[str, Loader]:
    """Return the servers for which the plan has rows."""
    wanted = {row.server for _, row, _ in plan.steps("postgres")}
    loaders: dict[str, Loader] = {}
    if "oidc-provider" in wanted:
        url = postgres.create_database("oidc_provider")
        peer = servers.oidc_provider(url, plan.families_per_run, plan.refresh_runs)
        loaders["oidc-provider"] = stack.enter_context(peer).one
        postgres.settle(url)
    if "prism" in wanted:
        loaders["prism"] = stack.enter_context(servers.prism()).one
    return loaders
