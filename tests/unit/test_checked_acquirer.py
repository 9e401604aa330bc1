"""How the engine calls an adapter: no answer is believed that is not that of its request, and no call lasts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import structlog

from event_loops import turns
from moved_time import advance
from paydesk.engine.payments.acquirer import (
    Acquirer,
    Approved,
    Card,
    ConfirmResult,
    Declined,
    InquiryResult,
    NotFound,
    NotSent,
    Outcome,
    Payment,
    Result,
    ReverseResult,
    TooLate,
    Unknown,
)
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.storage.database import Locked, Unavailable
from tables import each

PAYMENT = Payment(7, "T__1", "PAY01J67D5XJVM2Z0S9C3HQ4T8W1N", 2490, "BRL")
KEYS = {
    "authorize": PAYMENT.payment_id,
    "inquire": PAYMENT.payment_id,
    "confirm": PAYMENT.confirmation_key,
    "refund": "REF1",
    "reverse": "REV1",
}
SAID = Approved("115019989861", 2490, "831000")
CONFIRMS = Capabilities(needs_confirmation=True)
FIXED = ("confirm", "refund", "reverse")
"""The operations whose answer must have the amount of the request."""


@dataclass
class Adapter(Acquirer):
    """An adapter that gives one answer, or raises it; `waits` holds each call up."""

    answer: Any = SAID
    can: Capabilities = CONFIRMS
    waits: asyncio.Event | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def capabilities(self) -> Capabilities:
        """Return what it can do."""
        return self.can

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Give the answer."""
        answer: Outcome = await self._give(payment, card, blob)
        return answer

    async def confirm(self, payment: Payment, *, key: str, reference_id: str, chip_data: bytes = b"") -> ConfirmResult:
        """Give the answer."""
        answer: ConfirmResult = await self._give(payment, key, reference_id, chip_data)
        return answer

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Give the answer."""
        answer: InquiryResult = await self._give(payment)
        return answer

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Give the answer."""
        answer: Outcome = await self._give(payment, key, amount_minor, reference_id)
        return answer

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Give the answer."""
        answer: ReverseResult = await self._give(payment, key, amount_minor, reference_id, chip_data)
        return answer

    async def _give(self, *_: Any) -> Any:
        self.entered.set()
        if self.waits is not None:
            await self.waits.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def calls_of(adapter: Acquirer) -> dict[str, Callable[[], Awaitable[Result]]]:
    """Return a call of each operation."""
    checked = CheckedAcquirer(adapter)
    return {
        "authorize": lambda: checked.authorize(PAYMENT, None),
        "inquire": lambda: checked.inquire(PAYMENT),
        "confirm": lambda: checked.confirm(PAYMENT, reference_id="115019989861"),
        "refund": lambda: checked.refund(PAYMENT, key="REF1", amount_minor=2490),
        "reverse": lambda: checked.reverse(PAYMENT, key="REV1", amount_minor=2490),
    }


@each("operation", list(KEYS))
async def test_an_answer_to_the_request_is_believed(operation: str) -> None:
    """With its currency and key, or without either where the acquirer does not repeat them."""
    for answer in (SAID, replace(SAID, currency="BRL", key=KEYS[operation])):
        assert await calls_of(Adapter(answer))[operation]() == answer
    for other in (Declined("rejected_other_reason"), NotFound(), TooLate(), NotSent("away"), Unknown("lost")):
        assert await calls_of(Adapter(other))[operation]() == other


@each(
    "change, field, operations",
    [
        ({"currency": "CLP"}, "currency", tuple(KEYS)),
        ({"currency": "brl"}, "currency", tuple(KEYS)),
        ({"key": "REF2"}, "key", tuple(KEYS)),
        ({"amount_minor": 2491}, "amount_minor", FIXED),
        ({"amount_minor": 0}, "amount_minor", FIXED),
        ({"amount_minor": -2490}, "amount_minor", FIXED),
    ],
)
async def test_an_answer_that_differs_from_its_request_is_unknown(
    change: dict[str, Any], field: str, operations: tuple[str, ...]
) -> None:
    """In currency, key, or the amount of a request with a fixed amount."""
    answer = replace(SAID, **change)
    for operation, call in calls_of(Adapter(answer)).items():
        expected = Unknown(f"the answer differs in {field}", differs=True) if operation in operations else answer
        assert await call() == expected, operation


async def test_a_key_belongs_to_its_operation() -> None:
    """An approval under the payment's key is no answer to its confirmation, nor one under that to the payment."""
    for operation, key in (("confirm", PAYMENT.payment_id), ("authorize", PAYMENT.confirmation_key)):
        answer = await calls_of(Adapter(replace(SAID, key=key)))[operation]()
        assert answer == Unknown("the answer differs in key", differs=True)


@each("operation", list(KEYS))
async def test_a_provisional_answer_needs_the_declaration(operation: str) -> None:
    """An adapter that declares no confirmations is not believed one."""
    answer, plain = replace(SAID, needs_confirmation=True), Capabilities()
    assert await calls_of(Adapter(answer))[operation]() == answer
    differing = Unknown("the answer differs in needs_confirmation", differs=True)
    assert await calls_of(Adapter(answer, plain))[operation]() == differing


async def test_a_currency_that_is_not_accepted_is_not_sent() -> None:
    """The adapter isn't called, and nothing is gained by another attempt."""
    adapter = Adapter(can=Capabilities(currencies=frozenset({"CLP"})))
    refused = NotSent("the acquirer does not accept BRL", again=False)
    assert await CheckedAcquirer(adapter).authorize(PAYMENT, None) == refused
    assert not adapter.entered.is_set()


@each("operation", list(KEYS))
async def test_an_adapter_that_raises_leaves_the_outcome_unknown(operation: str) -> None:
    """The request may have been sent; the log has the exception, and the answer nothing of its text."""
    with structlog.testing.capture_logs() as logged:
        answer = await calls_of(Adapter(ValueError("card 4235 6477 2802 5682")))[operation]()
    assert answer == Unknown("the adapter failed: ValueError")
    (line,) = logged
    assert (line["event"], line["log_level"]) == ("acquirer_adapter_failed", logging.getLevelName(40).lower())


@each("operation", list(KEYS))
async def test_an_adapter_of_another_signature_leaves_the_outcome_unknown(operation: str) -> None:
    """Though its call fails before there is anything to wait for."""

    class Older(Adapter):
        async def older(self) -> Outcome:
            raise AssertionError

        authorize = confirm = inquire = refund = reverse = older  # type: ignore[assignment]

    assert await calls_of(Older())[operation]() == Unknown("the adapter failed: TypeError")


@each("operation", list(KEYS))
async def test_what_is_no_answer_leaves_the_outcome_unknown(operation: str) -> None:
    """An adapter that returns nothing, or a text."""
    for answer, kind in ((None, "NoneType"), ("approved", "str")):
        assert await calls_of(Adapter(answer))[operation]() == Unknown(f"the adapter answered {kind}")


@each("error", [Unavailable("the database is away"), Locked("for long")])
async def test_a_database_that_is_away_ends_the_attempt(error: Exception) -> None:
    """It is the service's own, and no answer of an acquirer."""
    with pytest.raises(type(error)):
        await CheckedAcquirer(Adapter(error)).inquire(PAYMENT)


@each("operation", list(KEYS))
async def test_a_call_ends_within_its_time(operation: str) -> None:
    """At `answer_seconds`, and not before."""
    adapter = Adapter(can=Capabilities(answer_seconds=3), waits=asyncio.Event())
    call = asyncio.ensure_future(calls_of(adapter)[operation]())
    await adapter.entered.wait()
    advance(2.9)
    await turns(5)
    assert not call.done()
    advance(0.1)
    assert await call == Unknown("no answer within 3 s")


async def test_an_authorization_ends_when_its_time_is_over() -> None:
    """Even where the acquirer has longer."""
    adapter = Adapter(waits=asyncio.Event())
    call = asyncio.ensure_future(CheckedAcquirer(adapter).authorize(PAYMENT, None, seconds_max=1.5))
    await adapter.entered.wait()
    advance(1.5)
    assert await call == Unknown("no answer within 2 s")
