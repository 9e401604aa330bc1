"""The tables of a bench: on the terminal, and as `benchmarks.md` with its chart."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench import chart
from bench.kept import NO_OP, Kept
from bench.load import Measured
from bench.rows import LOGGED_AT, ROWS, Row

HEADINGS = (
    "operation",
    "connections",
    "per second",
    "of no-op",
    "beside",
    "p50 ms",
    "p99 ms",
    "CPU µs",
    "MB",
)
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
CHART = "benchmarks.svg"
PAGE = "benchmarks.md"
ALL_ROWS = "benchmarks.csv"
NONE = "-"

INTRODUCTION = """\
# Benchmarks

Written by `make bench ARGS="--docs"`; do not edit it by hand.

One process of Paydesk with durable commits, all checks on, rate limits off, and the request log off except in rows
marked *logged*. [wrk](https://github.com/wg/wrk) on the same machine generates the load, so service, load and database
share its cores. An unexpected response ends the benchmark.

"""

RATIOS = """\
## Beside the peers

On PostgreSQL, within a round of one run: above 1 Paydesk is faster. [What the peers do](../bench/README.md#the-peers).

"""

INSTRUCTIONS = """\
## Instructions a request

Counted with valgrind by `python -m bench.instructions`, with those of the clients. Counts do not depend on other load,
but on the build of Python. *create-notified* also notifies another node, and above 200 creates a second they share
notifications.

"""

CARRIED = """\
## What one node carries

One process on {cpu}, which it shares with PostgreSQL and the client. *orders a second* is what it creates at
most: a thousand tills with an order a minute need 17. On shared machines rates differ by a factor of three from hour to
hour. The times are those of creates at about half of that rate.

"""

HALF_LOAD = "create, half load"
Counts = Sequence[Mapping[str, Any]]

HOW_TO_READ = """\
## How to read it

**Compare ratios, not figures**: rates depend on the machine. *of no-op* is beside a route that does nothing, *beside*
beside the peer in the same round. Each figure is the median of {rounds} runs of {seconds} s. `p50` and `p99` are at the
client, `CPU µs` is that of the server and, after the slash, of PostgreSQL. [More of it, the peers, and how to run
it](../bench/README.md).
"""


def show(kept: Kept, console: Console) -> None:
    """Print the tables."""
    for database in kept.databases:
        shown = Table(title=f"{NAMES[database]}: medians of {kept.rounds}", box=SIMPLE_HEAD, title_justify="left")
        for heading in HEADINGS:
            shown.add_column(heading, justify="left" if heading in ("operation", "beside") else "right")
        for row in lines(kept, database):
            shown.add_row(*row)
        console.print(shown)
    for sentence in at_a_glance(kept):
        console.print(sentence, highlight=False)
    for note in kept.notes:
        console.print(note, highlight=False)


def write(kept: Kept, folder: Path, counts: Counts = ()) -> tuple[Path, Path]:
    """Write the page, its chart and all rows. `counts`: of instructions, if they were counted."""
    page, drawing = folder / PAGE, folder / CHART
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text(markdown(kept, counts))
    drawing.write_text(chart.svg(kept))
    with (folder / ALL_ROWS).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("database", *HEADINGS))
        rows.writerows((NAMES[database], *cells) for database in kept.databases for cells in lines(kept, database))
    return page, drawing


def counted(file: Path) -> Counts:
    """Return the counts of `bench.instructions`, or nothing if there are none."""
    read: Counts = json.loads(file.read_text())["counts"] if file.exists() else ()
    return read


def markdown(kept: Kept, counts: Counts = ()) -> str:
    """The page."""
    parts = [INTRODUCTION, *_ratios(kept), *_instructions(counts), *_carried(kept)]
    parts += ["## Requests per second\n\n", f"![Requests a second]({CHART})\n\n"]
    parts += [f"- {sentence}\n" for sentence in at_a_glance(kept) if not _is_in_a_table(sentence)]
    parts.append(f"- [Every row]({ALL_ROWS}), with other numbers of connections.\n")
    for database in kept.databases:
        rows = _of_one_number(lines(kept, database))
        parts.append(f"\n## {NAMES[database]}\n\n{_pipes([HEADINGS, *rows])}")
    parts += [f"\n{note}\n" for note in kept.notes]
    machine = "".join(f"| {name} | {value} |\n" for name, value in kept.machine.items())
    parts.append(f"\n## The machine\n\n| | |\n| --- | --- |\n{machine}\n")
    parts.append(HOW_TO_READ.format(rounds=kept.rounds, seconds=kept.seconds))
    return "".join(parts)


def _is_in_a_table(sentence: str) -> bool:
    """Return whether the tables of the page have the figures of this sentence."""
    return " times " in sentence or f"{LOGGED_AT} connections" in sentence


def _ratios(kept: Kept) -> Iterator[str]:
    """The throughput of the peers' counterparts relative to the peers."""
    connections = sorted({key[2] for key in kept.measured if key[0] == "postgres"})
    table = []
    for row in ROWS:
        ratios = [kept.ratio("postgres", row.beside or "", row.name, count) for count in connections]
        if row.server != "service" and any(ratios):
            cells = (NONE if ratio is None else f"{ratio:.2f}" for ratio in ratios)
            table.append((f"{row.beside} / {row.label}", *cells))
    if table:
        yield RATIOS
        yield _pipes([("throughput", *(f"{count} connections" for count in connections)), *table]) + "\n"


def _instructions(counts: Counts) -> Iterator[str]:
    """The instructions per request, by operation and database."""
    shown = {(one["operation"], one["database"], one["clients"]): one["instructions"] for one in counts}
    columns = [
        (database, clients)
        for database in ("sqlite", "postgresql")
        for clients in sorted({one["clients"] for one in counts if one["database"] == database})
    ]
    table = [
        (operation, *(_thousands(shown.get((operation, *column))) for column in columns))
        for operation in dict.fromkeys(one["operation"] for one in counts)
    ]
    if table:
        names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
        headings = [f"{names[database]}, {clients} client{'s'[: clients > 1]}" for database, clients in columns]
        yield INSTRUCTIONS
        yield _pipes([("operation", *headings), *table]) + "\n"


def _thousands(instructions: float | None) -> str:
    return NONE if instructions is None else f"{instructions / 1000:,.0f}k"


def _carried(kept: Kept) -> Iterator[str]:
    """What one node carries, and how long a create takes at half of that."""
    table = []
    for database in kept.databases:
        for connections in sorted({key[2] for key in kept.measured if key[1] == HALF_LOAD}):
            full = kept.median(database, "create", connections)
            half = kept.median(database, HALF_LOAD, connections)
            if full and half:
                rates = (f"{full.per_second:,.0f}", f"{half.per_second:,.0f}")
                table.append((NAMES[database], *rates, f"{half.p50_ms:.1f}", f"{half.p99_ms:.1f}"))
    if table:
        yield CARRIED.format(cpu=kept.machine.get("CPU", "one machine"))
        yield _pipes([("database", "orders a second", "about half", "its p50 ms", "its p99 ms"), *table]) + "\n"


def lines(kept: Kept, database: str) -> list[tuple[str, ...]]:
    """The cells of one database's table."""
    return [_cells(kept, database, row, made) for row, made in kept.medians(database)]


def _of_one_number(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows of `LOGGED_AT` connections, or of the most if none has that number."""
    numbers = {int(connections) for _, connections, *_ in rows}
    shown = LOGGED_AT if LOGGED_AT in numbers else max(numbers, default=0)
    return [cells for cells in rows if int(cells[1]) == shown]


def at_a_glance(kept: Kept) -> Iterator[str]:
    """The sentences that most readers look for, of what was measured."""
    for database, connections in (("sqlite", 32), ("postgres", 128)):
        rates = [
            f"{made.per_second:,.0f} {name} (p99 {made.p99_ms:.0f} ms)"
            for row, name in (("create", "creates"), ("refresh", "refreshes"), ("get", "gets"), ("poll", "polls"))
            if (made := kept.median(database, row, connections))
        ]
        if rates:
            yield f"{NAMES[database]}, {connections} connections, a second: {', '.join(rates)}."
        if sentence := _logged(kept, database):
            yield sentence
        for row in ROWS:
            if row.server != "service" and row.beside and (sentence := _against(kept, database, row, connections)):
                yield sentence
    for database in kept.databases:
        alone = kept.median(database, "create", 1)
        if alone:
            yield (
                f"{NAMES[database]}, a lone request: creating an order takes {alone.p50_ms:.2f} ms from one connection"
                f" (median; p99 {alone.p99_ms:.2f} ms)."
            )


def _logged(kept: Kept, database: str) -> str | None:
    """What is left with the log of requests on, as in production."""
    rates = [
        f"{made.per_second:,.0f} {name}"
        for row, name in (("create, logged", "creates"), ("get, logged", "gets"))
        for made in (kept.median(database, row, LOGGED_AT),)
        if made
    ]
    if not rates:
        return None
    return f"{NAMES[database]}, {LOGGED_AT} connections, with a line of log for each: {', '.join(rates)} a second."


def _against(kept: Kept, database: str, row: Row, connections: int) -> str | None:
    assert row.beside is not None
    ratio = kept.ratio(database, row.beside, row.name, connections)
    other = kept.median(database, row.name, connections)
    if ratio is None or other is None:
        return None
    return (
        f"{NAMES[database]}, {connections} connections: {row.beside} is at {ratio:.2f} times {row.label}"
        f" ({other.per_second:,.0f} a second)."
    )


def _cells(kept: Kept, database: str, row: Row, made: Measured) -> tuple[str, ...]:
    idle = kept.ratio(database, row.name, NO_OP.name, made.connections) if row.server == "service" else None
    return (
        row.name,
        str(made.connections),
        f"{made.per_second:,.0f}",
        NONE if idle is None else f"{idle:.2f}",
        _beside(kept, database, row, made.connections),
        f"{made.p50_ms:.2f}",
        f"{made.p99_ms:.2f}",
        _cpu(made),
        NONE if made.memory_mb is None else f"{made.memory_mb:.0f}",
    )


def _beside(kept: Kept, database: str, row: Row, connections: int) -> str:
    """How the row stands to its neighbours: the peers of a service's row, the unlogged one of a logged row."""
    if row.operation == "logged":
        others = [(row.beside or "", "unlogged")]
    else:
        others = [(other.name, other.label) for other in ROWS if other.beside == row.name and other.server != "service"]
    ratios = [(kept.ratio(database, row.name, name, connections), label) for name, label in others]
    return ", ".join(f"{ratio:.2f}x {label}" for ratio, label in ratios if ratio is not None) or NONE


def _cpu(made: Measured) -> str:
    spent = [made.cpu_us] if made.postgres_us is None else [made.cpu_us, made.postgres_us]
    return " / ".join(NONE if one is None else f"{one:.0f}" for one in spent)


def _pipes(table: list[tuple[str, ...]]) -> str:
    """A table that reads well as text too: its columns are aligned."""
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    left = {0, *([HEADINGS.index("beside")] if table[0] == HEADINGS else [])}

    def line(cells: tuple[str, ...]) -> str:
        padded = (
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |\n"

    rule = " | ".join("-" * width if place in left else "-" * (width - 1) + ":" for place, width in enumerate(widths))
    return line(table[0]) + f"| {rule} |\n" + "".join(line(row) for row in table[1:])
