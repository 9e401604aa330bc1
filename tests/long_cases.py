"""A case may take 5 s: a longer one fails, unless it is marked as `slow` or `long`.

Counted are the seconds that an idle machine would take: on a busy one a case also waits for a core. Linux says for how
long; elsewhere nothing is judged.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

SECONDS_MAX = 5
RAN_SECONDS_MIN = 0.2
"""A case that ran for less says nothing of how busy the machine is."""
SCHEDULER = Path("/proc/thread-self/schedstat")


class Ran(NamedTuple):
    """How long this thread ran, and waited for a core, in seconds."""

    seconds: float
    waited: float

    @property
    def slowdown(self) -> float:
        """Return how many times as long everything takes as on an idle machine."""
        return 1 + self.waited / self.seconds if self.seconds else 1.0


def ran() -> Ran | None:
    """Return the times since this thread began, None where the system does not tell."""
    try:
        seconds, waited, _ = SCHEDULER.read_text().split()
    except OSError:
        return None
    return Ran(int(seconds) / 1e9, int(waited) / 1e9)


def idle_seconds(elapsed: float, before: Ran, after: Ran) -> float:
    """Return what a case would have taken on an idle machine."""
    case = Ran(after.seconds - before.seconds, after.waited - before.waited)
    is_telling = case.seconds >= RAN_SECONDS_MIN
    return elapsed / max(after.slowdown, case.slowdown if is_telling else 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail the case if it takes too long."""
    before, began = ran(), time.monotonic()
    yield
    elapsed, after = time.monotonic() - began, ran()
    if before is None or after is None or any(map(item.get_closest_marker, ("slow", "long"))):
        return
    seconds = idle_seconds(elapsed, before, after)
    if seconds > SECONDS_MAX:
        pytest.fail(
            f"It takes {seconds:.1f} s, more than {SECONDS_MAX}. Make it shorter, or mark it as `slow`: then it runs in"
            " `make test-all` alone."
        )
