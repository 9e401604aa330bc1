"""Every unhappy path of a sale with the till of examples/till, in a service of this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev_thread import dev
from paydesk_dev.paths.path import ACTIONS, all_paths
from paydesk_dev.paths.play import Play
from paydesk_dev.testing.service import Service

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "till"))

from test_till import PlayedTill  # noqa: E402 - the example is no package

PATHS = all_paths()
AWAITED = {"card-out-at-pin", "card-out-authorizing", "chip-unreadable", "above-tap-limit", "offline", "no-paper"}
"""The paths whose steps the virtual terminal does not have yet."""


@pytest.fixture(scope="module")
def paydesk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a running service."""
    folder = tmp_path_factory.mktemp("paths")
    with dev(folder):
        yield Service.of_file(folder / ".paydesk" / "credentials.json")


@pytest.mark.parametrize("path_id", PATHS)
def test_the_till_of_the_example_ends_each_path_as_it_has_to(path_id: str, paydesk: Service, tmp_path: Path) -> None:
    """It charges once, and hands over the goods for a payment alone."""
    if path_id in AWAITED or any(step.line.startswith(("acquirer", "webhook")) for step in PATHS[path_id].steps):
        pytest.skip("the faults of the acquirer and of webhooks are awaited")
    play = Play(PATHS[path_id], paydesk, quiet_seconds=1)
    till = PlayedTill(play, tmp_path / "till.db")
    assert play.run(till) == []
    till.close()


def test_the_file_can_be_played() -> None:
    """Each step is a fault of the grammar, or an action of the till, the buyer or an operator."""
    for path in PATHS.values():
        for step in path.steps:
            actor, *words = step.words
            assert step.fault or actor not in ACTIONS or words[0] in ACTIONS[actor], step.line
            assert step.fault or hasattr(Play, f"_{actor}"), step.line
