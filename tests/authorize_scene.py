"""Terminals of kind `service`, their authorize requests, and an acquirer that a test can delay or script."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from paydesk.core.clock import Clock
from paydesk.core.objects import Objects
from paydesk.engine.device.authorization.calls import Authorizations
from paydesk.engine.invariants import check
from paydesk.engine.payments import confirmations, inquiries, reversals
from paydesk.engine.payments.acquirer import (
    Acquirer,
    Approved,
    Card,
    ConfirmResult,
    InquiryResult,
    Outcome,
    Payment,
    ReverseResult,
    Unknown,
)
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.jobs import AcquirerJob
from paydesk.engine.payments.refunds import attempts as refund_attempts
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.platform.jobs import JobWorker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from service import KEYS, Device, Reply, Service, Terminal

JOBS: tuple[AcquirerJob[Any], ...] = (confirmations.JOB, inquiries.JOB, reversals.JOB, refund_attempts.JOB)
ENCRYPTED, BLOB = "c2VjcmV0LWNhcmQtZGF0YQ==", b"secret-card-data"
SET_KIND = "UPDATE terminals SET kind = $3, tip_percentages = $4 WHERE seller_id = $1 AND terminal_id = $2"
LEDGER = "SELECT payment_id, amount_minor, outcome, reversed_ms IS NOT NULL FROM simulator_payments ORDER BY payment_id"


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


T = TypeVar("T", bound=InquiryResult)
BLOCKING = Capabilities(reversal_blocks=True)
CHARGES_AGAIN = Capabilities(reversal_blocks=True, idempotent=frozenset({"confirm", "reverse", "refund"}))
"""Of an acquirer that must not be asked twice for an authorization."""


@dataclass
class WatchedAcquirer(Acquirer):
    """The simulated acquirer, whose charges a test can hold up before or after they take effect.

    `answers` are given instead of a charge, `reversals` and `refunds` instead of these. Cleared,
    `may_charge` and `may_answer` hold the call up; `entered` and `charged` are set when it has come so far.
    """

    simulator: Simulator
    answers: deque[Outcome] = field(default_factory=deque)
    charges: list[Payment] = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)
    reversals: deque[ReverseResult] = field(default_factory=deque)
    refunds: deque[Outcome] = field(default_factory=deque)
    reversed_minor: list[int] = field(default_factory=list)
    may_charge: asyncio.Event = field(default_factory=_set)
    may_answer: asyncio.Event = field(default_factory=_set)
    is_answer_lost: bool = False
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    charged: asyncio.Event = field(default_factory=asyncio.Event)
    can: Capabilities = BLOCKING
    confirmations: deque[ConfirmResult] = field(default_factory=deque)
    confirmed: list[str] = field(default_factory=list)
    chip_data: list[bytes] = field(default_factory=list)
    """What the card said, as confirmations and reversals had it."""

    @property
    def capabilities(self) -> Capabilities:
        """Return what it can do."""
        return self.can

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge, or give the next of `answers`."""
        self.charges.append(payment)
        self.blobs.append(blob)
        self.entered.set()
        await self.may_charge.wait()
        outcome = self.answers.popleft() if self.answers else await self.simulator.authorize(payment, card, blob=blob)
        outcome = self._held(payment, outcome)
        self.charged.set()
        await self.may_answer.wait()
        return Unknown("the answer was lost") if self.is_answer_lost else outcome

    async def inquire(self, payment: Payment) -> InquiryResult:
        """As the simulator, which knows no confirmations."""
        return self._held(payment, await self.simulator.inquire(payment))

    async def confirm(self, payment: Payment, *, key: str, reference_id: str, chip_data: bytes = b"") -> ConfirmResult:
        """Confirm, or give the next of `confirmations`."""
        self.chip_data.append(chip_data)
        answer = self.confirmations.popleft() if self.confirmations else Approved(reference_id, payment.amount_minor)
        if isinstance(answer, Approved):
            self.confirmed.append(key)
        return answer

    def _held(self, payment: Payment, outcome: T) -> T:
        """Return an approval as provisional, where the acquirer needs a confirmation and has none."""
        if not isinstance(outcome, Approved) or not self.can.needs_confirmation:
            return outcome
        return replace(outcome, needs_confirmation=payment.confirmation_key not in self.confirmed)

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """As the simulator, or give the next of `refunds`."""
        del reference_id
        if self.refunds:
            return self.refunds.popleft()
        return await self.simulator.refund(payment, key=key, amount_minor=amount_minor)

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Reverse, or give the next of `reversals`."""
        self.chip_data.append(chip_data)
        self.reversed_minor.append(amount_minor)
        if self.reversals:
            return self.reversals.popleft()
        return await self.simulator.reverse(payment, key=key, amount_minor=amount_minor, reference_id=reference_id)


def watched(database: Database, clock: Clock) -> WatchedAcquirer:
    """Return an acquirer of test orders."""
    return WatchedAcquirer(Simulator(database, clock))


async def service_terminal(
    service: Service, *, tips: Sequence[int] = (), kind: str = "service", live: bool = False
) -> Terminal:
    """Return a new terminal of the kind that offers these tips."""
    terminal = await service.terminal(live=live)
    percentages = json.dumps(list(tips)) if tips else None
    await service.database.write(lambda tx: tx.run(SET_KIND, service.seller_id, terminal.id, kind, percentages))
    return terminal


async def service_device(service: Service, *, tips: Sequence[int] = (), kind: str = "service") -> Device:
    """Return a device of such a terminal, after its hello."""
    return await service.device(await service_terminal(service, tips=tips, kind=kind))


async def at_terminal(device: Device, amount: str = "24.90") -> str:
    """Create an order and acknowledge it; return the lease."""
    reply = await device.service.create(device.terminal, amount=amount)
    assert reply.status == 201, reply
    lease_id: str = reply.body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    return lease_id


def request_of(boot_id: str, test_card: str = "visa_approved", /, **changes: Any) -> dict[str, Any]:
    """Return the body of an authorize request."""
    presented = CARDS[test_card]
    body = {
        "boot_id": boot_id,
        "entry_mode": "chip",
        "card": {"first_digits": presented.first_digits, "last_digits": presented.last_digits},
        "payment_method": {"id": presented.brand, "type": presented.type, "installments": 1},
        "encrypted_data": ENCRYPTED,
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


async def authorize(device: Device, lease_id: str, test_card: str = "visa_approved", /, **changes: Any) -> Reply:
    """Request the authorization."""
    return await device.post(f"/leases/{lease_id}/authorize", request_of(device.boot_id, test_card, **changes))


def waiting(service: Service, lease_id: str) -> int:
    """Return how many requests wait for the call to the acquirer that runs for the lease."""
    call = service.shared.objects[Authorizations].running(f"ORD{lease_id}")
    # One callback is the node's own: it forgets the call when that ends.
    return 0 if call is None else len(call._callbacks) - 1


async def ledger(service: Service) -> list[tuple[Any, ...]]:
    """Return the payments at the acquirer: the id, the amount, the outcome, whether it is reversed."""
    return [(*row[:3], bool(row[3])) for row in await service.database.read(lambda tx: tx.all(LEDGER))]


async def rows(service: Service, sql: str, *args: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    return [tuple(row) for row in await service.database.read(lambda tx: tx.all(sql, *args))]


async def process_jobs(service: Service, acquirer: Acquirer, settings: Settings | None = None) -> None:
    """Make the due attempts at the acquirer until none is due."""
    acquirers = Acquirers(test=acquirer)
    context = WorkerContext(service.database, settings or Settings(), service.clock, KEYS, objects=Objects(acquirers))
    workers = [JobWorker(context, job, wall=service.clock) for job in JOBS]
    while sum([await worker.step() for worker in workers]):
        pass


def kill(calls: set[asyncio.Task[Any]]) -> None:
    """End the calls to the acquirer among the tasks, as if their node were killed: nothing is committed."""
    killed = [call for call in calls if call.get_name().startswith("authorization of")]
    assert killed
    for call in killed:
        call.cancel()


async def is_consistent(service: Service) -> None:
    """Check all invariants."""
    assert await check.check(service.database, service.clock.now_ms()) == []
