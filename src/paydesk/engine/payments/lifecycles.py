"""The lifecycles of refunds, of reversals and of inquiries, each as one table."""

from __future__ import annotations

from typing import Literal

from paydesk.core.lifecycle import Lifecycle, Move, State, states_of
from paydesk.engine.orders.order import RefundStatus

PROCESSING, PROCESSED, FAILED = states_of(RefundStatus)

REFUNDS = Lifecycle(
    "refunds",
    (PROCESSING, PROCESSED, FAILED),
    (
        Move("request", "POST …/refund reserves the amount", (), PROCESSING),
        Move("confirm", "the acquirer approves", (PROCESSING,), PROCESSED),
        Move("fail", "the acquirer declines, or no attempt was sent in time", (PROCESSING,), FAILED),
    ),
)

ReversalStatus = Literal["pending", "reversed", "not_found"]
PENDING, REVERSED, NOT_FOUND = states_of(ReversalStatus)

REVERSALS = Lifecycle(
    "reversals",
    (PENDING, REVERSED, NOT_FOUND),
    (
        Move("begin", "an approval that is not its order's payment", (), PENDING),
        Move("reverse", "the acquirer confirms the reversal, or an operator says so", (PENDING,), REVERSED),
        Move("end_unfounded", "the acquirer has no such approval, or an operator says so", (PENDING,), NOT_FOUND),
    ),
    (Move("begin_anew", "another approval of the same payment", (NOT_FOUND,), PENDING),),
)

ConfirmationStatus = Literal["provisional", "confirming", "confirmed", "refused", "undone"]
PROVISIONAL, CONFIRMING, CONFIRMED, REFUSED, UNDONE = states_of(ConfirmationStatus)

CONFIRMATIONS = Lifecycle(
    "confirmations",
    (PROVISIONAL, CONFIRMING, CONFIRMED, REFUSED, UNDONE),
    (
        Move("approve", "the acquirer approves, and waits for a confirmation", (), PROVISIONAL),
        Move("approve_too_late", "the acquirer approves when the terminal no longer waits", (), UNDONE),
        Move("begin_confirming", "the terminal approves", (PROVISIONAL,), CONFIRMING),
        Move("undo", "the terminal declines, or does not report in time", (PROVISIONAL,), UNDONE),
        Move("confirm", "the acquirer confirms", (CONFIRMING,), CONFIRMED),
        Move("refuse", "the acquirer no longer confirms", (CONFIRMING,), REFUSED),
    ),
    (Move("resolve", "an operator resolves the order as approved", (UNDONE,), CONFIRMING),),
)

InquiryStatus = Literal["asking", "reversing", "ended"]
ASKING = State("asking", ("ended_ms IS NULL", "reversing_ms IS NULL"))
REVERSING = State("reversing", ("ended_ms IS NULL", "reversing_ms IS NOT NULL"))
ENDED = State("ended", ("ended_ms IS NOT NULL",))


def inquiry_status(reversing_ms: int | None, outcome: str | None) -> InquiryStatus:
    """Return the status of an inquiry's row."""
    return "ended" if outcome is not None else "asking" if reversing_ms is None else "reversing"


InquiryOutcome = Literal["approved", "declined", "not_found", "result", "operator", "simulated", "forgone"]
"""The outcome of an inquiry: by the acquirer's answer (the first three; `not_found` also after its reversal), by the
terminal's result, by an operator, in a simulation, or before it began, because the outcome was to be simulated."""

BEGIN_REVERSING = Move("begin_reversing", "not found for long, or another amount approved", (ASKING,), REVERSING)
ABANDON_REVERSAL = Move("abandon_reversal", "the acquirer declines the reversal", (REVERSING,), ASKING)

INQUIRIES = Lifecycle(
    "inquiries",
    (ASKING, REVERSING, ENDED),
    (
        Move("inquire", "the outcome is unknown", (), ASKING),
        Move("skip", "the outcome is simulated", (), ENDED),
        BEGIN_REVERSING,
        ABANDON_REVERSAL,
        Move("end", "the order has an outcome", (ASKING, REVERSING), ENDED),
    ),
)
