"""The tables of a bench: on the terminal, and as `benchmarks.md` with its chart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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

One process of Paydesk, every answer after a durable commit, all checks on, no limit on rates, the log of requests off
but in the rows that say *logged*. The load comes from a process of its own ([wrk](https://github.com/wg/wrk), one
thread) on the same machine, so service, load and database share its cores. Every create is on a free terminal of its
own with an idempotency key of its own; every refresh rotates: the token that one answer brings is what the next
request presents. Everything is seeded before, every kind of request is warmed up before it is measured, and a single
answer of Paydesk's that isn't the expected one ends the bench. What is still unanswered when a run ends counts nowhere.
PostgreSQL's log has old segments to write over, as that of a server has that has run for a while: a fresh one makes a
segment anew every second, and for fifty milliseconds every commit waits for it.

"""

HOW_TO_READ = """\
## How to read it

**Compare ratios, not figures.** How many requests a second a machine does is a matter of its cores and its disk,
and of what else it has to do. How one row stands to another of the same round says more, though not all of it can
be carried over: with more cores pgbench gains and one process of Paydesk does not, with a slower disk whatever
commits loses against what doesn't, and under as many connections as are best for one row another is past its best.

- **of no-op** is the throughput against a route of the same server that does nothing, under as many connections. It
  is what is left of the server's own speed once a request is checked, carried out and committed.
- **beside** is the throughput against what stands next to it in the same round: a figure above 1 is faster than the
  other. A row that says *logged* is held against the same requests with the log off.

Each figure is the median of {rounds} runs of {seconds} s, each ratio the median of the ratios within a round. In a
round everything is measured once, what is compared one right after the other. `p50` and `p99` are waiting times as
the client sees them, with all its connections busy all the time: under full load they say how long the queue is, so
**one connection** shows what a lone request takes. `CPU µs` is what the server's process spent on a request and,
after the slash, what all of PostgreSQL's processes spent on it. MB is the server's memory after the run.

## What is left out

Nobody subscribes to notifications, so none is written and none is sent. One application calls for one seller, whose
access token and whose client's secret the service remembers as it does in production. Keys and terminals come in
order, so indexes grow at their end, where keys of many clients would not. The numbers of the events in the feed are
given by a worker that takes its time, partly after the run. A *poll* finds nothing and does not wait. The network is
the loopback, and the one to PostgreSQL a Unix socket.

## What stands beside it

- **no-op**: a route among the service's own, through the same HTTP server and the same router, that answers at once.
- **pgbench: create**: PostgreSQL alone. [`pgbench`](../bench/pgbench.sql) writes what a create writes at least, the
  same rows in the same tables with the same texts, in one transaction and one round trip, prepared, from as many
  connections, with one durable commit for each. There is no HTTP, no JSON, no check. More connections than PostgreSQL
  has cores to serve slow it down; Paydesk never has more than twenty. It is measured once all its connections stand.
- **oidc-provider: refresh**: [`oidc-provider`](https://github.com/panva/node-oidc-provider) in one process of Node,
  in production mode, with `rotateRefreshToken` on and opaque tokens. Its adapter is [the usual one
  table](../bench/peers/adapter.mjs), with statements prepared once on a pool of as many connections as Paydesk has,
  in a database of its own on the same server. It is asked for no ID token, so nothing is signed. A refresh there is
  three durable commits: the old token is marked, the new one and an access token are stored.
- **Prism: create**: [`@stoplight/prism-cli`](https://github.com/stoplightio/prism) in one process, as a mock of
  Paydesk's own [OpenAPI document](openapi.json). It checks each request against the document and answers 201 with
  the example, from memory; its log is off. Nothing is stored.

Peers stand beside PostgreSQL alone: their own figures depend on neither of our databases. PostgreSQL runs with the
settings of a fresh installation but for `max_connections`, and two that change what happens on a deadlock and after
a crash (`deadlock_timeout`, `recovery_init_sync_method`); SQLite in WAL mode with `synchronous=FULL`.

## Run it yourself

`make bench` installs the peers into `bench/peers/node_modules` from their lock, measures everything and prints the
tables; it needs `wrk` and, for the peers, Node. `ARGS="--databases sqlite --operations create --connections 32
--no-peers"` measures less, `ARGS="--resume"` goes on with an interrupted run, `ARGS="--docs"` writes this page. The
databases are made in the folder that `TMPDIR` names: let it be on the disk that matters.
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


def write(kept: Kept, folder: Path) -> tuple[Path, Path]:
    """Write the page and its chart."""
    page, drawing = folder / PAGE, folder / CHART
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text(markdown(kept))
    drawing.write_text(chart.svg(kept))
    return page, drawing


def markdown(kept: Kept) -> str:
    """The page."""
    parts = [INTRODUCTION, f"![Requests a second]({CHART})\n\n"]
    parts += [f"- {sentence}\n" for sentence in at_a_glance(kept)]
    for database in kept.databases:
        parts.append(f"\n## {NAMES[database]}\n\n{_pipes([HEADINGS, *lines(kept, database)])}")
    parts += [f"\n{note}\n" for note in kept.notes]
    machine = "".join(f"| {name} | {value} |\n" for name, value in kept.machine.items())
    parts.append(f"\n## The machine\n\n| | |\n| --- | --- |\n{machine}\n")
    parts.append(HOW_TO_READ.format(rounds=kept.rounds, seconds=kept.seconds))
    return "".join(parts)


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
        if told := _logged(kept, database):
            yield told
        for row in ROWS:
            if row.server != "service" and row.beside and (told := _against(kept, database, row, connections)):
                yield told
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
    left = {HEADINGS.index("operation"), HEADINGS.index("beside")}

    def line(cells: tuple[str, ...]) -> str:
        padded = (
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |\n"

    rule = " | ".join("-" * width if place in left else "-" * (width - 1) + ":" for place, width in enumerate(widths))
    return line(table[0]) + f"| {rule} |\n" + "".join(line(row) for row in table[1:])
