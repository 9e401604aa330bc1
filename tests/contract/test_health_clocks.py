"""A node's clock beside PostgreSQL's: how far apart they may be, what the log says, and when it is trusted again."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import structlog

from paydesk.platform.health.clock import ClockDiffers, ClockJumped, WatchedClock
from paydesk.platform.storage.connect import open_database
from paydesk_process import environment, request
from serve_process import ServeProcess

SECOND_NS = 10**9


class Wall:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def now_ns(self) -> int:
        """What the machine would say."""
        return time.time_ns() + self.ahead_ns


def _clock(wall: Wall, seconds_max: int = 30) -> WatchedClock:
    return WatchedClock(wall.now_ns, difference_seconds_max=seconds_max)


async def _compared(url: str, clock: WatchedClock) -> None:
    database = await open_database(url)
    await clock.compare(database)
    await database.close()


@pytest.mark.parametrize("seconds", [0, 4, -4, 29, -29])
async def test_a_clock_close_to_the_databases_is_trusted(postgres_url: str, seconds: int) -> None:
    """From 5 s on the log says so; without a difference it says nothing."""
    wall = Wall()
    wall.ahead_ns = seconds * SECOND_NS
    clock = _clock(wall)
    with structlog.testing.capture_logs() as logged:
        await _compared(postgres_url, clock)
    assert abs(clock.now_ms() - wall.now_ns() // 10**6) < 1000
    assert [(line["event"], line["log_level"]) for line in logged] == [("clock_differs", "warning")] * (
        abs(seconds) > 5
    )
    assert all(abs(line["seconds"] - seconds) < 1 for line in logged)


@pytest.mark.parametrize("seconds", [-1800, -32, 32, 1800])
async def test_a_clock_that_starts_wrong_is_not_trusted(postgres_url: str, seconds: int) -> None:
    """Until it is right; then it is not taken for one that jumped."""
    wall = Wall()
    wall.ahead_ns = seconds * SECOND_NS
    clock = _clock(wall)
    with structlog.testing.capture_logs() as logged:
        await _compared(postgres_url, clock)
        side = "ahead of" if seconds > 0 else "behind"
        for _ in range(2):
            with pytest.raises(ClockDiffers, match=f"the wall clock is {abs(seconds)} s {side} the database's"):
                clock.now_ms()
        was_trusted, wall.ahead_ns = clock.is_trusted, 0
        await _compared(postgres_url, clock)
    assert (was_trusted, clock.is_trusted) == (False, True)
    assert clock.now_ms() > 0
    events = [line["event"] for line in logged]
    assert (events[0], events[-1], events.count("clock_differs")) == ("clock_differs", "clock_trusted", 1)


async def test_a_changed_clock_is_detected_before_the_next_comparison(postgres_url: str) -> None:
    """And so is its return: the database's time is known between comparisons too."""
    wall = Wall()
    clock = _clock(wall)
    await _compared(postgres_url, clock)
    for seconds in (-40, 40):
        wall.ahead_ns = seconds * SECOND_NS
        with pytest.raises(ClockDiffers):
            clock.now_ms()
        wall.ahead_ns = 0
        assert clock.now_ms() > 0


async def test_a_machine_whose_database_jumps_too(postgres_url: str) -> None:
    """Where both clocks are one they agree, and a jump of hours is refused all the same."""
    wall = Wall()
    clock = _clock(wall, seconds_max=300)
    await _compared(postgres_url, clock)
    wall.ahead_ns = 3600 * SECOND_NS
    with pytest.raises(ClockJumped, match="jumped by 3600 s"):
        clock.now_ms()


async def test_a_slow_comparison_is_not_a_wrong_clock(postgres_url: str) -> None:
    """Half of the round trip is added to what is allowed: the database's time may be from any moment of it."""
    passed_ns = iter([0, 0, 40 * SECOND_NS])
    began_ns = time.time_ns()
    clock = WatchedClock(lambda: began_ns + 60 * SECOND_NS, lambda: next(passed_ns, 40 * SECOND_NS))
    await _compared(postgres_url, clock)
    assert clock.is_trusted


async def test_sqlite_has_no_other_clock(sqlite_url: str) -> None:
    """A comparison changes nothing: the clock that a process starts with is trusted."""
    wall = Wall()
    wall.ahead_ns = 3600 * SECOND_NS
    clock = _clock(wall)
    await _compared(sqlite_url, clock)
    assert clock.is_trusted
    assert clock.now_ms() > 0


AHEAD = """
import sys, time
machine_ns = time.time_ns
time.time_ns = lambda: machine_ns() + 1800 * 10**9
from paydesk.commands.cli import main
sys.argv[0] = "paydesk"
main()
"""
"""The command line on a machine whose clock is half an hour ahead."""


def test_serve_that_starts_ahead_is_not_ready(postgres_url: str, tmp_path: Path) -> None:
    """It starts and answers, says by how much it differs, and refuses what it would judge by time."""
    serve = ServeProcess(postgres_url, tmp_path)
    with serve.log.open("ab") as log:
        serve.process = subprocess.Popen(
            [sys.executable, "-c", AHEAD, "serve"],
            cwd=tmp_path,
            env=environment(**serve.variables),
            stdout=log,
            stderr=log,
        )
    try:
        (line,) = serve.wait_for("clock_differs", 1)
        assert (line["level"], line["seconds"]) == ("error", 1800)
        serve.wait_for("listening", 1)
        status, body = request("GET", f"{serve.clients}/readyz")
        assert status == 503
        assert body["errors"][0]["details"] == ["clock: the wall clock is 1800 s ahead of the database's"]
        assert request("GET", f"{serve.clients}/v1/orders/ORD{'0' * 26}", "APP_USR-1")[0] == 503
        serve.end(serve.process)
    finally:
        serve.close()
