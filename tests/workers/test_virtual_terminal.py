"""The virtual terminal against a service that answers by the protocol, loses answers and goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from device_service import DeviceService, Fault, Lease
from paydesk.core.secrets import Secret
from paydesk.sandbox.terminals import journal as journals
from paydesk.sandbox.terminals.client import DeviceClient, Pace
from paydesk.sandbox.terminals.journal import Entry, Journal
from paydesk.sandbox.terminals.terminal import Terminal

QUICK = Pace(poll_seconds=5, backoff_seconds=(0.01, 0.02))


class Bench:
    """A terminal that can be started, stopped and started again, before a service."""

    def __init__(self, service: DeviceService, base_url: str, folder: Path, http: aiohttp.ClientSession) -> None:
        self.service, self.base_url, self.http = service, base_url, http
        self.path = journals.path_of(folder, "T__1")
        self.terminal: Terminal | None = None

    async def start(self, script: str = "approve:0s", *entries: Entry) -> Terminal:
        """Start the terminal with what its journal has, or with these entries and this script at first."""
        journal = journals.read(self.path)
        if journal is None:
            journal = Journal(self.path, "T__1", Secret("PDT-1"), script, entries)
            await journal.save()
        self.terminal = Terminal(DeviceClient(self.http, self.base_url, journal.device_token), journal, QUICK)
        self.terminal.start()
        return self.terminal

    async def stop(self) -> None:
        """Stop it, which must not take a second."""
        if self.terminal is not None:
            async with asyncio.timeout(1):
                await self.terminal.stop()

    def entries(self) -> list[Entry]:
        """What the journal on the disk has."""
        journal = journals.read(self.path)
        assert journal is not None
        return list(journal.entries.values())

    async def until_empty(self) -> None:
        """Wait until the journal holds nothing more."""
        async with asyncio.timeout(5):
            while self.entries():  # noqa: ASYNC110  # a file has no event to wait for
                await asyncio.sleep(0.005)


@pytest.fixture
async def service() -> DeviceService:
    """What the terminal talks to."""
    return DeviceService()


@pytest.fixture
async def bench(service: DeviceService, tmp_path: Path) -> AsyncIterator[Bench]:
    """A terminal before the service, stopped at the end."""
    async with service.serve() as base_url, aiohttp.ClientSession() as http:
        bench = Bench(service, base_url, tmp_path, http)
        yield bench
        await bench.stop()


def _only(lease: Lease) -> dict[str, Any]:
    assert len(lease.results) == 1
    return next(iter(lease.results.values()))


async def test_an_order_is_paid(bench: Bench, service: DeviceService) -> None:
    """An order is acknowledged, granted and approved, step by step, and then forgotten."""
    await bench.start()
    lease = service.offer("L1", "24.90")
    await service.until_state(lease, "processed")
    await bench.until_empty()
    assert _only(lease)["paid_amount"] == "24.90"
    await service.until_told("printing")
    calls = [name for name, _ in service.calls if name != "next"]
    assert calls == [
        "hello",
        "ack",
        "card_requested",
        "card_presented",
        "authorizing",
        "acquirer",
        "result",
        "printing",
    ]


async def test_orders_follow_each_other(bench: Bench, service: DeviceService) -> None:
    """A terminal takes the next order as soon as the result of the one before is recorded."""
    await bench.start()
    for number in range(10):
        lease = service.offer(f"L{number}")
        await service.until_state(lease, "processed")
    await bench.until_empty()
    assert len({body["result"] for body in service.told("result")}) == 10


async def test_a_decline_has_its_detail(bench: Bench, service: DeviceService) -> None:
    """The script's detail is the result's."""
    await bench.start("decline:insufficient_amount:0s")
    lease = service.offer("L1")
    await service.until_state(lease, "failed")
    assert _only(lease)["status_detail"] == "insufficient_amount"


async def test_the_buyer_cancels_before_the_grant(bench: Bench, service: DeviceService) -> None:
    """`cancel` reports a cancellation and never asks for the grant."""
    await bench.start("cancel:0s")
    lease = service.offer("L1")
    await service.until_state(lease, "canceled")
    assert _only(lease) == {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
    assert not lease.granted


async def test_ignore_never_acknowledges(bench: Bench, service: DeviceService) -> None:
    """`ignore` goes on polling and leaves the order as it was."""
    await bench.start("ignore")
    lease = service.offer("L1")
    await service.until_told("next", 2)
    assert lease.state == "created"
    assert bench.entries() == []


async def test_hold_gives_way_to_a_cancel(bench: Bench, service: DeviceService) -> None:
    """A held order is given back when the seller asks, and the next one is taken."""
    await bench.start("hold")
    lease = service.offer("L1")
    await service.until_told("card_requested")
    service.say({"type": "cancel", "lease_id": "L1"})
    await service.until_state(lease, "canceled")
    assert lease.cancel_done is True
    assert bench.terminal is not None
    await bench.terminal.set_script("approve:0s")
    await service.until_state(service.offer("L2"), "processed")


async def test_hold_gives_way_to_the_expiry(bench: Bench, service: DeviceService) -> None:
    """A held order that ran out of time is crossed out without a word."""
    await bench.start("hold")
    service.offer("L1")
    await service.until_told("card_requested")
    service.say({"type": "expired", "lease_id": "L1"})
    await bench.until_empty()
    assert service.told("result") == []


async def test_after_the_grant_a_cancel_comes_too_late(bench: Bench, service: DeviceService) -> None:
    """A terminal at the acquirer answers a cancel with no, and reports the outcome."""
    await bench.start("approve:0.6s")
    lease = service.offer("L1")
    await service.until_told("authorizing")
    service.say({"type": "cancel", "lease_id": "L1"})
    await service.until_told("cancel-result")
    assert lease.cancel_done is False
    await service.until_state(lease, "processed")


async def test_a_new_order_ends_the_one_before(bench: Bench, service: DeviceService) -> None:
    """Another order means that the one held is over for the service, whatever message was lost."""
    await bench.start("hold")
    service.offer("L1")
    await service.until_told("card_requested")
    service.offer("L2")
    await service.until_told("card_requested", 2)
    assert [entry.lease_id for entry in bench.entries()] == ["L2"]


@pytest.mark.parametrize("script", ["no_answer:0s", "late:0s"])
async def test_an_unknown_outcome_is_said_to_be_unknown(bench: Bench, service: DeviceService, script: str) -> None:
    """An acquirer that has charged and does not answer is not asked again: the service finds out."""
    await bench.start(script)
    lease = service.offer("L1")
    await service.until_state(lease, "check")
    await bench.until_empty()
    assert _only(lease) == {"outcome": "unknown"}
    assert len(service.told("acquirer")) == 1


@pytest.mark.parametrize("call", ["hello", "next", "ack", "card_requested", "authorizing", "acquirer", "result"])
@pytest.mark.parametrize("fault", ["lost", 503, 429])
async def test_lost_answers_are_asked_for_again(bench: Bench, service: DeviceService, call: str, fault: Fault) -> None:
    """Whichever answer is lost or late, the order ends once, by one result."""
    service.faults[call].extend([fault, fault, fault])
    await bench.start()
    service.offer("L0")
    if call == "next" and fault == "lost":
        # Offers were consumed with the answers that were lost; the service offers again.
        for _ in range(3):
            service.offer("L0")
    lease = service.leases["L0"]
    await service.until_state(lease, "processed")
    await bench.until_empty()
    assert len(lease.results) == 1


async def test_doubled_offers_change_nothing(bench: Bench, service: DeviceService) -> None:
    """An order that is offered again while it is paid is paid once."""
    await bench.start("approve:0.1s")
    for _ in range(5):
        lease = service.offer("L1")
    await service.until_state(lease, "processed")
    await bench.until_empty()
    assert len(service.told("ack")) == 1
    assert len(lease.results) == 1


@pytest.mark.parametrize("answer", [400, 401, 404, 413, 429, 500, 503, {"error": "order_finished"}])
async def test_results_are_reported_until_recorded(bench: Bench, service: DeviceService, answer: Fault) -> None:
    """Only a success or a recorded refusal ends the reporting, under one id with one content."""
    service.faults["result"].extend([answer] * 4)
    await bench.start()
    lease = service.offer("L1")
    await service.until_state(lease, "processed")
    await bench.until_empty()
    assert len(service.told("result")) == 5
    assert len({body["result"] for body in service.told("result")}) == 1


async def test_a_recorded_refusal_ends_the_reporting(bench: Bench, service: DeviceService) -> None:
    """A 409 that says it was recorded is as good as a success."""
    service.faults["result"].append({"error": "order_finished", "recorded": True})
    await bench.start()
    service.offer("L1")
    await service.until_told("result")
    await bench.until_empty()


@pytest.mark.parametrize(
    ("call", "faults", "ends"),
    [
        ("ack", ["hang"], "processed"),
        ("ack", ["silent"], "processed"),
        ("ack", ["lost", "hang"], "processed"),
        ("card_presented", ["hang"], "processed"),
        ("authorizing", ["hang"], "canceled"),
        ("authorizing", ["silent"], "failed"),
        ("authorizing", ["lost", "hang"], "failed"),
        ("acquirer", ["hang"], "processed"),
        ("acquirer", ["silent"], "processed"),
        ("acquirer", ["lost", 503, "hang"], "processed"),
        ("result", ["hang"], "processed"),
        ("result", ["silent"], "processed"),
        ("result", [503, "hang"], "processed"),
    ],
)
async def test_a_restart_at_any_point(
    bench: Bench, service: DeviceService, call: str, faults: list[Fault], ends: str
) -> None:
    """Stopped at any call, a terminal that starts again ends the order once, and charges nothing it is not sure of.

    Asked for the grant and not granted, the service takes the order back. Granted without hearing of it, the terminal
    says that it never went to the acquirer. Where it may have gone there it asks again, and is told the same.
    """
    service.faults[call].extend(faults)
    await bench.start()
    lease = service.offer("L1")
    await service.until_told(call, len(faults))
    await bench.stop()
    if lease.state == "created":
        service.offer("L1")
    await bench.start()
    await service.until_state(lease, ends)
    await bench.until_empty()
    assert len(lease.results) == (0 if ends == "canceled" else 1)
    assert len(service.charges) == (1 if ends == "processed" else 0)
    if ends == "failed":
        assert _only(lease) == {"outcome": "declined", "status_detail": "processing_error"}


async def test_a_restart_at_the_acquirer_reports_the_same_outcome(bench: Bench, service: DeviceService) -> None:
    """What the acquirer said was written down with the grant: a restart, whatever its script, reports just that."""
    await bench.start("approve:1s")
    lease = service.offer("L1")
    await service.until_told("authorizing")
    while (held := bench.entries()[0]).result is None:  # noqa: ASYNC110  # a file has no event to wait for
        await asyncio.sleep(0.005)
    assert held.until == lease.until
    assert bench.terminal is not None
    await bench.terminal.set_script("decline:0s")
    await bench.stop()
    assert lease.results == {}
    await bench.start()
    await service.until_state(lease, "processed")
    assert lease.results == {held.result_id: held.result}


async def test_a_charge_that_nobody_told_of_in_time_is_unknown(bench: Bench, service: DeviceService) -> None:
    """A restart after the grant's end does not ask the acquirer any more: only the service may find out."""
    service.faults["acquirer"].append("silent")
    await bench.start()
    lease = service.offer("L1")
    await service.until_told("acquirer")
    await bench.stop()
    service.behind_seconds = -3600
    await bench.start()
    await service.until_state(lease, "check")
    assert _only(lease) == {"outcome": "unknown"}
    assert len(service.told("acquirer")) == 1


@pytest.mark.parametrize(
    ("answer", "charged", "ends"), [(401, False, "failed"), (401, True, "check"), (503, False, "check")]
)
async def test_an_acquirer_that_does_not_take_it(
    bench: Bench, service: DeviceService, answer: int, *, charged: bool, ends: str
) -> None:
    """Refused at first, nothing was charged; refused after an answer was lost, or away for good, nobody knows."""
    service.permit_seconds = 0.5 if answer == 503 else 60
    service.faults["acquirer"].extend((["lost"] if charged else []) + [answer] * 500)
    await bench.start()
    lease = service.offer("L1")
    await service.until_state(lease, ends)
    assert len(service.charges) == charged


@pytest.mark.parametrize("verdict", ["forget", "abort"])
async def test_a_charge_is_forgotten_where_the_service_knows(
    bench: Bench, service: DeviceService, verdict: str
) -> None:
    """An order that ended by the acquirer's word to the service is not asked about again."""
    service.faults["acquirer"].append("silent")
    await bench.start()
    lease = service.offer("L1")
    await service.until_told("acquirer")
    await bench.stop()
    service.verdicts["L1"] = verdict
    await bench.start()
    await bench.until_empty()
    assert lease.results == {}
    assert len(service.told("acquirer")) == 1


async def test_a_result_is_repeated_word_for_word(bench: Bench, service: DeviceService) -> None:
    """A result whose answer never came has the same id and content after a restart."""
    service.faults["result"].extend(["lost", "silent"])
    await bench.start()
    lease = service.offer("L1")
    await service.until_told("result", 2)
    await bench.stop()
    await bench.start()
    await bench.until_empty()
    told = [{key: value for key, value in body.items() if key != "boot_id"} for body in service.told("result")]
    assert len(told) == 3
    assert told[0] == told[1] == told[2]
    assert len(lease.results) == 1


async def test_a_grant_is_measured_by_the_clock_that_gave_it(bench: Bench, service: DeviceService) -> None:
    """A service whose clock was frozen since the hello grants by that clock, and the terminal goes by it too."""
    await bench.start()
    await service.until_told("next")
    service.behind_seconds = 3600
    lease = service.offer("L1")
    await service.until_state(lease, "processed")


async def test_a_grant_that_is_over_is_not_used(bench: Bench, service: DeviceService) -> None:
    """A go whose time has passed never reaches the acquirer."""
    service.permit_seconds = -1
    await bench.start()
    lease = service.offer("L1")
    await service.until_state(lease, "failed")
    assert _only(lease)["status_detail"] == "processing_error"


@pytest.mark.parametrize("call", ["ack", "authorizing"])
async def test_an_order_taken_back_before_the_grant_is_forgotten(
    bench: Bench, service: DeviceService, call: str
) -> None:
    """A refusal to acknowledge or to authorize ends the order at the terminal."""
    service.faults[call].append({"error": "order_canceled"})
    await bench.start()
    service.offer("L1")
    await service.until_told(call)
    await bench.until_empty()
    assert service.told("result") == []


@pytest.mark.parametrize("verdict", ["forget", "abort"])
async def test_verdicts_that_end_an_order(bench: Bench, service: DeviceService, verdict: str) -> None:
    """What the service says to forget or abort is crossed out."""
    service.verdicts["L1"] = verdict
    await bench.start("approve:0s", Entry("L1", {"amount": "1.00"}, "acknowledged"))
    await bench.until_empty()
    assert service.told("ack") == []


async def test_the_journal_is_told_at_hello(bench: Bench, service: DeviceService) -> None:
    """Hello tells each lease with its last step, and its result where there is one."""
    result = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
    service.leases["L2"] = Lease({}, "at_terminal")
    service.faults["result"].append("hang")
    await bench.start("hold", Entry("L1", {}), Entry("L2", {}, "acknowledged", "", "R", result))
    hello = await service.until_told("hello")
    assert hello["journal"] == [
        {"lease_id": "L1", "last_step": "offered"},
        {"lease_id": "L2", "last_step": "acknowledged", "result": result},
    ]


async def test_unknown_messages_are_ignored(bench: Bench, service: DeviceService) -> None:
    """A later service may say more; what a terminal doesn't know doesn't stop it."""
    await bench.start()
    service.say({"type": "firmware", "url": "…"})
    service.say({"type": "mode", "operating_mode": "STANDALONE"})
    lease = service.offer("L1")
    await service.until_state(lease, "processed")
    assert bench.terminal is not None
    assert bench.terminal.operating_mode == "STANDALONE"


async def test_a_later_start_elsewhere_ends_this_one(bench: Bench, service: DeviceService) -> None:
    """A superseded terminal stops for good instead of taking the session back."""
    terminal = await bench.start()
    await service.until_told("next")
    service.boots.append("another")
    service.say({"type": "mode", "operating_mode": "PDV"})
    assert terminal._running is not None
    async with asyncio.timeout(2):
        await terminal._running
    assert len(service.told("hello")) == 1


async def test_a_refused_token_ends_it_after_the_results(bench: Bench, service: DeviceService) -> None:
    """A terminal whose token is refused asks for nothing more, and reports what it still has."""
    service.leases["L1"] = Lease({}, "at_terminal", granted=True)
    service.faults["hello"].append(401)
    service.faults["result"].extend([401, 401])
    result = {"outcome": "approved", "status_detail": "accredited"}
    terminal = await bench.start("approve:0s", Entry("L1", {}, "authorizing", "", "R", result))
    assert terminal._running is not None
    async with asyncio.timeout(2):
        await terminal._running
    assert service.leases["L1"].results == {"R": result}
    assert service.told("next") == []


async def test_it_waits_for_a_service_that_is_away(
    service: DeviceService, tmp_path: Path, unused_tcp_port: int
) -> None:
    """A terminal that starts before the service says hello once it is there."""
    async with aiohttp.ClientSession() as http:
        bench = Bench(service, f"http://127.0.0.1:{unused_tcp_port}", tmp_path, http)
        terminal = await bench.start()
        await asyncio.sleep(0.03)
        async with service.serve(unused_tcp_port), asyncio.timeout(2):
            await terminal.settled.wait()
            await bench.stop()
