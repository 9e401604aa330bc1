"""Which worlds explain what was answered: every order in which the requests may have happened is tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from model.world import Moment, Op, Told, World, drifted, outcomes, refunding

DECIDED = (("processed",), ("declined",))
"""What a refund is told that is not under way any more."""


@dataclass(frozen=True, slots=True)
class Event:
    """A request and its answer, and when it was sent and answered.

    Without an answer it is an attempt that nobody heard of again: it may have happened, but only before the event at
    place `repeat`, which is the same request once more.
    """

    op: Op
    told: Told | None
    after_ms: int
    until_ms: int
    repeat: int = -1

    @property
    def moments(self) -> tuple[Moment, ...]:
        """What the clock may have shown, as far as it makes a difference."""
        return tuple(Moment(self.after_ms, now_ms) for now_ms in {self.after_ms, self.until_ms})


def explained(worlds: Iterable[World], events: tuple[Event, ...], latest_ms: int) -> set[World]:
    """The worlds that may be now, after all events, in any order; none where nothing explains the answers."""
    found: set[World] = set()
    done = [event.op.number for event in events if event.told is not None and event.told.names in DECIDED]
    seen: set[tuple[World, frozenset[int]]] = set()
    ahead = [(world, frozenset(range(len(events)))) for world in worlds]
    while ahead:
        place = ahead.pop()
        if place in seen:
            continue
        seen.add(place)
        world, remaining = place
        reached = drifted(world, latest_ms)
        if not remaining:
            found |= {one for one in reached if not any(refunding(one, number) for number in done)}
        for one in reached:
            for number in remaining:
                event = events[number]
                came_to = {one} if event.told is None else set[World]()
                if event.told is not None or event.repeat in remaining:
                    came_to |= _after(one, event)
                ahead += [(after, remaining - {number}) for after in came_to]
    return found


def _after(world: World, event: Event) -> set[World]:
    return {
        after
        for at in event.moments
        for after, told in outcomes(world, event.op, at, event.told)
        if event.told is None or is_like(told, event.told)
    }


def is_like(expected: Told, told: Told) -> bool:
    """Whether the answer is the one that was expected."""
    same = (expected.status, expected.code, expected.names) == (told.status, told.code, told.names)
    return same and told.shown[: len(expected.shown)] == expected.shown
