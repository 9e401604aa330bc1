"""Limits on concurrent deliveries, per receiver and in total."""

from __future__ import annotations

import asyncio

import pytest

from paydesk.engine.webhooks.delivery.slots import AHEAD_PER_SLOT, Slots


def _take_all(slots: Slots, receiver: str) -> int:
    taken = 0
    while slots.free(receiver):
        slots.take(receiver)
        taken += 1
    return taken


async def test_width_grows_with_fast_successes() -> None:
    """It grows by one per fast success, up to an eighth of all slots."""
    slots = Slots(64)
    assert slots.free("a") == 2
    for _ in range(20):
        slots.take("a")
        slots.release("a", delivered=True, seconds=0.1)
    assert slots.free("a") == 8


async def test_a_failure_or_slow_success_reduces_the_width_to_one() -> None:
    """A fast success restores it."""
    slots = Slots(64)
    for delivered, seconds, free in [(False, 0.1, 1), (True, 0.1, 1), (True, 0.1, 2), (True, 9.0, 1)]:
        slots.take("a")
        slots.release("a", delivered=delivered, seconds=seconds)
        assert slots.free("a") == free


async def test_failing_receivers_share_half_of_the_slots() -> None:
    """The other half stays free for other receivers."""
    slots = Slots(16)
    hanging = [f"hanging {number}" for number in range(100)]
    for receiver in hanging:
        slots.take(receiver)
        slots.release(receiver, delivered=False, seconds=22)
    assert sum(_take_all(slots, receiver) for receiver in hanging) == 8
    assert slots.free("new") == 2


async def test_total_is_never_exceeded() -> None:
    """All receivers together have at most the total; a released slot is free again."""
    slots = Slots(5)
    assert sum(_take_all(slots, str(number)) for number in range(10)) == slots.used == 5
    slots.release("0", delivered=True, seconds=0.1)
    assert slots.free("9") == 1


async def test_claims_ahead_are_for_fast_receivers_only() -> None:
    """A receiver is fast when its width is the maximum; those that wait count."""
    slots = Slots(16)
    assert slots.claimable("a") == slots.free("a") == 2
    slots.take("a")
    slots.release("a", delivered=True, seconds=0.1)
    assert slots.claimable("a") == 2 + 2 * AHEAD_PER_SLOT
    taken = [slots.take("a") for _ in range(5)]
    assert [slot.done() for slot in taken] == [True, True, False, False, False]
    assert (slots.free("a"), slots.claimable("a")) == (0, 2 * AHEAD_PER_SLOT - 3)
    slots.release("a", delivered=False, seconds=0.1)
    assert slots.claimable("a") == 0


async def test_slots_are_taken_in_the_order_of_the_queue() -> None:
    """A released slot goes to the one that has waited longest."""
    slots = Slots(2)
    first, second, third = (slots.take("a") for _ in range(3))
    slots.release("a", delivered=True, seconds=0.1)
    assert (first.done(), second.done(), third.done()) == (True, True, False)
    slots.release("a", delivered=True, seconds=0.1)
    assert third.done()
    assert await slots.wait("a", third)


async def test_a_place_in_the_queue_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time, or when the delivery is canceled; a slot that was assigned meanwhile is free again."""
    monkeypatch.setattr("paydesk.engine.webhooks.delivery.slots.AHEAD_SECONDS_MAX", 0.01)
    slots = Slots(1)
    slots.take("a")
    assert not await slots.wait("a", slots.take("a"))
    canceled = asyncio.create_task(slots.wait("a", slots.take("a")))
    await asyncio.sleep(0)
    canceled.cancel()
    slots.release("a", delivered=True, seconds=0.1)
    with pytest.raises(asyncio.CancelledError):
        await canceled
    assert (slots.used, slots.free("a")) == (0, 1)


async def test_busy_fast_receivers_leave_slots_to_others() -> None:
    """Eight that could use every slot leave an eighth to receivers that use none."""
    slots = Slots(64)
    fast = [f"fast {number}" for number in range(8)]
    for receiver in fast:
        for _ in range(10):
            slots.take(receiver)
            slots.release(receiver, delivered=True, seconds=1)
    for receiver in fast:
        for _ in range(slots.claimable(receiver)):
            slots.take(receiver)
    for number in range(7):
        assert slots.free(f"new {number}") >= 1
        slots.take(f"new {number}")
    assert (slots.used, slots.free("late")) == (64, 0)
    slots.release("fast 0", delivered=True, seconds=1)
    assert (slots.used, slots.free("late"), slots.free("fast 0")) == (63, 1, 0)
