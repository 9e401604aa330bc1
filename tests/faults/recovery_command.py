"""Kill a virtual terminal at each step of a payment and the service at each commit: what becomes of the order."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from rich.table import Table

from faults.long_form import arguments_of, bar, conclude, console, migrated_url, silence_terminals
from faults.recovery import AWAY_SECONDS, SERVICE_STEPS, TERMINAL_STEPS, Cell, Outcome, recover

CELLS = (
    *(Cell(terminal, service) for terminal in TERMINAL_STEPS for service in SERVICE_STEPS),
    *(Cell(terminal, away_seconds=AWAY_SECONDS) for terminal in TERMINAL_STEPS if terminal != "none"),
)


def main(arguments: list[str]) -> int:
    """`python -m tests.faults recovery`: on both databases."""
    parser = arguments_of("recovery", __doc__)
    parser.add_argument("--database", choices=("sqlite", "postgres"), action="append", help="only on this one")
    chosen = parser.parse_args(arguments)
    silence_terminals()
    started, found, figures = time.monotonic(), list[str](), dict[str, object]()
    for name in chosen.database or ("sqlite", "postgres"):
        with tempfile.TemporaryDirectory(prefix="paydesk-recovery-") as folder, migrated_url(name, Path(folder)) as url:
            outcomes, faults = _played(name, url, Path(folder))
        console.print(_table(name, outcomes))
        found += [f"{name}: {fault}" for fault in faults]
        figures[f"orders, {name}"] = len(outcomes)
        figures[f"charged twice, {name}"] = sum(outcome.charges > 1 for outcome in outcomes)
        at_once = [outcome.held_seconds for outcome in outcomes if not outcome.cell.away_seconds]
        figures[f"terminal held at most, {name}"] = f"{max(at_once):.1f} s"
    return conclude("Recovery", figures, found, started=started)


def _played(name: str, url: str, folder: Path) -> tuple[list[Outcome], list[str]]:
    done = 0
    with bar(name, len(CELLS)) as progress:

        def seen() -> None:
            nonlocal done
            done += 1
            progress(done)

        return asyncio.run(recover(CELLS, url, folder, seen=seen))


def _table(name: str, outcomes: list[Outcome]) -> Table:
    """Return the table: a row for each step of the terminal, a column for each of the service."""
    title = f"{name}: state of the order, charges, seconds for which it held the terminal"
    table = Table("terminal killed after", *SERVICE_STEPS, f"away {AWAY_SECONDS} s", title=title)
    by_cell = {outcome.cell: outcome for outcome in outcomes}
    for terminal in TERMINAL_STEPS:
        cells = [Cell(terminal, service) for service in SERVICE_STEPS]
        cells.append(Cell(terminal, away_seconds=AWAY_SECONDS))
        table.add_row(terminal, *(_shown(by_cell[cell]) if cell in by_cell else "" for cell in cells))
    return table


def _shown(outcome: Outcome) -> str:
    return f"{outcome.state.split('/')[0]} {outcome.charges} {outcome.held_seconds:.1f}"
