"""How many notifications are under way at once, to each receiver and all in all."""

from __future__ import annotations

from paydesk.webhooks.slots import Slots


def _take_all(slots: Slots, receiver: str) -> int:
    taken = 0
    while slots.free(receiver):
        slots.take(receiver)
        taken += 1
    return taken


def test_share_grows_with_quick_successes() -> None:
    """A receiver that answers gets more at once, up to an eighth of all."""
    slots = Slots(64)
    assert slots.free("a") == 2
    for _ in range(20):
        slots.take("a")
        slots.release("a", delivered=True, seconds=0.1)
    assert slots.free("a") == 8


def test_failure_and_slowness_close_it_to_one() -> None:
    """One slot is left to a receiver that fails, and to one that answers but slowly; a quick success opens it again."""
    slots = Slots(64)
    for delivered, seconds, free in [(False, 0.1, 1), (True, 0.1, 1), (True, 0.1, 2), (True, 9.0, 1)]:
        slots.take("a")
        slots.release("a", delivered=delivered, seconds=seconds)
        assert slots.free("a") == free


def test_failing_receivers_share_half() -> None:
    """However many receivers hang, half of the slots are for the others."""
    slots = Slots(16)
    hanging = [f"hanging {number}" for number in range(100)]
    for receiver in hanging:
        slots.take(receiver)
        slots.release(receiver, delivered=False, seconds=22)
    assert sum(_take_all(slots, receiver) for receiver in hanging) == 8
    assert slots.free("new") == 2


def test_total_is_never_exceeded() -> None:
    """All receivers together have no more than the total, and what is given back is free again."""
    slots = Slots(5)
    assert sum(_take_all(slots, str(number)) for number in range(10)) == slots.used == 5
    slots.release("0", delivered=True, seconds=0.1)
    assert slots.free("9") == 1
