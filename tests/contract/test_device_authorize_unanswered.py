"""Authorizations without a clear answer: asked again where that charges nothing twice, and otherwise inquired."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from authorize_scene import (
    BLOCKING,
    CHARGES_AGAIN,
    WatchedAcquirer,
    at_terminal,
    authorize,
    is_consistent,
    ledger,
    process_jobs,
    rows,
    service_device,
)
from jobs_scene import SAID
from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.engine.device.authorization import calls as authorizations
from paydesk.engine.orders import expiry
from paydesk.engine.payments.acquirer import Card, NotSent, Outcome, Payment, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Unavailable
from paydesk.platform.worker import WorkerContext
from service import KEYS, Device, Reply, Service, running
from skipped_waits import skipped_waits
from tables import each

LOST, SHUT, REFUSED = Unknown("the answer was lost"), NotSent("the line is down"), NotSent("open", again=False)
UNANSWERED = ("unknown", "check_on_terminal", "at_terminal")
INQUIRIES = "SELECT count(*) FROM inquiries"
DIFFERING = "SELECT subject, occurrences FROM operator_events WHERE kind = 'acquirer_answer_differs'"


@dataclass
class TimedAcquirer(WatchedAcquirer):
    """An acquirer that records when it is asked."""

    asked: list[float] = field(default_factory=list)
    error: Exception | None = None

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge, or fail."""
        self.asked.append(asyncio.get_running_loop().time())
        outcome = await super().authorize(payment, card, blob=blob)
        if self.error is not None:
            raise self.error
        return outcome

    def paused(self, *seconds: float) -> bool:
        """Return whether its calls came after these pauses. A busy machine adds to each, less than half a second."""
        pauses = [round(later - earlier, 3) for earlier, later in zip(self.asked, self.asked[1:], strict=False)]
        added = [pause - wanted for pause, wanted in zip(pauses, seconds, strict=True)]
        return all(-0.001 <= more < 0.5 for more in added)


@dataclass
class Shop:
    """A service without workers, whose clock stands still, and a terminal of kind `service`."""

    service: Service
    acquirer: TimedAcquirer
    device: Device
    clock: MovableClock

    async def authorize(self, lease_id: str, device: Device | None = None) -> tuple[str, str, str]:
        """Return the outcome, its detail and the status of the order; waits are skipped."""
        with skipped_waits(self.service.database):
            return shown(await authorize(device or self.device, lease_id))

    async def count(self, sql: str) -> int:
        """Return the number that the statement selects."""
        ((number,),) = await rows(self.service, sql)
        return int(number)

    async def inquire_after_silence(self) -> None:
        """Let 40 s pass, after which the outcome is unknown, and 2 min, after which "not found" counts."""
        acquirers = Acquirers(test=self.acquirer)
        context = WorkerContext(
            self.service.database, Settings(), self.clock, KEYS, objects=self.service.shared.objects
        )
        context = replace(context, objects=context.objects.including(acquirers))
        self.clock.advance(41_000)
        await expiry.UNKNOWN_OUTCOME.step(context)
        self.clock.advance(120_000)
        await process_jobs(self.service, self.acquirer)


def shown(reply: Reply) -> tuple[str, str, str]:
    """Return the outcome, its detail and the status of the order."""
    assert reply.status == 200, reply
    return reply.body["outcome"], reply.body["status_detail"], reply.body["order"]["status"]


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    """A shop."""
    clock = MovableClock()
    clock.freeze()
    acquirer = TimedAcquirer(Simulator(database, clock))
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        yield Shop(service, acquirer, await service_device(service), clock)


@pytest.mark.on_postgres
async def test_an_unanswered_authorization_is_asked_again_under_its_key(shop: Shop) -> None:
    """After 0.3 and 1 s; the approval then counts, and the charge is one."""
    lease_id = await at_terminal(shop.device)
    shop.acquirer.answers = deque([LOST, LOST])
    assert await shop.authorize(lease_id) == ("approved", "accredited", "processed")
    assert shop.acquirer.charges == [shop.acquirer.charges[0]] * 3
    assert shop.acquirer.charges[0].payment_id == f"PAY{lease_id}"
    assert await ledger(shop.service) == [(f"PAY{lease_id}", 2490, "approved", False)]
    assert await shop.count(INQUIRIES) == 0
    if shop.service.database.name == "sqlite":
        assert shop.acquirer.paused(0.3, 1.0)
    await is_consistent(shop.service)


async def test_an_approval_whose_answers_are_lost_is_charged_once(shop: Shop) -> None:
    """Four calls are made, the last 2 s after the third; the inquiry finds what the first one did."""
    lease_id = await at_terminal(shop.device)
    shop.acquirer.is_answer_lost = True
    assert await shop.authorize(lease_id) == UNANSWERED
    assert shop.acquirer.paused(0.3, 1.0, 2.0)
    await process_jobs(shop.service, shop.acquirer)
    assert (await shop.service.get(f"ORD{lease_id}"))["status"] == "processed"
    assert await ledger(shop.service) == [(f"PAY{lease_id}", 2490, "approved", False)]
    await is_consistent(shop.service)


@each("left_ms, calls", [(5_000, 4), (1_500, 3), (500, 2), (200, 1), (0, 0)])
async def test_an_authorization_is_not_asked_again_after_its_permit(
    database: Database, monkeypatch: pytest.MonkeyPatch, left_ms: int, calls: int
) -> None:
    """A repeat in the last moments of the permit is asked as often as they allow."""
    clock = MovableClock()
    clock.freeze()
    acquirer = TimedAcquirer(Simulator(database, clock), answers=deque([LOST] * 9))
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        shop = Shop(service, acquirer, await service_device(service), clock)
        lease_id = await at_terminal(shop.device)

        async def die(*_: object) -> None:
            raise Unavailable("the node dies")

        with monkeypatch.context() as killed:
            killed.setattr(authorizations.Authorization, "_ask", die)
            assert (await authorize(shop.device, lease_id)).status == 503
        clock.advance(Settings().grant_seconds * 1000 - left_ms)
        assert (await shop.authorize(lease_id))[0] == "unknown"
        assert len(acquirer.charges) == calls


@pytest.mark.on_postgres
async def test_a_call_that_would_charge_again_is_made_once(shop: Shop) -> None:
    """Neither the node, nor the terminal's repeats, nor another node ask such an acquirer again."""
    shop.acquirer.can = CHARGES_AGAIN
    shop.acquirer.answers.append(LOST)
    lease_id = await at_terminal(shop.device)
    for _ in range(3):
        assert await shop.authorize(lease_id) == UNANSWERED
    assert len(shop.acquirer.charges) == 1
    await shop.inquire_after_silence()
    assert (await shop.service.get(f"ORD{lease_id}"))["status"] == "failed"
    assert len(shop.acquirer.charges) == 1
    await is_consistent(shop.service)


@pytest.mark.on_postgres
async def test_a_call_that_a_crash_cut_off_is_not_made_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been sent: the order waits, and after 40 s the outcome is inquired."""
    shop.acquirer.can = CHARGES_AGAIN
    lease_id = await at_terminal(shop.device)

    async def charge_and_die(self: authorizations.Authorization) -> Outcome:
        await self.acquirer.authorize(self.payment, self.card)
        raise Unavailable("the node dies")

    with monkeypatch.context() as killed:
        killed.setattr(authorizations.Authorization, "_ask", charge_and_die)
        assert (await authorize(shop.device, lease_id)).status == 503
    for _ in range(2):
        assert (await shop.authorize(lease_id))[::2] == ("unknown", "at_terminal")
    assert len(shop.acquirer.charges) == 1
    await shop.inquire_after_silence()
    assert await shop.authorize(lease_id) == ("approved", "accredited", "processed")
    assert await ledger(shop.service) == [(f"PAY{lease_id}", 2490, "approved", False)]
    assert len(shop.acquirer.charges) == 1
    await is_consistent(shop.service)


async def test_two_nodes_make_one_call_that_would_charge_again(postgres_url: str) -> None:
    """The node that does not make it answers what is known."""
    clock, database = MovableClock(), await open_database(postgres_url)
    clock.freeze()
    acquirer = TimedAcquirer(Simulator(database, clock), can=CHARGES_AGAIN)
    acquirer.may_answer.clear()
    try:
        async with two_nodes(database, postgres_url, clock=clock, acquirers=Acquirers(test=acquirer)) as (first, other):
            device = await service_device(first)
            lease_id = await at_terminal(device)
            asked = asyncio.create_task(authorize(device, lease_id))
            await acquirer.charged.wait()
            assert shown(await authorize(replace(device, service=other), lease_id))[0] == "unknown"
            acquirer.may_answer.set()
            assert shown(await asked)[0] == "approved"
            assert shown(await authorize(replace(device, service=other), lease_id))[0] == "approved"
            assert len(acquirer.charges) == 1
            await is_consistent(first)
    finally:
        await database.close()


@each("then", [(REFUSED,), (SHUT,) * 40])
async def test_what_may_have_been_sent_is_never_failed(database: Database, then: tuple[Outcome, ...]) -> None:
    """That a later call was not sent says nothing about an earlier one without an answer."""
    clock = MovableClock()
    clock.freeze()
    acquirer = TimedAcquirer(Simulator(database, clock), answers=deque([LOST, *then]))
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        shop = Shop(service, acquirer, await service_device(service), clock)
        lease_id = await at_terminal(shop.device)
        assert await shop.authorize(lease_id) == UNANSWERED
        ((reason,),) = await rows(service, "SELECT reason FROM inquiries WHERE order_id = $1", f"ORD{lease_id}")
        assert "the answer was lost" in reason
        await is_consistent(service)


@pytest.mark.on_postgres
async def test_what_can_not_be_sent_now_ends_at_once(shop: Shop) -> None:
    """With one call and no pause after it; nothing was charged, so nothing is inquired."""
    shop.acquirer.answers.append(REFUSED)
    lease_id = await at_terminal(shop.device)
    assert shown(await authorize(shop.device, lease_id)) == ("declined", "processing_error", "failed")
    assert len(shop.acquirer.charges) == 1
    (payment,) = (await shop.service.get(f"ORD{lease_id}"))["transactions"]["payments"]
    assert payment["origin"] == "network"
    assert await shop.count(INQUIRIES) == 0
    await is_consistent(shop.service)


async def test_a_currency_that_the_acquirer_does_not_accept_fails_at_once(shop: Shop) -> None:
    """The acquirer is not called."""
    shop.acquirer.can = replace(BLOCKING, currencies=frozenset({"CLP"}))
    lease_id = await at_terminal(shop.device)
    assert shown(await authorize(shop.device, lease_id)) == ("declined", "processing_error", "failed")
    assert shop.acquirer.charges == []
    assert await shop.count(INQUIRIES) == 0
    await is_consistent(shop.service)


async def test_an_adapter_that_raises_after_its_charge_loses_no_payment(shop: Shop) -> None:
    """Whatever it raises, the request may have been sent: it is repeated under its key, then inquired."""
    shop.acquirer.error = KeyError("reference_id")
    lease_id = await at_terminal(shop.device)
    assert await shop.authorize(lease_id) == UNANSWERED
    await process_jobs(shop.service, shop.acquirer)
    assert await shop.authorize(lease_id) == ("approved", "accredited", "processed")
    assert await ledger(shop.service) == [(f"PAY{lease_id}", 2490, "approved", False)]
    await is_consistent(shop.service)


@pytest.mark.on_postgres
@each("change", [{"currency": "CLP"}, {"key": "PAY0"}, {"needs_confirmation": True}])
async def test_an_approval_that_is_not_of_the_request_processes_nothing(
    database: Database, change: dict[str, object]
) -> None:
    """The outcome is inquired, and operators have one event."""
    clock = MovableClock()
    clock.freeze()
    wrong = replace(SAID, **change)  # type: ignore[arg-type]
    acquirer = TimedAcquirer(Simulator(database, clock), answers=deque([wrong] * 4))
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        shop = Shop(service, acquirer, await service_device(service), clock)
        lease_id = await at_terminal(shop.device)
        assert await shop.authorize(lease_id) == UNANSWERED
        assert await ledger(service) == []
        assert await rows(service, f"{DIFFERING} AND subject = $1", f"ORD{lease_id}") == [(f"ORD{lease_id}", 1)]
        assert len(await rows(service, "SELECT 1 FROM inquiries WHERE order_id = $1", f"ORD{lease_id}")) == 1
        await is_consistent(service)
