"""The cause that keeps a terminal busy: what its live order waits for, until when, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paydesk.core.clock import rfc3339
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.capabilities import Capabilities, not_found_seconds
from paydesk.engine.payments.inquiry_store import OpenInquiry

WaitsFor = Literal[
    "acknowledgement", "payment", "cancel_answer", "result", "decision", "inquiry", "reversal", "operator"
]

SENTENCES: dict[WaitsFor, str] = {
    "acknowledgement": "The order waits for the terminal to take it; at {until} it expires.",
    "payment": "The order is at the terminal and waits for the payment; at {until} it expires.",
    "cancel_answer": (
        "A cancel was requested. The order waits for the terminal's answer; at {until} it is canceled without one."
    ),
    "result": (
        "Authorization was permitted, so the card may be charged. The order waits for the result of the terminal; at"
        " {until} its outcome counts as unknown, and the acquirer is asked."
    ),
    "decision": (
        "The acquirer has approved, and waits for the terminal's result; at {until} the approval is undone without one."
    ),
    "inquiry": (
        "The outcome is unknown ({reason}). The acquirer is asked next at {next}; from {not_found} on the order fails"
        " if the acquirer does not find the payment. An operator can resolve the order from {resolvable}."
    ),
    "reversal": (
        "The outcome was unknown ({reason}), and the payment is being reversed: next attempt at {next}. Then the order"
        " fails."
    ),
    "operator": (
        "The outcome is unknown and no acquirer can be asked. An operator can resolve the order from {resolvable}."
    ),
}
"""The sentence for each cause, as people read it."""


@dataclass(frozen=True, slots=True)
class Periods:
    """The settings that decide how long an order waits, in seconds."""

    cancel_silence_seconds: int
    unknown_after_seconds: int
    inquiry_not_found_seconds: int
    grant_seconds: int
    resolve_after_seconds: int


@dataclass(frozen=True, slots=True)
class Wait:
    """The cause that a live order waits for. `until_ms`: the wait is over then, at the latest.

    `next_ms`: the next attempt at the acquirer. `not_found_ms`: from then on a payment that the acquirer does not find
    was not made. `resolvable_ms`: from then on an operator can set the outcome.
    """

    waits_for: WaitsFor
    until_ms: int | None = None
    next_ms: int | None = None
    not_found_ms: int | None = None
    resolvable_ms: int | None = None
    reason: str | None = None

    @property
    def can_release(self) -> bool:
        """Return whether an operator can release the terminal: authorization is not permitted."""
        return self.waits_for in ("acknowledgement", "payment", "cancel_answer")

    def sentence(self) -> str:
        """Return what the order waits for, for people."""
        times = {
            name: rfc3339(instant_ms)
            for name, instant_ms in (
                ("until", self.until_ms),
                ("next", self.next_ms),
                ("not_found", self.not_found_ms),
                ("resolvable", self.resolvable_ms),
            )
            if instant_ms is not None
        }
        return SENTENCES[self.waits_for].format(reason=self.reason, **times)


def wait_of(
    order: Order,
    inquiry: OpenInquiry | None,
    periods: Periods,
    *,
    capabilities: Capabilities | None,
    decide_by_ms: int | None = None,
) -> Wait:
    """Return what a live order waits for.

    `inquiry` is its open inquiry; `capabilities` are those of its acquirer; `decide_by_ms`: until then its terminal
    decides on a provisional approval.
    """
    if decide_by_ms is not None:
        return Wait("decision", decide_by_ms)
    if order.state == status.CREATED:
        return Wait("acknowledgement", order.expires_ms)
    if order.state == status.CHECK_ON_TERMINAL:
        return _unknown(order, inquiry, periods, capabilities)
    if order.permitted_ms is not None:
        return Wait("result", order.permitted_ms + periods.unknown_after_seconds * 1000)
    if order.cancel_requested_ms is not None:
        silence_ends_ms = order.cancel_requested_ms + periods.cancel_silence_seconds * 1000
        return Wait("cancel_answer", min(silence_ends_ms, order.expires_ms))
    return Wait("payment", order.expires_ms)


def _unknown(order: Order, inquiry: OpenInquiry | None, periods: Periods, capabilities: Capabilities | None) -> Wait:
    # While its outcome is unknown the order does not change, so its last change is when that state began.
    resolvable_ms = order.updated_ms + periods.resolve_after_seconds * 1000
    if inquiry is None or capabilities is None:
        return Wait("operator", resolvable_ms=resolvable_ms)
    if inquiry.reversing_ms is not None:
        return Wait("reversal", next_ms=inquiry.next_ms, resolvable_ms=resolvable_ms, reason=inquiry.reason)
    began_ms = inquiry.created_ms if order.permitted_ms is None else order.permitted_ms
    return Wait(
        "inquiry",
        next_ms=inquiry.next_ms,
        not_found_ms=began_ms + not_found_seconds(capabilities, periods) * 1000,
        resolvable_ms=resolvable_ms,
        reason=inquiry.reason,
    )
