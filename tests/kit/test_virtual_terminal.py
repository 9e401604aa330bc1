"""A virtual terminal with a service that follows the protocol, loses answers and becomes unreachable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog

from device_service import DeviceService, Fault, Lease
from free_port import free_port
from moved_time import moved_seconds
from paydesk.core.secrets import Secret
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.journal import Entry, Journal
from paydesk_dev.virtual.terminal.client import DeviceClient, Pace
from paydesk_dev.virtual.terminal.terminal import Terminal
from skipped_waits import skipped_waits
from waiting import until

QUICK = Pace(poll_seconds=5, backoff_seconds=(0.01, 0.02))


class Bench:
    """A terminal that can be started, stopped and restarted."""

    def __init__(self, service: DeviceService, base_url: str, folder: Path, http: aiohttp.ClientSession) -> None:
        self.service, self.base_url, self.http = service, base_url, http
        self.path = journals.path_of(folder, "T__1")
        self.terminal: Terminal | None = None

    async def start(self, script: str = "approve:0s", *entries: Entry) -> Terminal:
        """Start the terminal from its journal; the first time with these entries and this script."""
        journal = journals.read(self.path)
        if journal is None:
            journal = Journal(self.path, "T__1", Secret("PDT-1"), script, entries)
            await journal.save()
        connect = partial(DeviceClient, self.http, self.base_url, journal.device_token)
        self.terminal = Terminal(journal, connect, QUICK)
        self.terminal.start()
        return self.terminal

    async def stop(self) -> None:
        """Stop it, which waits for nothing: there is no time to skip."""
        before = moved_seconds()
        if self.terminal is not None:
            await self.terminal.stop()
        assert moved_seconds() - before < 1

    def entries(self) -> list[Entry]:
        """Return the entries in the journal on the disk."""
        journal = journals.read(self.path)
        assert journal is not None
        return list(journal.entries.values())

    async def until_empty(self) -> None:
        """Wait until the journal is empty."""
        await until(lambda: not self.entries())


@pytest.fixture
async def service() -> DeviceService:
    """The service that the terminal connects to."""
    return DeviceService()


@pytest.fixture
async def bench(service: DeviceService, tmp_path: Path) -> AsyncIterator[Bench]:
    """A terminal of the service, stopped at the end."""
    with skipped_waits():
        async with service.serve() as base_url, aiohttp.ClientSession() as http:
            bench = Bench(service, base_url, tmp_path, http)
            yield bench
            await bench.stop()


def _only(lease: Lease) -> dict[str, Any]:
    assert len(lease.results) == 1
    return next(iter(lease.results.values()))


async def test_approved_order_passes_through_every_step(bench: Bench, service: DeviceService) -> None:
    """The order is acknowledged, authorized and approved, then deleted from the journal."""
    await bench.start()
    lease = service.offer("L1", "24.90")
    await service.until_state(lease, "processed")
    await bench.until_empty()
    assert _only(lease)["paid_amount"] == "24.90"
    await service.until_received("printing")
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


async def test_next_order_starts_once_the_result_is_recorded(bench: Bench, service: DeviceService) -> None:
    """Ten orders are processed one after the other."""
    await bench.start()
    for number in range(10):
        lease = service.offer(f"L{number}")
        await service.until_state(lease, "processed")
    await bench.until_empty()
    assert len({body["result"] for body in service.received("result")}) == 10


async def test_decline_script_reports_its_detail(bench: Bench, service: DeviceService) -> None:
    """The detail of the script is the detail of the result."""
    await bench.start("decline:insufficient_amount:0s")
    lease = service.offer("L1")
    await service.until_state(lease, "failed")
    assert _only(lease)["status_detail"] == "insufficient_amount"


async def test_cancel_script_cancels_before_authorization(bench: Bench, service: DeviceService) -> None:
    """It reports a cancellation and never requests the permit."""
    await bench.start("cancel:0s")
    lease = service.offer("L1")
    await service.until_state(lease, "canceled")
    assert _only(lease) == {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
    assert not lease.granted


async def test_ignore_script_never_acknowledges(bench: Bench, service: DeviceService) -> None:
    """It keeps polling, and the order stays created."""
    await bench.start("ignore")
    lease = service.offer("L1")
    await service.until_received("next", 2)
    assert lease.state == "created"
    assert bench.entries() == []


async def test_hold_script_releases_the_order_on_cancel(bench: Bench, service: DeviceService) -> None:
    """Then it processes the next order."""
    await bench.start("hold")
    lease = service.offer("L1")
    await service.until_received("card_requested")
    service.say({"type": "cancel", "lease_id": "L1"})
    await service.until_state(lease, "canceled")
    assert lease.cancel_done is True
    assert bench.terminal is not None
    await bench.terminal.journal.set_script("approve:0s")
    await service.until_state(service.offer("L2"), "processed")


async def test_hold_script_forgets_the_order_on_expiry(bench: Bench, service: DeviceService) -> None:
    """It reports no result."""
    await bench.start("hold")
    service.offer("L1")
    await service.until_received("card_requested")
    service.say({"type": "expired", "lease_id": "L1"})
    await bench.until_empty()
    assert service.received("result") == []


async def test_cancel_after_authorization_is_refused(bench: Bench, service: DeviceService) -> None:
    """The terminal answers that it did not cancel, and reports the outcome."""
    await bench.start("approve:0.6s")
    lease = service.offer("L1")
    await service.until_received("authorizing")
    service.say({"type": "cancel", "lease_id": "L1"})
    await service.until_received("cancel-result")
    assert lease.cancel_done is False
    await service.until_state(lease, "processed")


async def test_new_order_replaces_the_current_one(bench: Bench, service: DeviceService) -> None:
    """For the service the earlier order has ended, even if the message about that was lost."""
    await bench.start("hold")
    service.offer("L1")
    await service.until_received("card_requested")
    service.offer("L2")
    await service.until_received("card_requested", 2)
    assert [entry.lease_id for entry in bench.entries()] == ["L2"]


@pytest.mark.parametrize("script", ["no_answer:0s", "late:0s"])
async def test_missing_acquirer_answer_is_reported_as_unknown(
    bench: Bench, service: DeviceService, script: str
) -> None:
    """The terminal does not repeat the call: the service inquires."""
    await bench.start(script)
    lease = service.offer("L1")
    await service.until_state(lease, "check")
    await bench.until_empty()
    assert _only(lease) == {"outcome": "unknown"}
    assert len(service.received("acquirer")) == 1


@pytest.mark.parametrize("call", ["hello", "next", "ack", "card_requested", "authorizing", "acquirer", "result"])
@pytest.mark.parametrize("fault", ["lost", 503, 429])
async def test_retries_after_a_lost_answer(bench: Bench, service: DeviceService, call: str, fault: Fault) -> None:
    """The order ends once, with one result, whichever answer is lost or refused."""
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


async def test_repeated_offers_have_no_effect(bench: Bench, service: DeviceService) -> None:
    """An order that is offered again during its payment is paid once."""
    await bench.start("approve:0.1s")
    for _ in range(5):
        lease = service.offer("L1")
    await service.until_state(lease, "processed")
    await bench.until_empty()
    assert len(service.received("ack")) == 1
    assert len(lease.results) == 1


@pytest.mark.parametrize("answer", [400, 401, 404, 413, 429, 500, 503, {"error": "order_finished"}])
async def test_result_is_repeated_until_it_is_recorded(bench: Bench, service: DeviceService, answer: Fault) -> None:
    """Only success or a recorded refusal ends it; every attempt has the same id and content."""
    service.faults["result"].extend([answer] * 4)
    await bench.start()
    lease = service.offer("L1")
    await service.until_state(lease, "processed")
    await bench.until_empty()
    assert len(service.received("result")) == 5
    assert len({body["result"] for body in service.received("result")}) == 1


async def test_recorded_refusal_ends_the_reporting(bench: Bench, service: DeviceService) -> None:
    """A 409 with `recorded: true` counts like success."""
    service.faults["result"].append({"error": "order_finished", "recorded": True})
    await bench.start()
    service.offer("L1")
    await service.until_received("result")
    await bench.until_empty()


@pytest.mark.parametrize(
    ("call", "faults", "ends"),
    [
        ("ack", ["hang"], "processed"),
        ("ack", ["silent"], "processed"),
        ("ack", ["lost", "hang"], "processed"),
        ("card_presented", ["hang"], "processed"),
        ("authorizing", ["hang"], "failed"),
        ("authorizing", ["silent"], "processed"),
        ("authorizing", ["lost", "hang"], "processed"),
        ("acquirer", ["hang"], "processed"),
        ("acquirer", ["silent"], "processed"),
        ("acquirer", ["lost", 503, "hang"], "processed"),
        ("result", ["hang"], "processed"),
        ("result", ["silent"], "processed"),
        ("result", [503, "hang"], "processed"),
    ],
)
async def test_restart_at_any_point(
    bench: Bench, service: DeviceService, call: str, faults: list[Fault], ends: str
) -> None:
    """A terminal that is stopped at any call and restarted ends the order once and charges at most once.

    Without a permit, the service ends the order. If the answer with the permit was lost, the terminal requests it
    again. If it may have called the acquirer, it repeats the call and gets the same answer.
    """
    service.faults[call].extend(faults)
    await bench.start()
    lease = service.offer("L1")
    await service.until_received(call, len(faults))
    await bench.stop()
    if lease.state == "created":
        service.offer("L1")
    await bench.start()
    await service.until_state(lease, ends)
    await bench.until_empty()
    assert len(lease.results) == len(service.charges) == (1 if ends == "processed" else 0)


async def test_a_call_to_the_acquirer_is_in_the_journal_before_it_is_made(bench: Bench, service: DeviceService) -> None:
    """After a crash during the call the terminal must not say that it never made it."""
    service.faults["acquirer"].append("hang")
    await bench.start()
    service.offer("L1")
    await service.until_received("acquirer", 1)
    await bench.stop()
    assert [entry.sent for entry in bench.entries()] == [True]


@pytest.mark.parametrize("script", ["approve:0s", "cancel:0s"])
async def test_permit_expired_during_a_restart(bench: Bench, service: DeviceService, script: str) -> None:
    """An order that is resumed late, or that the script no longer pays, fails without a call to the acquirer."""
    service.leases["L1"] = lease = Lease({}, "at_terminal", granted=True, until="2026-01-01T00:00:00.000Z")
    service.verdicts["L1"] = "resume"
    await bench.start(script, Entry("L1", {"amount": "1.00"}, "authorizing"))
    await service.until_state(lease, "failed")
    assert _only(lease) == {"outcome": "declined", "status_detail": "processing_error"}
    assert service.charges == {}


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_refused_permit_is_reported_if_an_earlier_request_may_have_been_granted(
    bench: Bench, service: DeviceService, *, is_restarted: bool
) -> None:
    """Otherwise the order would wait for the acquirer, which was never called."""
    service.faults["authorizing"].extend(["silent" if is_restarted else "lost", {"error": "order_canceled"}])
    await bench.start()
    lease = service.offer("L1", "24.90")
    await service.until_received("authorizing")
    if is_restarted:
        await bench.stop()
        await bench.start()
    await service.until_state(lease, "failed")
    assert _only(lease) == {"outcome": "declined", "status_detail": "processing_error"}
    assert service.charges == {}


async def test_restart_after_the_acquirer_answered_reports_the_same_outcome(
    bench: Bench, service: DeviceService
) -> None:
    """The answer is in the journal, so the script at the restart has no influence."""
    await bench.start("approve:1s")
    lease = service.offer("L1")
    await service.until_received("authorizing")
    while (stored := bench.entries()[0]).result is None:  # noqa: ASYNC110  # a file has no event to wait for
        await asyncio.sleep(0.005)
    assert stored.until == lease.until
    assert bench.terminal is not None
    await bench.terminal.journal.set_script("decline:0s")
    await bench.stop()
    assert lease.results == {}
    await bench.start()
    await service.until_state(lease, "processed")
    assert lease.results == {stored.result_id: stored.result}


async def test_restart_after_the_permit_expired_reports_unknown(bench: Bench, service: DeviceService) -> None:
    """The acquirer is not called again: the service inquires."""
    service.faults["acquirer"].append("silent")
    await bench.start()
    lease = service.offer("L1")
    await service.until_received("acquirer")
    await bench.stop()
    service.behind_seconds = -3600
    await bench.start()
    await service.until_state(lease, "check")
    assert _only(lease) == {"outcome": "unknown"}
    assert len(service.received("acquirer")) == 1


@pytest.mark.parametrize(
    ("answer", "charged", "ends"), [(401, False, "failed"), (401, True, "check"), (503, False, "check")]
)
async def test_refused_authorization(
    bench: Bench, service: DeviceService, answer: int, *, charged: bool, ends: str
) -> None:
    """Refused at first: not charged. Refused after a lost answer, or unreachable until the permit expires: unknown."""
    service.permit_seconds = 0.5 if answer == 503 else 60
    service.faults["acquirer"].extend((["lost"] if charged else []) + [answer] * 500)
    await bench.start()
    lease = service.offer("L1")
    await service.until_state(lease, ends)
    assert len(service.charges) == charged


@pytest.mark.parametrize("verdict", ["forget", "abort"])
async def test_charge_is_forgotten_if_the_service_knows_the_outcome(
    bench: Bench, service: DeviceService, verdict: str
) -> None:
    """The terminal does not call the acquirer again."""
    service.faults["acquirer"].append("silent")
    await bench.start()
    lease = service.offer("L1")
    await service.until_received("acquirer")
    await bench.stop()
    service.verdicts["L1"] = verdict
    await bench.start()
    await bench.until_empty()
    assert lease.results == {}
    assert len(service.received("acquirer")) == 1


async def test_result_keeps_its_id_and_content_after_a_restart(bench: Bench, service: DeviceService) -> None:
    """Also if its answer never arrived."""
    service.faults["result"].extend(["lost", "silent"])
    await bench.start()
    lease = service.offer("L1")
    await service.until_received("result", 2)
    await bench.stop()
    await bench.start()
    await bench.until_empty()
    reports = [{key: value for key, value in body.items() if key != "boot_id"} for body in service.received("result")]
    assert len(reports) == 3
    assert reports[0] == reports[1] == reports[2]
    assert len(lease.results) == 1


async def test_permit_is_checked_by_the_clock_of_the_service(bench: Bench, service: DeviceService) -> None:
    """Also if that clock was frozen after the hello."""
    await bench.start()
    await service.until_received("next")
    service.behind_seconds = 3600
    lease = service.offer("L1")
    await service.until_state(lease, "processed")


async def test_expired_permit_is_not_used(bench: Bench, service: DeviceService) -> None:
    """The terminal does not call the acquirer."""
    service.permit_seconds = -1
    await bench.start()
    lease = service.offer("L1")
    await service.until_state(lease, "failed")
    assert _only(lease)["status_detail"] == "processing_error"


@pytest.mark.parametrize("call", ["ack", "authorizing"])
async def test_order_refused_before_authorization_is_forgotten(bench: Bench, service: DeviceService, call: str) -> None:
    """A refused acknowledgement or authorization ends the order on the terminal."""
    service.faults[call].append({"error": "order_canceled"})
    await bench.start()
    service.offer("L1")
    await service.until_received(call)
    await bench.until_empty()
    assert service.received("result") == []


@pytest.mark.parametrize("verdict", ["forget", "abort"])
async def test_forget_and_abort_delete_the_entry(bench: Bench, service: DeviceService, verdict: str) -> None:
    """The order is not acknowledged again."""
    service.verdicts["L1"] = verdict
    await bench.start("approve:0s", Entry("L1", {"amount": "1.00"}, "acknowledged"))
    await bench.until_empty()
    assert service.received("ack") == []


async def test_hello_contains_the_journal(bench: Bench, service: DeviceService) -> None:
    """Each lease has its last step, and its result if there is one."""
    result = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
    service.leases["L2"] = Lease({}, "at_terminal")
    service.faults["result"].append("hang")
    await bench.start("hold", Entry("L1", {}), Entry("L2", {}, "acknowledged", "", "R", result))
    hello = await service.until_received("hello")
    assert hello["journal"] == [
        {"lease_id": "L1", "last_step": "offered", "sent": False},
        {"lease_id": "L2", "last_step": "acknowledged", "sent": False, "result": result},
    ]


async def test_unknown_messages_are_ignored(bench: Bench, service: DeviceService) -> None:
    """A later version of the service may send new types."""
    await bench.start()
    service.say({"type": "firmware", "url": "…"})
    service.say({"type": "mode", "operating_mode": "STANDALONE"})
    lease = service.offer("L1")
    await service.until_state(lease, "processed")
    assert bench.terminal is not None
    assert bench.terminal.panel.operating_mode == "STANDALONE"


async def test_later_start_in_another_process_ends_the_session(bench: Bench, service: DeviceService) -> None:
    """The replaced terminal stops and does not start another session."""
    terminal = await bench.start()
    await service.until_received("next")
    service.boots.append("another")
    service.say({"type": "mode", "operating_mode": "PDV"})
    assert terminal._running is not None
    await terminal._running
    assert len(service.received("hello")) == 1


async def test_refused_token_stops_the_terminal_after_its_results(bench: Bench, service: DeviceService) -> None:
    """It reports its pending results and stops polling."""
    service.leases["L1"] = Lease({}, "at_terminal", granted=True)
    service.faults["hello"].append(401)
    service.faults["result"].extend([401, 401])
    result = {"outcome": "approved", "status_detail": "accredited"}
    terminal = await bench.start("approve:0s", Entry("L1", {}, "authorizing", "", "R", result))
    assert terminal._running is not None
    await terminal._running
    assert service.leases["L1"].results == {"R": result}
    assert service.received("next") == []


async def test_terminal_connects_once_the_service_is_reachable(service: DeviceService, tmp_path: Path) -> None:
    """A terminal that starts before the service retries its hello."""
    port = free_port()
    async with aiohttp.ClientSession() as http:
        bench = Bench(service, f"http://127.0.0.1:{port}", tmp_path, http)
        with structlog.testing.capture_logs() as logged:
            terminal = await bench.start()
            await until(lambda: "service_unavailable" in [line["event"] for line in logged])
        async with service.serve(port):
            await terminal.settled.wait()
            await bench.stop()
