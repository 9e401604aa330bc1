"""The lifecycle of an order as one table: its states and the moves between them.

The guards of the UPDATEs, the table's constraint, the diagram in the docs and the tests derive from it. `processed`
means paid, `failed` means not paid. `failed`, `canceled` and `refunded` are final.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Status = Literal["created", "at_terminal", "processed", "failed", "canceled", "refunded"]

STATUSES: tuple[Status, ...] = ("created", "at_terminal", "processed", "failed", "canceled", "refunded")
LIVE: tuple[Status, ...] = ("created", "at_terminal")
FINAL: tuple[Status, ...] = ("failed", "canceled", "refunded")


@dataclass(frozen=True, slots=True)
class State:
    """An order's status and detail, and its payment's detail. The payment's status is always the order's."""

    status: Status
    detail: str
    payment_detail: str

    def __str__(self) -> str:
        return f"{self.status}/{self.detail}/{self.payment_detail}"


ORIGINS: dict[str, str] = {
    "rejected_by_issuer": "acquirer",
    "insufficient_amount": "acquirer",
    "bad_filled_card_data": "customer",
    "required_call_for_authorize": "acquirer",
    "card_disabled": "acquirer",
    "high_risk": "acquirer",
    "max_attempts_exceeded": "customer",
    "amount_limit_exceeded": "acquirer",
    "invalid_installments": "customer",
    "processing_error": "terminal",
    "rejected_other_reason": "acquirer",
}
"""The details of a failed payment, and where each comes from."""
FAILED_DETAILS = tuple(ORIGINS)

CREATED = State("created", "created", "created")
AT_TERMINAL = State("at_terminal", "at_terminal", "at_terminal")
CANCELLATION_REQUESTED = State("at_terminal", "at_terminal", "cancellation_requested")
CHECK_ON_TERMINAL = State("at_terminal", "check_on_terminal", "check_on_terminal")
PROCESSED = State("processed", "processed", "accredited")
PARTIALLY_REFUNDED = State("processed", "partially_refunded", "partially_refunded")
REFUNDED = State("refunded", "refunded", "refunded")
CANCELED_BY_API = State("canceled", "canceled", "canceled_by_api")
CANCELED_ON_TERMINAL = State("canceled", "canceled", "canceled_on_terminal")
EXPIRED = State("canceled", "expired", "expired")
FAILED = {detail: State("failed", "failed", detail) for detail in FAILED_DETAILS}

STATES = (
    CREATED,
    AT_TERMINAL,
    CANCELLATION_REQUESTED,
    CHECK_ON_TERMINAL,
    PROCESSED,
    PARTIALLY_REFUNDED,
    REFUNDED,
    CANCELED_BY_API,
    CANCELED_ON_TERMINAL,
    EXPIRED,
    *FAILED.values(),
)
DETAILS = tuple(dict.fromkeys(state.detail for state in STATES))
PAYMENT_DETAILS = tuple(dict.fromkeys(state.payment_detail for state in STATES))


def in_states(*states: State) -> str:
    """Return the SQL condition that an order's row is in one of the states."""
    details: dict[str, list[str]] = {}
    for state in states:
        details.setdefault(state.status, []).append(f"'{state.payment_detail}'")
    conditions = (f"(status = '{status}' AND {_is_any_of(names)})" for status, names in details.items())
    return f"({' OR '.join(conditions)})"


def _is_any_of(details: list[str]) -> str:
    # SQLite's planner does not match `IN` with one element to a partial index.
    one, *others = details
    return f"payment_status_detail IN ({', '.join(details)})" if others else f"payment_status_detail = {one}"


@dataclass(frozen=True)
class Move:
    """One legal move: from any of `sources` to one of `targets` (if empty, to the same state), notified as `action`.

    `before_authorization`: only until authorization is permitted.
    """

    name: str
    by: str
    sources: tuple[State, ...]
    targets: tuple[State, ...]
    action: str
    before_authorization: bool = False

    @cached_property
    def guard(self) -> str:
        """Return the condition of the UPDATE that makes this move."""
        return in_states(*self.sources) + (" AND permitted_ms IS NULL" if self.before_authorization else "")

    def leads(self, source: State, target: State) -> bool:
        """Return whether this move takes an order from `source` to `target`."""
        return source in self.sources and (target in self.targets if self.targets else target == source)


BEFORE_CHECK = (AT_TERMINAL, CANCELLATION_REQUESTED)
ALL_AT_TERMINAL = (*BEFORE_CHECK, CHECK_ON_TERMINAL)
_PAID = (PROCESSED, PARTIALLY_REFUNDED)

CREATE = Move("create", "POST /v1/orders", (), (CREATED,), "order.created")
ACKNOWLEDGE = Move("acknowledge", "the terminal acknowledges", (CREATED,), (AT_TERMINAL,), "order.at_terminal")
CANCEL = Move("cancel", "POST …/cancel", (CREATED,), (CANCELED_BY_API,), "order.canceled")
REQUEST_CANCEL = Move(
    "request_cancel",
    "POST …/cancel with the extra header",
    (AT_TERMINAL,),
    (CANCELLATION_REQUESTED,),
    "order.at_terminal",
    before_authorization=True,
)
CONFIRM_CANCEL = Move(
    "confirm_cancel",
    "the terminal releases the order or does not respond in time",
    (CANCELLATION_REQUESTED,),
    (CANCELED_BY_API,),
    "order.canceled",
    before_authorization=True,
)
RELEASE = Move(
    "release",
    "an operator releases the terminal",
    (CREATED, *BEFORE_CHECK),
    (CANCELED_BY_API,),
    "order.canceled",
    before_authorization=True,
)
CANCEL_ON_TERMINAL = Move(
    "cancel_on_terminal",
    "the buyer or the cashier cancels at the terminal",
    BEFORE_CHECK,
    (CANCELED_ON_TERMINAL,),
    "order.canceled",
    before_authorization=True,
)
EXPIRE = Move(
    "expire",
    "expiration_time passes",
    (CREATED, *BEFORE_CHECK),
    (EXPIRED,),
    "order.canceled",
    before_authorization=True,
)
CHECK = Move("check", "the outcome is unknown", BEFORE_CHECK, (CHECK_ON_TERMINAL,), "order.at_terminal")
APPROVE = Move("approve", "the payment is approved", ALL_AT_TERMINAL, (PROCESSED,), "order.processed")
DECLINE = Move("decline", "the payment is declined or fails", ALL_AT_TERMINAL, tuple(FAILED.values()), "order.failed")
REFUND_PART = Move("refund_part", "a part is refunded", _PAID, (PARTIALLY_REFUNDED,), "order.refunded")
REFUND_WHOLE = Move("refund_whole", "all of it is refunded", _PAID, (REFUNDED,), "order.refunded")
REFUND_FAILED = Move("refund_failed", "a refund fails after its response", _PAID, (), "order.refund_failed")

MOVES = (
    CREATE,
    ACKNOWLEDGE,
    CANCEL,
    REQUEST_CANCEL,
    CONFIRM_CANCEL,
    RELEASE,
    CANCEL_ON_TERMINAL,
    EXPIRE,
    CHECK,
    APPROVE,
    DECLINE,
    REFUND_PART,
    REFUND_WHOLE,
    REFUND_FAILED,
)


def legal(source: State, target: State) -> tuple[Move, ...]:
    """Return every move that takes an order from `source` to `target`."""
    return tuple(move for move in MOVES if move.leads(source, target))
