"""A quarter of what is much alike and too much for each run; the next commit takes another one.

Which quarter it is follows from the number of commits before: all runs of one commit are alike, and four in a row take
all. A failure names it: with `QUARTER=2` in the environment any commit takes that one; `make test-all` takes all.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

Value = TypeVar("Value")

QUARTERS = 4
_used = pytest.StashKey[bool]()
_running: list[pytest.Item] = []


@cache
def number() -> int:
    """Return which quarter this run takes, from 0; without git the first one."""
    if "QUARTER" in os.environ:
        return int(os.environ["QUARTER"]) % QUARTERS
    command = ["git", "rev-list", "--count", "HEAD"]
    try:
        shown = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(shown.stdout) % QUARTERS


def quarter(values: Sequence[Value], shift: int = 0) -> list[Value]:
    """Return every fourth value; with another shift this run takes another quarter of these values."""
    for item in _running:
        item.stash[_used] = True
    return list(values[(number() + shift) % QUARTERS :: QUARTERS])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Note the running case."""
    _running.append(item)
    try:
        yield
    finally:
        _running.remove(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Name the quarter where a case fails that took one."""
    report = yield
    if report.failed and _used in item.stash:
        said = f"This is QUARTER={number()} of what the case checks: other commits take others, `make test-all` all."
        report.sections.append(("A quarter", said))
    return report
