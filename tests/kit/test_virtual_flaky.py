"""A flaky network between a virtual terminal and the service, and restarts at every step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from device_service import DeviceService, Lease
from paydesk.core.faults import create
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.active import Faults
from paydesk_dev.http_client import Reply
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.terminal import network as networks
from paydesk_dev.virtual.terminal.client import Pace
from paydesk_dev.virtual.terminal.network import FLAKY, FLAKY_KINDS, DisturbedNetwork, flaky
from skipped_waits import skipped_waits
from virtual_scene import create as create_virtual
from virtual_scene import playing
from waiting import HANGS_SECONDS, until

QUICK = Pace(poll_seconds=1, backoff_seconds=(0.01, 0.02))
SEED = 526
"""It sends the first six requests twice."""
CALLS = ("ack", "card_requested", "card_presented", "authorizing", "acquirer", "result")


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DeviceService]:
    """The service that the terminals connect to; messages are late by milliseconds."""
    monkeypatch.setattr(networks, "FLAKY", FLAKY.replace("1s", "20ms"))
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


async def _once(kind: str) -> tuple[Wire, Counter[str], bytes | None]:
    """Exchange one message with this fault; return what arrived, the counts, and the answer if there was one."""
    wire, counts = Wire(), Counter[str]()
    network = DisturbedNetwork(create("terminal", "*", kind), counts)
    with skipped_waits():
        try:
            received = (await network.exchange(lambda: wire.send("first"))).raw
        except ConnectionResetError:
            received = None
    return wire, counts, received


async def test_reset_request_never_arrives() -> None:
    """The terminal gets no answer."""
    wire, counts, received = await _once("reset")
    assert (wire.arrived, counts, received) == ([], {"reset": 1}, None)


async def test_lost_answer_follows_a_request_that_arrived() -> None:
    """The terminal gets no answer all the same."""
    wire, counts, received = await _once("answer_lost")
    assert (wire.arrived, counts, received) == (["first"], {"answer_lost": 1}, None)


async def test_doubled_request_arrives_twice() -> None:
    """One of the two answers counts."""
    wire, counts, received = await _once("twice")
    assert (wire.arrived, counts) == (["first", "first"], {"twice": 1})
    assert received in (b"1", b"2")


@pytest.mark.parametrize("kind", ["late:1s", "out_of_order:1s"])
async def test_late_request_is_answered(kind: str) -> None:
    """It only takes longer; one that no other overtakes is not held for ever."""
    wire, counts, received = await _once(kind)
    assert (wire.arrived, counts, received) == (["first"], {kind.partition(":")[0]: 1}, b"1")


async def test_overtaken_request_arrives_after_a_later_one() -> None:
    """It is held until that was answered."""
    wire = Wire()
    network = DisturbedNetwork(create("terminal", "*", "out_of_order:60s"), Counter())
    first = asyncio.create_task(network.exchange(lambda: wire.send("first")))
    await asyncio.sleep(0)
    network._fault = create("terminal", "*", "late:0s", skip=1000)
    await network.exchange(lambda: wire.send("second"))
    await first
    assert wire.arrived == ["second", "first"]


def test_same_seed_draws_the_same_faults() -> None:
    """Another seed draws others; one request in so many is disturbed."""

    def drawn(seed: int) -> list[int]:
        fault = flaky(0.2, "T__1", seed)
        return [number for number in range(1, 201) if fault.hits(number)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(drawn(1)) == 40
    fault = flaky(0.2, "T__1", 1)
    assert {fault.kind_at(number).name for number in range(1, 41)} == set(FLAKY_KINDS)


@pytest.mark.parametrize(("probability", "every"), [(1, 1), (0.5, 2), (0.05, 20), (0.001, 1000)])
def test_probability_becomes_one_of_so_many(probability: float, every: int) -> None:
    """Within the limits of the grammar."""
    assert flaky(probability, "T__1", 7).every == every


@pytest.mark.on_postgres
async def test_flaky_script_is_a_fault_of_the_service_beside_it(database: Database) -> None:
    """Listed with its firings, the same after a restart of the terminal, another with another script."""
    with skipped_waits(database):
        async with playing(database) as service:
            faults = service.shared.objects[Faults]
            virtual = await create_virtual(service, script="flaky:1:approve:0s", seed=SEED)
            (fault,) = faults
            assert fault.fault.line == f"terminal '*' {FLAKY} terminal={virtual.id} times=0 seed={SEED}"
            assert [firing.operation for firing in fault.firings][:1] == ["device_hello"]
            await virtual.act("reboot")
            assert list(faults) == [fault]
            faults.remove(fault)
            await virtual.act("set_script", script="flaky:1:approve:0s")
            assert [one.fault for one in faults] == [fault.fault], "one that was removed is made again"
            await virtual.act("set_script", script="approve:0s")
            assert list(faults) == []
            await virtual.act("set_script", script="flaky:0.25:approve:0s")
            assert [one.fault.every for one in faults] == [4]
            assert (await virtual.delete()).status == 204
            assert list(faults) == []


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
    assert all(fleet.counts[fault] for fault in FLAKY_KINDS)


async def test_script_can_become_flaky_and_steady_again(service: DeviceService) -> None:
    """From the next message on."""
    fleet = Fleet(service.base_url, None, QUICK)
    await fleet.start()
    await fleet.add("T__1", "PDT-1", "approve:0s")
    await fleet.find("T__1").set_script("flaky:1:approve:0s")
    await until(lambda: bool(fleet.counts))
    await fleet.find("T__1").set_script("approve:0s")
    await _paid(service, "L1")
    before = sum(fleet.counts[fault] for fault in FLAKY_KINDS)
    for number in range(2, 12):
        # A poll that the flaky network delayed may take an offer, which the terminal then never sees.
        await _paid(service, f"L{number}")
    await fleet.stop()
    assert sum(fleet.counts[fault] for fault in FLAKY_KINDS) == before


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
