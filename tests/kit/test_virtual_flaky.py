"""A flaky network between a virtual terminal and the service, and restarts at every step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from device_service import DeviceService, Lease
from paydesk_dev.http_client import Reply
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.terminal import network as networks
from paydesk_dev.virtual.terminal.client import Pace
from paydesk_dev.virtual.terminal.network import ANSWER_FAULTS, REQUEST_FAULTS, FlakyNetwork, MessageLost
from skipped_waits import skipped_waits
from waiting import HANGS_SECONDS, until

QUICK = Pace(poll_seconds=1, backoff_seconds=(0.01, 0.02))
CALLS = ("ack", "card_requested", "card_presented", "authorizing", "acquirer", "result")


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DeviceService]:
    """The service that the terminals connect to; messages are late by milliseconds."""
    monkeypatch.setattr(networks, "SECONDS_MAX", 0.02)
    monkeypatch.setattr(networks, "OVERTAKING_SECONDS", 0.005)
    service = DeviceService()
    with skipped_waits():
        async with service.serve() as service.base_url:
            yield service


class Wire:
    """Records the requests that arrive, and answers each with its number."""

    def __init__(self) -> None:
        self.arrived: list[str] = []

    async def send(self, name: str) -> Reply:
        """Let the request arrive."""
        self.arrived.append(name)
        number = len(self.arrived)
        await asyncio.sleep(0)
        return Reply(200, str(number).encode(), {})


def _seed_with(request: str, answer: str = "") -> str:
    """Return a seed by which a network draws these faults first, where `""` is none."""
    for seed in map(str, range(100_000)):
        network = FlakyNetwork(0.5, seed, Counter())
        if (network.draw(REQUEST_FAULTS).fault, network.draw(ANSWER_FAULTS).fault) == (request, answer):
            return seed
    raise AssertionError("one of so many seeds has them")


async def _once(request: str, answer: str = "") -> tuple[Wire, Counter[str], bytes | None]:
    """Exchange one message with these faults; return what arrived, the counts, and the answer if there was one."""
    wire, counts = Wire(), Counter[str]()
    network = FlakyNetwork(0.5, _seed_with(request, answer), counts)
    with skipped_waits():
        try:
            reply = await network.exchange(lambda: wire.send("first"))
        except MessageLost:
            received = None
        else:
            received = reply.raw
        await asyncio.gather(*network._under_way)
    return wire, counts, received


async def test_lost_request_never_arrives() -> None:
    """The terminal gets no answer."""
    wire, counts, received = await _once("lost")
    assert (wire.arrived, counts, received) == ([], {"lost": 1}, None)


async def test_lost_answer_follows_a_request_that_arrived() -> None:
    """The terminal gets no answer all the same."""
    wire, counts, received = await _once("", "lost")
    assert (wire.arrived, counts, received) == (["first"], {"lost": 1}, None)


async def test_doubled_request_arrives_twice() -> None:
    """One of the two answers counts."""
    wire, counts, received = await _once("doubled")
    assert (wire.arrived, counts) == (["first", "first"], {"doubled": 1})
    assert received in (b"1", b"2")


@pytest.mark.parametrize("place", ["request", "answer"])
async def test_late_message_is_answered(place: str) -> None:
    """It only takes longer."""
    wire, counts, received = await _once(*(("late", "") if place == "request" else ("", "late")))
    assert (wire.arrived, counts, received) == (["first"], {"late": 1}, b"1")


async def test_reordered_request_arrives_after_a_later_one() -> None:
    """The terminal has given it up."""
    wire, counts = Wire(), Counter[str]()
    network = FlakyNetwork(0.5, _seed_with("reordered"), counts)
    with skipped_waits():
        with pytest.raises(MessageLost):
            await network.exchange(lambda: wire.send("first"))
        network.probability = 0
        await network.exchange(lambda: wire.send("second"))
        await asyncio.gather(*network._under_way)
    assert (wire.arrived, counts) == (["second", "first"], {"reordered": 1})


async def test_reordered_request_arrives_without_another_too() -> None:
    """It is not held for ever."""
    wire, _, received = await _once("reordered")
    assert (wire.arrived, received) == (["first"], None)


def test_same_seed_draws_the_same_faults() -> None:
    """Another seed draws others."""

    def drawn(seed: str) -> list[str]:
        network = FlakyNetwork(0.2, seed, Counter())
        return [network.draw(REQUEST_FAULTS).fault for _ in range(200)]

    assert drawn("1:T__1") == drawn("1:T__1") != drawn("1:T__2")
    hit = [fault for fault in drawn("1:T__1") if fault]
    assert set(hit) == set(REQUEST_FAULTS)
    assert 20 <= len(hit) <= 60


async def _paid(service: DeviceService, lease_id: str) -> Lease:
    """Offer the order until it is paid, as the service does as long as it is not acknowledged."""
    lease = service.offer(lease_id)
    async with asyncio.timeout(HANGS_SECONDS):
        while lease.state != "processed":
            await asyncio.sleep(0.05)
            if not lease.results:
                service.offer(lease_id)
    return lease


async def test_flaky_terminals_pay_every_order(service: DeviceService) -> None:
    """At a third of all messages: each order is paid, and charged once."""
    fleet = Fleet(service.base_url, None, QUICK, seed=7)
    await fleet.start()
    await fleet.add("T__1", "PDT-1", "flaky:0.33:approve:0s")
    for number in range(15):
        lease = await _paid(service, f"L{number}")
        assert [result["outcome"] for result in lease.results.values()] == ["approved"]
    await fleet.stop()
    assert len(service.charges) == 15
    assert fleet.counts["approved"] >= 14  # Of the last one the answer may be under way.
    assert all(fleet.counts[fault] for fault in REQUEST_FAULTS)


async def test_script_can_become_flaky_and_steady_again(service: DeviceService) -> None:
    """From the next message on."""
    fleet = Fleet(service.base_url, None, QUICK)
    await fleet.start()
    await fleet.add("T__1", "PDT-1", "approve:0s")
    await fleet.find("T__1").set_script("flaky:0.9:approve:0s")
    await until(lambda: bool(fleet.counts))
    await fleet.find("T__1").set_script("approve:0s")
    await _paid(service, "L1")
    before = sum(fleet.counts[fault] for fault in REQUEST_FAULTS)
    for number in range(2, 12):
        # A poll that the flaky network delayed may take an offer, which the terminal then never sees.
        await _paid(service, f"L{number}")
    await fleet.stop()
    assert sum(fleet.counts[fault] for fault in REQUEST_FAULTS) == before


async def test_playlist_goes_on_with_the_next_order(service: DeviceService, tmp_path: Path) -> None:
    """Across a restart of the process too."""
    fleet = Fleet(service.base_url, tmp_path, QUICK)
    await fleet.start()
    await fleet.add("T__1", "PDT-1", "approve:0s*2,decline:high_risk:0s@0.05s")
    await service.until_state(service.offer("L1"), "processed")
    await fleet.stop()
    again = Fleet(service.base_url, tmp_path, QUICK)
    await again.start()
    for lease_id, state in (("L2", "processed"), ("L3", "failed"), ("L4", "processed")):
        await service.until_state(service.offer(lease_id), state)
    await again.stop()


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
async def test_terminal_restarted_at_any_step_ends_its_order(
    service: DeviceService, tmp_path: Path, call: str, place: str, *, in_memory: bool
) -> None:
    """Before the service got the call, or before the terminal got the answer: charged once, or not at all."""
    fleet = Fleet(service.base_url, None if in_memory else tmp_path, QUICK)
    await fleet.start()
    await fleet.add("T__1", "PDT-1", "approve:0s")
    service.faults[call].append("hang" if place == "before" else "silent")
    lease = service.offer("L1")
    await service.until_received(call)
    terminal = fleet.find("T__1")
    await terminal.stop()
    terminal.start()
    await terminal.settle()
    if lease.state == "created":
        service.offer("L1")
    await until(lambda: lease.state not in ("created", "at_terminal"))
    await service.until_state(service.offer("L2"), "processed")
    await fleet.stop()
    assert len(service.charges) == (2 if lease.state == "processed" else 1)
    assert lease.state in ("processed", "canceled", "failed")
    assert len(lease.results) <= 1


async def test_unknown_terminal_cannot_be_restarted(service: DeviceService) -> None:
    """It raises."""
    fleet = Fleet(service.base_url, None, QUICK)
    with pytest.raises(KeyError):
        fleet.find("T__1")
