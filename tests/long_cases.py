"""A case may take 5 s of an idle machine: a longer one fails, unless it is marked as `slow` or `long`.

On a busy machine everything takes as many times as long as there are processes that want to run for each core, so the
limit grows with that. A case that is near the limit on an idle machine may pass on a busy one, but never fails by it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator

import pytest

SECONDS_MAX = 5
CORES = os.cpu_count() or 1
MARGIN = 2
"""Beside other cases one may take twice as long as by the load, which says nothing of bursts, disks and caches."""


def slowdown(load: float, workers: int, cores: int) -> float:
    """Return how many times as long a case takes beside `workers` processes of tests, at this load of the system.

    The load is that of the last minute, so it counts for a run that has just begun how many processes it has.
    """
    return max(1.0, load / cores, workers / cores)


def seconds_max() -> float:
    """Return what a case may take now."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        load = 0.0
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return SECONDS_MAX * slowdown(load, workers, CORES) * (MARGIN if workers > 1 else 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail the case if it takes too long."""
    began = time.monotonic()
    yield
    seconds, limit = time.monotonic() - began, seconds_max()
    if seconds > limit and not any(map(item.get_closest_marker, ("slow", "long"))):
        pytest.fail(
            f"It takes {seconds:.1f} s, more than {limit:.1f}: {SECONDS_MAX} on an idle machine. Make it shorter, or"
            " mark it as `slow`: then it runs in `make test-all` alone."
        )
