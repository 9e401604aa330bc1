"""The tables of a bench: on the terminal, and as `benchmarks.md` with its chart."""

from __future__ import annotations

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
NONE = "-"

INTRODUCTION = """\
# Benchmarks

Written by `make bench ARGS="--docs"`; do not edit it by hand.

One process of Paydesk with durable commits, all checks on, rate limits off, and the request log off except in rows
marked *logged*. A separate process generates the load ([wrk](https://github.com/wg/wrk), one thread) on the same
machine, so service, load and database share its cores. Every create uses a different free terminal and idempotency key;
every refresh rotates: the next request presents the token of the last response. All data is seeded before, every kind
of request is warmed up before it is measured, and any unexpected response of Paydesk ends the benchmark. Requests
without a response at the end of a run are not counted. PostgreSQL's write-ahead log has segments to recycle, as on a
server that has run for a while: a new server creates a segment every second, which delays every commit by 50 ms.

"""

RATIOS = """\
## Beside the peers

On PostgreSQL, within a round of one run: above 1 Paydesk is faster. What the [peers](#the-peers) do is described below;
pgbench writes the rows of a create and does nothing else.

"""

INSTRUCTIONS = """\
## Instructions a request

Counted with valgrind by `python -m bench.instructions`, with those of the clients. Counts do not depend on the
machine's other load, so they show changes of a percent; builds of Python differ. With 32 clients up to 32 writes share
a commit. *create-notified* also notifies another node, which creates share at more than 200 a second.

"""

CARRIED = """\
## What one node carries

One process on {cpu}, which it shares with PostgreSQL and with the client that makes the load. *orders a second* is
what it creates at most. Read it as an order of magnitude: a thousand tills with an order a minute each need 17 a
second, and on shared machines rates differ by a factor of three from hour to hour. The times are those of creates at
about half of that rate, which leaves room for terminals' requests, refreshes and webhooks.

"""

HALF_LOAD = "create, half load"
Counts = Sequence[Mapping[str, Any]]

HOW_TO_READ = """\
## How to read it

**Compare ratios, not figures.** Requests per second depend on the machine's cores, its disk and its other load. Ratios
within a round say more, but not all of them hold on other machines: pgbench gains from more cores and one process of
Paydesk does not; a slower disk slows down only operations that commit; and the best number of connections differs
between rows.

- **of no-op** is the throughput relative to a route of the same server that does nothing, with the same number of
  connections.
- **beside** is the throughput relative to the peer in the same round: above 1 is faster than the peer. Rows marked
  *logged* are compared with the same requests without the log.

Each figure is the median of {rounds} runs of {seconds} s, each ratio the median of the ratios within a round. In a
round every row is measured once, and compared rows directly after each other. `p50` and `p99` are latencies at the
client with all its connections busy, so under load they include the queue; **one connection** shows the latency of a
single request. `CPU µs` is the CPU time of the server's process per request and, after the slash, that of all
PostgreSQL processes. MB is the server's memory after the run.

## What is not measured

There is no webhook subscription, so no delivery is written or sent. One application calls for one seller; the service
caches the access token and the client secret, as in production. Keys and terminals are sequential, so indexes grow at
their end; keys of many clients would not be. A worker numbers the events of the feed, partly after the run. A *poll*
finds nothing and does not wait. The network is the loopback interface, and a Unix socket to PostgreSQL.

## The peers

- **no-op**: a route of the service with the same HTTP server and router that answers at once.
- **pgbench: create**: PostgreSQL alone. [`pgbench`](../bench/pgbench.sql) writes the minimum of a create: the same rows
  in the same tables with the same texts, in one prepared transaction and one round trip, from the same number of
  connections, with one durable commit each. There is no HTTP, no JSON and no check. More connections than cores slow
  PostgreSQL down; Paydesk uses at most 20. The measurement starts when all connections are open.
- **oidc-provider: refresh**: [`oidc-provider`](https://github.com/panva/node-oidc-provider) in one process of Node,
  in production mode, with `rotateRefreshToken` on and opaque tokens. Its adapter uses [the usual single
  table](../bench/peers/adapter.mjs), with prepared statements on a pool of as many connections as Paydesk has, in a
  separate database on the same server. No ID token is requested, so nothing is signed. A refresh makes three durable
  commits: the old token is marked, the new one and an access token are stored.
- **Prism: create**: [`@stoplight/prism-cli`](https://github.com/stoplightio/prism) in one process, as a mock of
  Paydesk's [OpenAPI document](openapi.json). It validates each request against the document and answers 201 with the
  example from memory; its log is off. Nothing is stored.

Peers are measured with PostgreSQL only: their figures do not depend on Paydesk's database. PostgreSQL has default
settings except `max_connections` and two that affect deadlocks and crash recovery (`deadlock_timeout`,
`recovery_init_sync_method`); SQLite runs in WAL mode with `synchronous=FULL`.

## Run it yourself

`make bench` installs the peers into `bench/peers/node_modules` from their lock file, measures everything and prints the
tables; it needs `wrk` and, for the peers, Node. `ARGS="--databases sqlite --operations create --connections 32
--no-peers"` measures less, `ARGS="--resume"` continues an interrupted run, `ARGS="--docs"` writes this page, with the
counts of the last `python -m bench.instructions --databases sqlite postgresql --clients 1 32`. The databases are
created in the folder `TMPDIR`, which should be on the disk to measure.
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
    """Write the page and its chart. `counts`: of instructions, if they were counted."""
    page, drawing = folder / PAGE, folder / CHART
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text(markdown(kept, counts))
    drawing.write_text(chart.svg(kept))
    return page, drawing


def counted(file: Path) -> Counts:
    """Return the counts of `bench.instructions`, or nothing if there are none."""
    read: Counts = json.loads(file.read_text())["counts"] if file.exists() else ()
    return read


def markdown(kept: Kept, counts: Counts = ()) -> str:
    """The page."""
    parts = [INTRODUCTION, *_ratios(kept), *_instructions(counts), *_carried(kept)]
    parts += ["## Requests per second\n\n", f"![Requests a second]({CHART})\n\n"]
    parts += [f"- {sentence}\n" for sentence in at_a_glance(kept)]
    for database in kept.databases:
        parts.append(f"\n## {NAMES[database]}\n\n{_pipes([HEADINGS, *lines(kept, database)])}")
    parts += [f"\n{note}\n" for note in kept.notes]
    machine = "".join(f"| {name} | {value} |\n" for name, value in kept.machine.items())
    parts.append(f"\n## The machine\n\n| | |\n| --- | --- |\n{machine}\n")
    parts.append(HOW_TO_READ.format(rounds=kept.rounds, seconds=kept.seconds))
    return "".join(parts)


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
