"""A guard of every test: no unit of work reads a clock. It may run again, so it must use the time it was given."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from paydesk.core import runtime
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.storage.postgres.batch import BatchUnit
from paydesk.platform.storage.postgres.transaction import drive
from paydesk.platform.storage.work import run_at_once

CLOCKS = (SystemClock, MovableClock, WatchedClock)
CLOCK_MODULES = frozenset(clock.__module__ for clock in CLOCKS)
RUNS_A_UNIT = frozenset(run.__code__ for run in (run_at_once, drive, BatchUnit.resume))
"""The functions from which the two databases run the statements of a unit of work."""
_ENDS = RUNS_A_UNIT | {asyncio.Handle._run.__code__}
"""Where the search ends: below a turn of the event loop are the many frames of pytest."""


class ClockReadInUnitOfWork(Exception):
    """A clock was read while a unit of work ran."""


def watch_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the machine's time and our clocks raise if a unit of work of `paydesk` reads them; a test's own may."""
    for clock in CLOCKS:
        monkeypatch.setattr(clock, "now_ms", _unread(clock.now_ms))
    for module, name in ((time, "time"), (time, "time_ns"), (runtime, "wall_ns")):
        monkeypatch.setattr(module, name, _unread(getattr(module, name)))


def _unread(read: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*args: Any) -> Any:
        frame = sys._getframe(1)
        module: str = frame.f_globals["__name__"]
        if module.startswith("paydesk.") and module not in CLOCK_MODULES and _is_in_unit(frame):
            raise ClockReadInUnitOfWork(f"{module}: {frame.f_code.co_qualname} reads a clock: hand in the time")
        return read(*args)

    return watched


def _is_in_unit(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code not in _ENDS:
        frame = frame.f_back
    return frame is not None and frame.f_code in RUNS_A_UNIT
