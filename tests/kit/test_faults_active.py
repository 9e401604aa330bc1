"""Faults in memory: which request fires, how often, and what ends a hold."""

from __future__ import annotations

import asyncio

import pytest

from paydesk.core import faults
from paydesk.platform.process.node import StartRefused
from paydesk_dev.faults.active import FAULTS_MAX, FAULTS_OF_HEADERS_MAX, FIRINGS_MAX, Faults, RequestFacts


def request_of(name: str = "create_order", **facts: str) -> RequestFacts:
    """Return a request of a till."""
    return RequestFacts("till", (name,), facts, "r1")


def fires(active: Faults, request: RequestFacts) -> str:
    """Return the kind that the request meets; empty if none does."""
    taken = active.take(request, "create_order", 0)
    return str(taken[1].kind) if taken is not None else ""


def test_the_older_of_two_fires_until_it_is_spent() -> None:
    """One a request; what the older one takes, the younger one does not count. A spent one goes on to count."""
    active = Faults("till create_order reset times=2; till create_order busy skip=1")
    assert [fires(active, request_of()) for _ in range(5)] == ["reset", "reset", "", "busy", ""]
    assert [one.matched for one in active] == [5, 3]
    active.remove(*active)
    assert not active.on_wire


def test_only_matching_requests_are_counted() -> None:
    """By the names of the request, and by every field of `match`."""
    active = Faults("till create_order reset every=2 times=0 reference=s1")
    assert fires(active, request_of("get_order", reference="s1")) == ""
    kinds = [fires(active, request_of(reference=name)) for name in ("s1", "s2", "s1", "s1", "s1")]
    assert kinds == ["", "", "reset", "", "reset"]
    assert Faults().on_wire is False
    assert fires(Faults("till * reset"), request_of("anything")) == "reset"
    assert fires(Faults("terminal * reset"), request_of()) == ""
    assert [
        fires(Faults("till * reset mode=test"), one)
        for one in (request_of(mode="live"), request_of(mode="test"), request_of())
    ] == [
        "",
        "reset",
        "reset",
    ]


def test_a_reset_counts_anew() -> None:
    """What has fired is forgotten."""
    active = Faults("till create_order reset")
    assert (fires(active, request_of()), fires(active, request_of())) == ("reset", "")
    active.count_anew()
    assert fires(active, request_of()) == "reset"


def test_faults_and_firings_are_limited() -> None:
    """Those of headers and of virtual terminals take no room of others."""
    active, fault = Faults(), faults.parse("till create_order reset times=0")
    headed = [active.add(fault, 0, of_header=True) for _ in range(FAULTS_OF_HEADERS_MAX + 1)]
    assert [active.find(one.id) for one in (headed[0], headed[-1])] == [None, headed[-1]]
    assert (len(list(active)), active.on_wire) == (FAULTS_OF_HEADERS_MAX, False)
    added = [active.add(fault, 0) for _ in range(FAULTS_MAX)]
    was_full = active.is_full
    own = [active.add(fault, 0, of_terminal=True) for _ in range(FAULTS_MAX)]
    active.remove(added.pop())
    assert (was_full, active.is_full) == (True, False)
    active.remove(*own)
    for _ in range(FIRINGS_MAX + 1):
        taken = active.take(request_of(), "create_order", 0)
        assert taken is not None
        active.note(*taken)
    assert (added[0].fired, len(added[0].firings), added[0].firings[-1].number) == (201, 200, 201)


def test_a_mistake_in_the_setting_refuses_the_start() -> None:
    """It names the line."""
    with pytest.raises(StartRefused, match="faults: 'till x': line must be"):
        Faults("till x")


async def test_a_hold_ends_by_release_removal_reset_or_stop() -> None:
    """Whether it has a delay or not."""
    active = Faults("till create_order late times=0")
    (late,) = active
    for end in ("release", "remove", "count_anew"):
        taken = active.take(request_of(), "create_order", 0)
        assert taken is not None
        pausing = asyncio.ensure_future(active.pause(*taken, None))
        await asyncio.sleep(0)
        assert (taken[1].is_held, pausing.done()) == (True, False)
        if end == "count_anew":
            active.count_anew()
        else:
            getattr(active, end)(late)
        await pausing
        assert (taken[1].is_held, pausing.done()) == (False, True)
        late.is_released = late.is_removed = False
        active._all[late.id] = late
    taken = active.take(request_of(), "create_order", 0)
    assert taken is not None
    timed = asyncio.ensure_future(active.pause(*taken, 60))
    await asyncio.sleep(0)
    assert not timed.done()
    active._signals.stop()
    await timed
