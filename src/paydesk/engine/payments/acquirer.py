"""The acquirer's interface: the payment as the acquirer knows it, its four operations and their results.

Every request carries an idempotency key derived from its subject, so a repeated request neither charges nor refunds
twice. `Unknown` (sent, no response), `NotSent` and `Declined` are distinct results: only `Unknown` may have taken
effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from paydesk.core.text.durations import ACQUIRER_SECONDS_MAX
from paydesk.engine.orders.order import Order

RESPONSE_SECONDS_MAX = ACQUIRER_SECONDS_MAX

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment with its original amount, identified by our ids and never by the terminal's reference."""

    merchant_id: int
    """The seller."""
    terminal_id: str
    payment_id: str
    """PAY + the order's ULID: the key of its authorization."""
    amount_minor: int
    currency: str
    installments: int = 1


@dataclass(frozen=True, slots=True)
class Card:
    """The presented card: the digits that may be displayed, and how they were read. Never the full number."""

    brand: str
    type: str
    first_digits: str
    last_digits: str
    entry_mode: str


@dataclass(frozen=True, slots=True)
class Approved:
    """The request took effect. `reference_id` is the acquirer's number for it, digits only."""

    reference_id: str
    amount_minor: int
    authorization_code: str | None = None
    card: Card | None = None
    installments: int = 1


@dataclass(frozen=True, slots=True)
class Declined:
    """The request did not take effect and will not. `detail` is a `status_detail` of a failed payment."""

    detail: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request was sent and not answered; it may have taken effect. Retry with the same key, or inquire."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """The request was not sent, so it has had no effect."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """The acquirer has no payment under that key, so far."""


Outcome = Approved | Declined | Unknown | NotSent
InquiryResult = Approved | Declined | NotFound | Unknown | NotSent


class Acquirer(Protocol):
    """One acquirer. Every call ends within its own deadline and returns its result; it raises nothing."""

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge the payment, once per `payment.payment_id` however often it is called."""

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return the outcome of the payment's authorization."""

    async def refund(self, payment: Payment, *, key: str, amount_minor: int) -> Outcome:
        """Refund `amount_minor` of the payment, once per `key`."""

    async def reverse(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Reverse the approval under `payment.payment_id` and `reference_id` completely, once per `key`.

        Reversing a payment that the acquirer does not have blocks it: a later authorization is declined.
        """


@dataclass(frozen=True, slots=True)
class Acquirers:
    """The acquirers of test orders and of live orders; None where none is configured."""

    test: Acquirer | None = None
    live: Acquirer | None = None

    def of(self, live: bool) -> Acquirer | None:  # noqa: FBT001  # an order's or a token's own flag
        """Return the acquirer of live orders or of test orders."""
        return self.live if live else self.test


def payment_of(order: Order, *, installments: int = 1, tip_minor: int = 0) -> Payment:
    """Return the order's payment as the acquirer knows it: with the amount paid or, before that, the amount due.

    `tip_minor` is the tip in the amount due.
    """
    return Payment(
        merchant_id=order.seller_id,
        terminal_id=order.terminal_id,
        payment_id=order.payment_id,
        amount_minor=order.amount_minor + tip_minor if order.paid_minor is None else order.paid_minor,
        currency=order.currency,
        installments=installments,
    )


async def response(request: Awaitable[T], seconds_max: float = RESPONSE_SECONDS_MAX) -> T | Unknown:
    """Return the acquirer's response, or `Unknown` when there is none within `seconds_max`."""
    try:
        return await asyncio.wait_for(request, seconds_max)
    except TimeoutError:
        return Unknown(f"no answer within {seconds_max:g} s")
