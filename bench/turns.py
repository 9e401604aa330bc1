"""`python -m bench.turns --against FOLDER`: creates of another checkout and of this one, measured in turns.

Both serve from databases of one PostgreSQL server. In each pair both are loaded, the second of one pair first in the
next, and pgbench writes the same rows right after each: the ratio to it says more than rates, which follow the
machine's other load. CPU times are those of the node's process and of all PostgreSQL processes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.load import BenchError, Measured, find_wrk
from bench.pgbench import Pgbench
from bench.postgres import Postgres
from bench.rows import ROWS
from bench.run import Servers
from bench.running import service
from bench.seed import Sizes

ROOT = Path(__file__).parent.parent
CREATE, PGBENCH = (next(row for row in ROWS if row.name == name) for name in ("create", "pgbench: create"))


@dataclass(slots=True)
class Checkout:
    """A checkout that serves, and its runs, each with that of pgbench after it."""

    name: str
    servers: Servers
    runs: list[tuple[Measured, Measured]] = field(default_factory=list)

    def run(self, connections: int, seconds: float) -> None:
        """Measure it once, and pgbench."""
        self.runs.append(
            (self.servers.one(CREATE, connections, seconds), self.servers.one(PGBENCH, connections, seconds))
        )


def main() -> None:
    """Measure, and print the medians and ratios."""
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description=__doc__)
    parser.add_argument("--against", type=Path, metavar="FOLDER", required=True, help="another checkout of Paydesk")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--connections", type=int, default=128)
    parser.add_argument("--seconds", type=int, default=3, help="of one run")
    parser.add_argument("--terminals", type=int, default=500_000, help="to seed for each; every create uses one")
    arguments = parser.parse_args()
    machine.check()
    try:
        find_wrk()
        checkouts = _measure(arguments)
    except BenchError as error:
        sys.exit(str(error))
    Console(width=130).print(table(checkouts))


def _measure(arguments: argparse.Namespace) -> list[Checkout]:
    console = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        postgres = Postgres(clients_max=arguments.connections)
        stack.callback(postgres.end)
        sizes = Sizes(arguments.terminals, arguments.connections)
        checkouts = []
        for name, source in (("before", arguments.against.resolve()), ("after", ROOT)):
            console.print(f"{name}: seeding {source}")
            url = postgres.create_database(name)
            variables = {"PYTHONPATH": os.pathsep.join((str(source / "src"), str(source)))}
            running = stack.enter_context(service(url, sizes, arguments.connections, variables=variables))
            one = partial(_pgbench, Pgbench(postgres, url, running))
            checkouts.append(Checkout(name, Servers(running, {"service": running.one, "pgbench": one}, postgres)))
            postgres.settle(url)
        for checkout in checkouts:
            checkout.servers.warm_up(CREATE, arguments.connections)
        for pair in range(arguments.pairs):
            for checkout in checkouts if pair % 2 == 0 else reversed(checkouts):
                checkout.run(arguments.connections, arguments.seconds)
                console.print(f"pair {pair + 1}: {', '.join(_cells(checkout.name, checkout.runs[-1:]))}")
    return checkouts


def _pgbench(pgbench: Pgbench, _script: str, connections: int, seconds: float) -> Measured:
    return pgbench.one(connections, seconds)


def table(checkouts: list[Checkout]) -> Table:
    """Return the medians of each checkout, and the ratios of the second to the first, the median of the pairs."""
    columns = ("creates a second", "p50 / p99 ms", "node / PostgreSQL µs", "of pgbench", "pgbench a second")
    shown = Table("", *columns, title=f"Medians of {len(checkouts[0].runs)}", title_justify="left")
    for checkout in checkouts:
        shown.add_row(*_cells(checkout.name, checkout.runs))
    before, after = (checkout.runs for checkout in checkouts)
    pairs = list(zip(before, after, strict=True))

    def ratio(name: str) -> str:
        return _median(getattr(one[0], name) / getattr(other[0], name) for other, one in pairs)

    of_pgbench = _median(_of_pgbench(one) / _of_pgbench(other) for other, one in pairs)
    cpu = f"{ratio('cpu_us')} / {ratio('postgres_us')}"
    shown.add_row("ratio", ratio("per_second"), f"{ratio('p50_ms')} / {ratio('p99_ms')}", cpu, of_pgbench, "")
    return shown


def _cells(name: str, runs: list[tuple[Measured, Measured]]) -> list[str]:
    def of(figure: str, digits: int = 0, place: int = 0) -> str:
        return _median((getattr(run[place], figure) for run in runs), digits)

    ratios = [_of_pgbench(run) for run in runs]
    spread = f" ({min(ratios):.2f}-{max(ratios):.2f})" if len(ratios) > 1 else ""
    return [
        name,
        of("per_second"),
        f"{of('p50_ms')} / {of('p99_ms')}",
        f"{of('cpu_us')} / {of('postgres_us')}",
        f"{_median(ratios)}{spread}",
        of("per_second", place=1),
    ]


def _of_pgbench(run: tuple[Measured, Measured]) -> float:
    return run[0].per_second / run[1].per_second


def _median(values: Iterable[float], digits: int = 2) -> str:
    return f"{statistics.median(values):,.{digits}f}"


if __name__ == "__main__":
    main()
