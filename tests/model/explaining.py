"""Which worlds explain the responses: all orders of concurrent requests are tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from model.world import Moment, Op, Response, World, drifted, outcomes, refunding

DECIDED = (("processed",), ("declined",))
"""The `names` of responses to refunds that have an outcome."""


@dataclass(frozen=True, slots=True)
class Event:
    """A request and its response, with the times of both.

    An attempt without a response may have been handled, but only before the event at place `repeat`, its repeat.
    """

    op: Op
    response: Response | None
    after_ms: int
    until_ms: int
    repeat: int = -1

    @property
    def moments(self) -> tuple[Moment, ...]:
        """Return the possible times of handling that matter."""
        return tuple(Moment(self.after_ms, now_ms) for now_ms in {self.after_ms, self.until_ms})


def explained(worlds: Iterable[World], events: tuple[Event, ...], latest_ms: int) -> set[World]:
    """Return the possible worlds after all events in any order; empty if none explains the responses."""
    found: set[World] = set()
    done = [event.op.number for event in events if event.response is not None and event.response.names in DECIDED]
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
                came_to = {one} if event.response is None else set[World]()
                if event.response is not None or event.repeat in remaining:
                    came_to |= _after(one, event)
                ahead += [(after, remaining - {number}) for after in came_to]
    return found


def _after(world: World, event: Event) -> set[World]:
    return {
        after
        for at in event.moments
        for after, response in outcomes(world, event.op, at, event.response)
        if event.response is None or is_like(response, event.response)
    }


def is_like(expected: Response, response: Response) -> bool:
    """Return whether the response is as expected."""
    same = (expected.status, expected.code, expected.names) == (response.status, response.code, response.names)
    return same and response.shown[: len(expected.shown)] == expected.shown
