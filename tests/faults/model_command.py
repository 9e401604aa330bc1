"""Draw runs of clients, deaths of the node and moves of its clock, and hold every answer against the model."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from faults.long_form import arguments_of, bar, conclude, migrated_database
from model.figures import Figures
from model.machine import machine_of


def main(arguments: list[str]) -> int:
    """`python -m tests.faults model --runs 100`: on SQLite, or with `--database postgres`."""
    parser = arguments_of("model", __doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many runs, each on a database of its own")
    parser.add_argument("--steps", type=int, default=60, help="how many steps a run has at most")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--shrink", action="store_true", help="make the steps that fail fewer, which takes a while")
    chosen = parser.parse_args(arguments)
    drawn = settings(
        max_examples=chosen.runs,
        stateful_step_count=chosen.steps,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if chosen.shrink else (Phase.generate,),
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    figures, started, findings = Figures(), time.monotonic(), list[str]()
    with contextlib.ExitStack() as stack, bar("runs", chosen.runs) as tell:
        fresh = stack.enter_context(_files() if chosen.database == "sqlite" else _postgres())
        figures.on_begin = lambda: tell(min(figures.runs, chosen.runs))
        try:
            run_state_machine_as_test(seed(chosen.seed)(machine_of(fresh, figures)), settings=drawn)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is what was found
            findings = ["".join(traceback.format_exception(failure, limit=-3))]
    title = f"the model, {chosen.database}"
    return conclude(title, {"seed": str(chosen.seed), **figures.table()}, findings, started=started)


@contextlib.contextmanager
def _files() -> Iterator[Callable[[], AbstractContextManager[str]]]:
    migrated = migrated_database()

    @contextlib.contextmanager
    def fresh() -> Iterator[str]:
        folder = Path(tempfile.mkdtemp(prefix="paydesk-model-"))
        file = folder / "paydesk.db"
        file.write_bytes(migrated)
        yield f"sqlite:{file}"
        shutil.rmtree(folder)

    yield fresh


@contextlib.contextmanager
def _postgres() -> Iterator[Callable[[], AbstractContextManager[str]]]:
    import asyncio

    from faults.long_form import migrate_url
    from postgres_server import PostgresServer

    server = PostgresServer.start()
    try:
        asyncio.run(migrate_url(server.create_database("migrated")))

        @contextlib.contextmanager
        def fresh() -> Iterator[str]:
            name = f"model_{secrets.token_hex(6)}"
            yield server.create_database(name, template="migrated")
            server.drop_database(name)

        yield fresh
    finally:
        server.end()
