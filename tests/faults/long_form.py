"""What the long forms share: arguments with a seed, a database to begin with, a progress bar, a table at the end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from paydesk.core.clock import SystemClock
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.migrate import migrate
from postgres_server import PostgresServer

FINDINGS_SHOWN_MAX = 20

console = Console()


class Report(Protocol):
    """Updates the progress bar with the number that is done, and a note."""

    def __call__(self, done: int, said: str = "") -> None:
        """So many, with this beside the bar."""


def silence_terminals() -> None:
    """Keep the log of virtual terminals, which run in this process, out of the terminal's window."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def arguments_of(command: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with what every long form takes."""
    parser = argparse.ArgumentParser(f"python -m tests.faults {command}", description=description)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="repeats the same random choices")
    return parser


def migrated_database() -> bytes:
    """The content of a migrated SQLite file."""
    with tempfile.TemporaryDirectory(prefix="paydesk-faults-") as folder:
        file = Path(folder) / "migrated.db"
        asyncio.run(migrate_url(f"sqlite:{file}"))
        return file.read_bytes()


async def migrate_url(url: str) -> None:
    """Bring the database's schema up to date."""
    database = await open_database(url)
    await migrate(database, SystemClock().now_ms())
    await database.close()


@contextmanager
def migrated_url(database: str, folder: Path) -> Iterator[str]:
    """The address of a new, migrated database: a file in the folder, or on a server that ends with the block."""
    server = PostgresServer.start() if database == "postgres" else None
    try:
        url = server.create_database("faults") if server is not None else f"sqlite:{folder / 'paydesk.db'}"
        asyncio.run(migrate_url(url))
        yield url
    finally:
        if server is not None:
            server.end()


@contextmanager
def bar(what: str, total: int) -> Iterator[Report]:
    """A progress bar over the block."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total, said="")
        yield lambda done, said="": progress.update(task, completed=done, said=said)


def conclude(title: str, figures: Mapping[str, object], findings: list[str], *, started: float) -> int:
    """Print the figures and what was found; 1 where anything was."""
    table = Table(title=title, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, figure in figures.items():
        table.add_row(name, f"{figure:,}" if isinstance(figure, int) else str(figure))
    table.add_row("findings", f"[red]{len(findings)}[/]" if findings else "[green]none[/]")
    table.add_row("took", f"{time.monotonic() - started:.0f} s")
    console.print(table)
    for finding in findings[:FINDINGS_SHOWN_MAX]:
        console.print(finding, style="red", markup=False, highlight=False)
    return int(bool(findings))


def changes_of(acknowledged: Counter[str]) -> dict[str, object]:
    """The figures of what was acknowledged: changes in all, then each kind."""
    reads = {"poll", "use"}
    changes = sum(count for what, count in acknowledged.items() if what not in reads)
    return {"changes acknowledged": changes, **{f"  {what}": count for what, count in sorted(acknowledged.items())}}
