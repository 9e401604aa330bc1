"""The acquirer: who moves the money. What it can be asked, and the few things that can come of asking.

Whatever is asked carries a key that is derived from what it is about, so that asking again is no second charge and no
second refund. An outcome is a value: *unknown* (sent, no answer) and *not sent* are never taken for one another, and
neither for a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment as the acquirer knows it: by our ids, never by what a terminal called it; its original amount."""

    merchant_id: int
    """The seller."""
    terminal_id: str
    payment_id: str
    """PAY + the order's ULID: the key under which it was, or was not, authorized."""
    amount_minor: int
    currency: str
    installments: int = 1


@dataclass(frozen=True, slots=True)
class Card:
    """What was presented: digits that may be shown, and how they were read. No full number, ever."""

    brand: str
    type: str
    first_digits: str
    last_digits: str
    entry_mode: str


@dataclass(frozen=True, slots=True)
class Approved:
    """It happened. `reference_id` is the acquirer's number of it, digits."""

    reference_id: str
    amount_minor: int
    authorization_code: str | None = None
    card: Card | None = None
    installments: int = 1


@dataclass(frozen=True, slots=True)
class Declined:
    """It did not happen and will not: `detail` is one of the details of a failed payment."""

    detail: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Sent, and no answer came: it may have happened. Ask again under the same key, or inquire."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """It never left: nothing can have happened."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """The acquirer knows of nothing under that key, so far."""


Outcome = Approved | Declined | Unknown | NotSent
Truth = Approved | Declined | NotFound | Unknown | NotSent
"""What an inquiry brings."""


class Acquirer(Protocol):
    """One acquirer. Every call ends within its own deadline, and raises nothing: an outcome says it all."""

    async def authorize(self, payment: Payment, card: Card, *, blob: bytes = b"") -> Outcome:
        """Charge, once under `payment.payment_id`, however often it is asked."""

    async def inquire(self, payment: Payment) -> Truth:
        """What became of the payment."""

    async def refund(self, payment: Payment, *, key: str, amount_minor: int) -> Outcome:
        """Give a part or all of it back, once under `key`."""

    async def reverse(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Undo the approval under `payment.payment_id` and `reference_id`, once under `key`: nothing is left of it.

        Whoever reverses what isn't there forbids it: it will not be authorized later either.
        """


@dataclass(frozen=True, slots=True)
class Acquirers:
    """The acquirer of test orders and the one of live ones; None: there is none."""

    test: Acquirer | None = None
    live: Acquirer | None = None

    def of(self, live: bool) -> Acquirer | None:  # noqa: FBT001  # an order's or a token's own word
        """The acquirer of live orders or of test orders."""
        return self.live if live else self.test
