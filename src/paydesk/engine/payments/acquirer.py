"""The acquirer's interface: the payment as the acquirer knows it, its operations, their results, and its capabilities.

Every request carries an idempotency key derived from its subject, so a repeated request neither charges, confirms nor
refunds twice: every attempt of a job has the same key and the same body. `Unknown` (sent, no answer), `NotSent` and
`Declined` are distinct results: only `Unknown` may have taken effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from paydesk.core.text.durations import ACQUIRER_SECONDS_MAX
from paydesk.engine.payments.capabilities import Capabilities

RESPONSE_SECONDS_MAX = ACQUIRER_SECONDS_MAX
CHIP_DATA_BYTES_MAX = 4096
"""Maximum size of the chip's data for its issuer, and of the issuer's data for the chip."""


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment with its original amount, identified by our ids and never by the terminal's reference."""

    merchant_id: int
    """The seller."""
    terminal_id: str
    payment_id: str
    """PAY + the order's ULID: the key of its authorization."""
    amount_minor: int
    """With the tip."""
    currency: str
    installments: int = 1
    tip_minor: int = 0
    installments_cost: str | None = None
    """`seller` or `buyer`: the bearer of the installments' cost, if the order says so."""
    external_reference: str | None = None
    method: str = ""
    """The payment method, such as `visa`, and below its type, such as `credit_card`; "" before a card is presented."""
    method_type: str = ""
    store_id: str = ""
    """The terminal's store, and below its point of sale: only in an authorization, because a terminal may move."""
    pos_id: str = ""

    @property
    def order_id(self) -> str:
        """Return the id of the order."""
        return f"ORD{self.payment_id[3:]}"

    @property
    def order_facts(self) -> dict[str, Any]:
        """Its order in the log, with the seller and the terminal."""
        return {"order": self.order_id, "seller_id": self.merchant_id, "terminal_id": self.terminal_id}

    @property
    def confirmation_key(self) -> str:
        """Return the idempotency key of the confirmation: CNF + the order's ULID."""
        return f"CNF{self.payment_id[3:]}"


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
    """The request took effect.

    `reference_id` is the acquirer's number for it. `currency` and `key` are those of the request as the acquirer
    repeats them; "" where it does not.
    """

    reference_id: str
    amount_minor: int
    authorization_code: str | None = None
    card: Card | None = None
    installments: int = 1
    currency: str = ""
    key: str = ""
    needs_confirmation: bool = False
    """The approval is provisional: it is confirmed or reversed later."""
    issuer_data: bytes = field(default=b"", repr=False)
    """The issuer's data for the chip."""


Advice = Literal["another_card", "later", "never"]
"""Advice for the buyer after a decline: present another card, try later; `never`: not with this card."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The request did not take effect and will not. `detail` is a `status_detail` of a failed payment."""

    detail: str
    issuer_data: bytes = field(default=b"", repr=False)
    origin: str = "acquirer"
    advice: Advice | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request was sent and not answered; it may have taken effect. Retry with the same key, or inquire.

    `differs`: it was answered, but the answer is not that of the request.
    """

    reason: str
    differs: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """The request was not sent, so it has had no effect. `again`: another attempt may be made at once."""

    reason: str
    again: bool = True
    breaker_open: bool = field(default=False, compare=False)
    """The adapter sends nothing at all until the connection is proved to work."""


@dataclass(frozen=True, slots=True)
class NotFound:
    """The acquirer has no payment under that key, so far; `is_final`: it no longer accepts a payment under the key."""

    is_final: bool = False


@dataclass(frozen=True, slots=True)
class TooLate:
    """The acquirer no longer confirms or reverses this payment. The request had no effect."""

    reason: str = ""


Outcome = Approved | Declined | Unknown | NotSent
InquiryResult = Outcome | NotFound
ConfirmResult = Outcome | NotFound | TooLate
ReverseResult = Outcome | NotFound | TooLate
Result = Outcome | NotFound | TooLate


@dataclass(frozen=True, slots=True)
class Echo:
    """The answer to a request that charges nothing. `fault`: the reason why it is missing or cannot be trusted."""

    fault: str | None = None
    difference_seconds: float | None = None
    """The acquirer's clock minus the machine's."""


class Acquirer(ABC):
    """An acquirer. Every call ends within `answer_seconds` and returns its result; it raises nothing.

    An adapter inherits from this class and overrides what its acquirer can do.
    """

    @property
    def capabilities(self) -> Capabilities:
        """Return what the acquirer can do. It never changes."""
        return Capabilities()

    @abstractmethod
    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge the payment, once per `payment.payment_id`. `blob` is encrypted by the terminal for the acquirer."""

    async def confirm(self, payment: Payment, *, key: str, reference_id: str, chip_data: bytes = b"") -> ConfirmResult:
        """Make the provisional approval under `payment.payment_id` final, once per `key`."""
        del payment, key, reference_id, chip_data
        return NotSent("the acquirer has no confirmations", again=False)

    @abstractmethod
    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return the outcome of the payment's authorization."""

    @abstractmethod
    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Refund `amount_minor` of the payment, once per `key`. `reference_id` is that of the payment."""

    @abstractmethod
    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Reverse the approval under `payment.payment_id` and `reference_id` completely, once per `key`.

        Where the acquirer declares `reversal_blocks`, reversing a payment that it does not have blocks it: a later
        authorization is declined.
        """

    async def echo(self) -> Echo:
        """Send a request that charges nothing, and return the answer."""
        return Echo()

    async def close(self) -> None:  # noqa: B027  # an adapter without connections has nothing to close
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A movement that took effect at the acquirer, by the acquirer's own book."""

    entry_id: str
    time: datetime
    kind: Literal["payment", "confirmation", "reversal", "refund"]
    payment_id: str
    key: str
    amount_minor: int
    currency: str
    reference_id: str
    outcome: str
    """`approved`, or `provisional` for a payment whose approval needed a confirmation: it stays so."""


@runtime_checkable
class HasLedger(Protocol):
    """An acquirer that shows its book. The conformance kit needs it; the service never asks."""

    def ledger(self, since: datetime) -> AsyncIterator[LedgerEntry]:
        """Yield the movements since then, the oldest first."""
