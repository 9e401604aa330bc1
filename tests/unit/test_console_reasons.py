"""The sentence of an order in the console: why, what to do, what was charged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from order_documents import Story, confirmed, provisional, refused, undone, undone_by_terminal
from paydesk.console import statuses
from paydesk.engine.orders import status
from paydesk.engine.orders.order import OrderRefund
from paydesk.engine.orders.presentation import EXAMPLE_ORDER, example, order_document
from paydesk.engine.orders.status import State
from paydesk.engine.orders.status_labels import EXTENDED, PLAIN, Labels
from paydesk.operators.orders import reasons
from tables import each


def order_in(state: State, labels: Labels = PLAIN, **columns: Any) -> dict[str, Any]:
    """Return an order in this state as `GET orders/{order_id}` has it."""
    named = {"status": state.status, "status_detail": state.detail, "payment_status_detail": state.payment_detail}
    order = msgspec.structs.replace(EXAMPLE_ORDER, **named, **columns)
    found: dict[str, Any] = example(order_document(order, labels))
    return found


@each("labels", [PLAIN, EXTENDED], ids=["plain", "extended"])
@each("state", status.STATES, ids=str)
def test_every_state_is_explained(state: State, labels: Labels) -> None:
    """In a sentence without names of the interface, with a look that has a word, and in short."""
    order = order_in(state, labels, paid_minor=2490 if state.status in ("processed", "refunded") else None)
    explanation = reasons.explain(order)
    assert explanation.why[0].isupper()
    assert not explanation.why.endswith(".")
    assert "_" not in explanation.why
    assert explanation.charged.endswith(".")
    assert explanation.look.word
    short = reasons.reason_of(order["status"], state.payment_detail)
    assert short[0].isupper()
    assert "_" not in short


def test_every_decline_says_what_to_do() -> None:
    """All eleven details, each with its own reason."""
    assert set(reasons.DECLINES) == set(status.FAILED_DETAILS)
    assert len({why for why, _ in reasons.DECLINES.values()}) == len(reasons.DECLINES)
    explanation = reasons.explain(order_in(status.FAILED["insufficient_amount"]))
    assert (explanation.why, explanation.code, explanation.to_do, explanation.charged) == (
        "Declined by the acquirer: not enough money on the card",
        "insufficient_amount",
        "The buyer may try another card: create a new order, this one is final.",
        "Nothing was charged.",
    )


@pytest.mark.parametrize(
    ("move", "says"), [("cancel", "by the application"), ("release", "by an operator"), ("expire", "Expired")]
)
def test_canceled_order_says_by_what(move: str, says: str) -> None:
    """By the last move of its history, or by the operator who canceled it."""
    order = order_in(status.CANCELED_BY_API) | {"events": [{"move": "create"}, {"move": move}]}
    assert says in reasons.explain(order).why
    order["changes"] = [{"action": "orders.cancel", "operator": "Ana"}]
    assert reasons.explain(order).why == "Canceled by Ana"


@each(
    "story, why, more",
    [
        (provisional(), "The acquirer has approved, and waits for the terminal's result", ""),
        (confirmed(), "Paid", "24.90 BRL was charged."),
        (confirmed("confirming"), "Paid", "The acquirer has not confirmed the payment yet."),
        (
            refused(),
            "The acquirer refused to confirm the payment",
            "It is not paid out, and the goods were handed over.",
        ),
        (undone(), "The acquirer's approval was undone: the terminal did not report on it in time", "Nothing was"),
        (undone_by_terminal(), "The acquirer's approval was undone: it was canceled at the terminal", "being refunded"),
    ],
)
def test_provisional_approval_is_explained(story: Story, why: str, more: str) -> None:
    """What it waits for, that it is not confirmed yet or never, and why it was undone."""
    explanation = reasons.explain(story.order)
    assert explanation.why == why
    assert more in f"{explanation.to_do} {explanation.charged}"


def test_settled_payment_says_how() -> None:
    """In the words of the operator."""
    story = refused()
    story.more["confirmation"]["resolution"] = "The buyer has paid in cash."
    assert "Settled: The buyer has paid in cash." in reasons.explain(story.order).to_do


def test_paid_order_says_what_was_charged_and_refunded() -> None:
    """With the tip, the refunded part, and refunds that are not processed."""
    refunds = [OrderRefund("REF1", "5.00", "processing", 1, None), OrderRefund("REF2", "2.00", "failed", 1, None)]
    order = order_in(
        status.PARTIALLY_REFUNDED,
        paid_minor=2690,
        tip_minor=200,
        refunded_minor=1000,
        refunds=msgspec.json.encode(refunds).decode(),
    )
    explanation = reasons.explain(order)
    assert explanation.charged == "26.90 BRL was charged, of which 2.00 BRL is the tip, and 10.00 BRL was refunded."
    assert explanation.to_do == (
        "A refund of 5.00 BRL is in progress at the acquirer. A refund of 2.00 BRL failed: the acquirer declined it."
    )


def test_unknown_outcome_warns_and_says_what_it_waits_for() -> None:
    """With times as people read them."""
    message = "The acquirer is asked next at 2026-01-31T14:26:42.109Z."
    order = order_in(status.CHECK_ON_TERMINAL) | {"waiting": {"message": message}}
    explanation = reasons.explain(order)
    assert explanation.to_do == (
        "Don't hand over the goods and don't charge again. The acquirer is asked next at 14:26:42 UTC."
    )
    assert explanation.charged == "The card may have been charged."


def test_late_approval_is_not_called_uncharged() -> None:
    """While it is being reversed, and afterwards."""
    order = order_in(status.EXPIRED) | {"reversals": [{"status": "pending", "amount": "24.90"}]}
    assert reasons.explain(order).charged == "An approval of 24.90 BRL came later and is being reversed."
    order["reversals"][0]["status"] = "reversed"
    assert "was reversed" in reasons.explain(order).charged


def test_every_status_has_a_look() -> None:
    """Of all labels, and with extended statuses the same as by the detail."""
    assert set(statuses.ORDERS) == set(EXTENDED.all)
    assert statuses.order_look("canceled", "expired") == statuses.order_look("expired")
    assert statuses.order_look("at_terminal", "check_on_terminal") == statuses.order_look("action_required")
    assert statuses.order_look("new").word == "new"
    assert statuses.answer_look(None).colour == statuses.answer_look(500).colour == "bad"
