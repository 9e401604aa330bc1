"""Orders against a model, in short: clients at once, nodes that die, clocks that move, every promise at the end.

`python -m tests.faults model` draws new runs, as many as one likes.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from conftest import short_and_long
from model.figures import Figures
from model.machine import machine_of
from postgres_server import PostgresServer

FEW, MANY = {"sqlite": 2, "postgres": 1}, {"sqlite": 5, "postgres": 3}
SHORT = settings(
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    # A step that fails is seen in the steps that are printed; the long form makes them fewer.
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AbstractContextManager[str]]:
    """A fresh, migrated database each time, of either kind."""
    if request.param == "sqlite":
        migrated: Path = request.getfixturevalue("migrated_file")

        @contextmanager
        def file() -> Iterator[str]:
            folder = tmp_path / secrets.token_hex(6)
            folder.mkdir()
            yield f"sqlite:{shutil.copy(migrated, folder / 'paydesk.db')}"
            shutil.rmtree(folder)

        return file
    server: PostgresServer = request.getfixturevalue("postgres_server")
    template: str = request.getfixturevalue("migrated_postgres")

    @contextmanager
    def database() -> Iterator[str]:
        url = server.fresh_database(template)
        yield url
        server.give_back(url, template)

    return database


@pytest.mark.parametrize("runs", short_and_long(FEW, MANY), ids=["few", "many"])
def test_orders_are_as_the_model_says(
    fresh: Callable[[], AbstractContextManager[str]], request: pytest.FixtureRequest, runs: dict[str, int]
) -> None:
    """Every answer is explained by some order of what happened at once, and after each run every promise holds."""
    figures = Figures()
    short = settings(SHORT, max_examples=runs[request.node.callspec.params["fresh"]])
    run_state_machine_as_test(machine_of(fresh, figures), settings=short)
    for name, figure in figures.table().items():
        print(f"{name}: {figure}")  # noqa: T201 - the figures of a run with -s
    assert figures.steps.total() > 0
    # A few runs may have no crash.
    assert figures.crashes > 0 or runs is FEW
