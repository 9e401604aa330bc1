"""Limits on concurrent deliveries, per receiver and in total."""

from __future__ import annotations

from paydesk.webhooks.slots import Slots


def _take_all(slots: Slots, receiver: str) -> int:
    taken = 0
    while slots.free(receiver):
        slots.take(receiver)
        taken += 1
    return taken


def test_width_grows_with_fast_successes() -> None:
    """It grows by one per fast success, up to an eighth of all slots."""
    slots = Slots(64)
    assert slots.free("a") == 2
    for _ in range(20):
        slots.take("a")
        slots.release("a", delivered=True, seconds=0.1)
    assert slots.free("a") == 8


def test_a_failure_or_slow_success_reduces_the_width_to_one() -> None:
    """A fast success restores it."""
    slots = Slots(64)
    for delivered, seconds, free in [(False, 0.1, 1), (True, 0.1, 1), (True, 0.1, 2), (True, 9.0, 1)]:
        slots.take("a")
        slots.release("a", delivered=delivered, seconds=seconds)
        assert slots.free("a") == free


def test_failing_receivers_share_half_of_the_slots() -> None:
    """The other half stays free for other receivers."""
    slots = Slots(16)
    hanging = [f"hanging {number}" for number in range(100)]
    for receiver in hanging:
        slots.take(receiver)
        slots.release(receiver, delivered=False, seconds=22)
    assert sum(_take_all(slots, receiver) for receiver in hanging) == 8
    assert slots.free("new") == 2


def test_total_is_never_exceeded() -> None:
    """All receivers together have at most the total; a released slot is free again."""
    slots = Slots(5)
    assert sum(_take_all(slots, str(number)) for number in range(10)) == slots.used == 5
    slots.release("0", delivered=True, seconds=0.1)
    assert slots.free("9") == 1
