"""Waits that are skipped: whenever nothing in this process has anything to do, its time moves to the next timer.

For tests in one process whose clients and service pause and repeat by timers. Unlike a faster clock this does not
depend on the machine: as long as a thread works, or an answer is on its way, time passes as usual.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from selectors import BaseSelector, SelectorKey

import pytest

import moved_time
from paydesk.core import runtime
from paydesk.platform.storage.database import Database

Events = list[tuple[SelectorKey, int]]

LOOKS, LOOK_SECONDS = 3, 0.001
"""How often everything must be seen idle, and how long each look waits for an event."""
TASKS = Path("/proc/self/task")


@contextmanager
def skipped_waits(database: Database | None = None) -> Iterator[None]:
    """Skip what the running loop would only wait for; the machine's clock for stored instants goes along.

    With a database on PostgreSQL, which works in another process, nothing is skipped.
    """
    if database is not None and database.name != "sqlite":
        yield
        return
    selector: BaseSelector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    select, wall_ns, skipped_ns = selector.select, runtime.wall_ns, 0

    def select_or_skip(timeout: float | None = None) -> Events:
        nonlocal skipped_ns
        if timeout is None or timeout <= LOOKS * LOOK_SECONDS:
            return select(timeout)
        for _ in range(LOOKS):
            if events := select(LOOK_SECONDS):
                return events
            if _is_a_thread_busy():
                return select(LOOK_SECONDS)
        if events := select(0):
            return events
        moved_time.advance(timeout)
        skipped_ns += round(timeout * 1_000_000_000)
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selector, "select", select_or_skip)
        patch.setattr(runtime, "wall_ns", lambda: wall_ns() + skipped_ns)
        yield


async def time_passes(seconds: float) -> None:
    """Let time pass, within `skipped_waits`: whatever happens by then without a further event has happened."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed


def _is_a_thread_busy() -> bool:
    """Return whether another thread of this process runs, wants to run, or waits for a disk."""
    own = threading.get_native_id()
    return any(int(task.name) != own and _state(task) != "S" for task in TASKS.iterdir())


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "S"  # It has ended meanwhile.
