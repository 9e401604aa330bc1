"""`python -m bench.instructions`: count the instructions per request of a node with valgrind.

Counts hardly depend on other load, so they show changes of a few percent that rates do not. A node and its clients run
in one process, and counting begins after a warm-up. The clients' instructions are included and equal on both sides of a
comparison; the row `noop` shows them with those of the HTTP server.

`--clients 1 32` counts with one client and with 32 that send their requests together, so that up to 32 writes share a
commit; the column `batch` has their mean number. `--against FOLDER` also counts another checkout, in turns, and prints
the ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.counted import OPERATIONS
from bench.load import BenchError
from bench.postgres import Postgres

ROOT = Path(__file__).parent.parent
COUNTS = ROOT / ".bench" / "instructions.json"
DATABASES = ("sqlite", "postgresql")
REQUESTS = 480
"""Counted requests of one run: the same number with each number of clients."""

VALGRIND = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null")
SWITCH = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; }
void stop(void) { CALLGRIND_STOP_INSTRUMENTATION; }
"""
_COUNTED = re.compile(r"Collected : (\d+)")


def main() -> None:
    """Count, and print the table."""
    arguments = _arguments()
    for program, package in (("valgrind", "valgrind"), ("cc", "gcc")):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing. Debian, Ubuntu: apt-get install {package}")
    sources = [ROOT] if arguments.against is None else [arguments.against.resolve(), ROOT]
    try:
        with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder:
            switch = _compile_switch(Path(folder))
            with _databases(arguments.databases, folder) as fresh:
                counts = _count(sources, fresh, switch, arguments)
    except BenchError as error:
        sys.exit(str(error))
    _show(counts, sources)
    _save(arguments.json, counts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--databases", nargs="+", default=["sqlite"], choices=DATABASES)
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=tuple(OPERATIONS))
    parser.add_argument("--clients", nargs="+", type=int, default=[1], metavar="COUNT")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout of Paydesk")
    parser.add_argument("--json", type=Path, metavar="FILE", default=COUNTS, help="file of this checkout's counts")
    return parser.parse_args()


@dataclass(frozen=True, slots=True)
class Count:
    """Instructions a request, and the mean number of writes that shared a commit, 0 without writes."""

    instructions: float
    batch: float


Fresh = dict[str, Callable[[], str]]
Counts = dict[tuple[str, str, int], list[Count]]


def _compile_switch(folder: Path) -> Path:
    """Compile the library with which the program turns the counting on and off. Raises `BenchError`."""
    source, library = folder / "switch.c", folder / "switch.so"
    source.write_text(SWITCH)
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(source)]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise BenchError(compiled.stderr)
    return library


@contextlib.contextmanager
def _databases(names: list[str], folder: str) -> Iterator[Fresh]:
    """Yield, for each kind of database, a function that creates an empty one and returns its URL."""
    with contextlib.ExitStack() as stack:
        numbers = iter(range(1_000_000))
        fresh: Fresh = {"sqlite": lambda: f"sqlite:{folder}/{next(numbers)}.db"}
        if "postgresql" in names:
            server = Postgres(1)
            stack.callback(server.end)
            fresh["postgresql"] = lambda: server.create_database(f"instructions_{next(numbers)}")
        yield fresh


def _count(sources: list[Path], fresh: Fresh, switch: Path, arguments: argparse.Namespace) -> Counts:
    console, counts = Console(stderr=True), Counts()
    for database in arguments.databases:
        for operation in arguments.operations:
            if database == "sqlite" and operation == "create-notified":
                continue  # It has no other nodes.
            for clients in arguments.clients:
                for source in sources:
                    made = _instructions(source, operation, clients, fresh[database](), switch)
                    console.print(f"{database}, {operation}, {clients}, {source.name}: {made.instructions:,.0f}")
                    counts.setdefault((database, operation, clients), []).append(made)
    return counts


def _instructions(source: Path, operation: str, clients: int, database_url: str, switch: Path) -> Count:
    """Run the program under valgrind. Raises `BenchError`."""
    rounds = -(-REQUESTS // clients)
    finished = subprocess.run(
        [*VALGRIND, sys.executable, "-m", "bench.counted", operation, str(clients), str(rounds), database_url],
        env={
            **os.environ,
            "PYTHONPATH": f"{source / 'src'}:{source}",
            "PYTHONHASHSEED": "0",
            "BENCH_SWITCH": str(switch),
        },
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    counted = _COUNTED.search(finished.stderr)
    if finished.returncode or counted is None:
        raise BenchError(f"{operation} with {source}: {finished.stderr[-2000:]}")
    return Count(int(counted[1]) / (rounds * clients), float(finished.stdout))


def _save(file: Path, counts: Counts) -> None:
    """Write the counts of this checkout, of which `python -m bench --docs` makes a table."""
    names = ("database", "operation", "clients")
    written = [{**dict(zip(names, key, strict=True)), **dataclasses.asdict(row[-1])} for key, row in counts.items()]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"Paydesk": machine.paydesk(), "counts": written}, indent=1) + "\n")


def _show(counts: Counts, sources: list[Path]) -> None:
    columns = ["instructions a request"] if len(sources) == 1 else [f"{sources[0].name}", "this one", "ratio"]
    table = Table("database", "operation", "clients", *columns, "batch")
    for (database, operation, clients), row in counts.items():
        cells = [f"{count.instructions:,.0f}" for count in row]
        if len(row) > 1:
            cells.append(f"{row[1].instructions / row[0].instructions:.4f}")
        batches = " / ".join(f"{count.batch:.1f}" if count.batch else "-" for count in row)
        table.add_row(database, operation, str(clients), *cells, batches)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
