"""The limit on units of work: which are admitted, which are refused, and the effect of a database that hangs."""

from __future__ import annotations

import asyncio

import pytest

from paydesk.platform.storage.bounded import PROBES_MAX, STALL_SECONDS, Busy, Limiter
from paydesk.platform.storage.database import Locked, Unavailable


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def watch() -> Watch:
    """A clock."""
    return Watch()


def _enter(room: Limiter, count: int) -> int:
    """Return how many of `count` units are admitted."""
    entered = 0
    for _ in range(count):
        try:
            room.__enter__()
        except Busy:
            continue
        entered += 1
    return entered


def _leave(room: Limiter, count: int, error: BaseException | None = None) -> None:
    for _ in range(count):
        room.__exit__(type(error) if error else None, error, None)


def test_units_above_the_limit_are_refused(watch: Watch) -> None:
    """One more is refused; as soon as one has left there is room again."""
    for most in (1, 10, 50):
        room = Limiter(most, watch.read)
        assert _enter(room, 60) == most
        _leave(room, 1)
        assert _enter(room, 2) == 1


def test_a_database_that_hangs(watch: Watch) -> None:
    """Units in progress continue and further ones are refused, until the first one completes."""
    room = Limiter(1000, watch.read)
    assert _enter(room, 100) == 100
    watch.now += STALL_SECONDS + 0.1
    assert _enter(room, 100) == 0
    _leave(room, 1)
    assert _enter(room, 100) == 100


def test_an_unreachable_database_admits_probes_only(watch: Watch) -> None:
    """While everybody fails only a few are let in to find out; a refusal of the work's own is an answer."""
    room = Limiter(1000, watch.read)
    assert _enter(room, 100) == 100
    watch.now += STALL_SECONDS + 0.1
    _leave(room, 100, Unavailable("away"))
    for _ in range(3):
        assert _enter(room, 100) == PROBES_MAX
        watch.now += 10
        _leave(room, PROBES_MAX, Unavailable("away"))
    assert _enter(room, 1) == 1
    _leave(room, 1, Locked("a row"))
    assert _enter(room, 100) == 100


def test_a_single_slow_unit_causes_no_refusals(watch: Watch) -> None:
    """Neither a long search followed by many requests nor a canceled client causes refusals."""
    room = Limiter(1000, watch.read)
    assert _enter(room, 1) == 1
    watch.now += 60
    assert _enter(room, 500) == 500
    _leave(room, 500, asyncio.CancelledError())
    watch.now += 60
    assert _enter(room, 500) == 500
