"""An order's state in sentences: its reason, what was charged, and what to do.

One table has the words of every state. Lists of orders show a short form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paydesk.console.statuses import Look, order_look
from paydesk.core.money import spelled
from paydesk.operators.orders.facts import waiting_sentence

Document = Mapping[str, Any]
"""A JSON object of `/operator/v1`."""

ANOTHER_CARD = "The buyer may try another card: create a new order, this one is final."
NEW_ORDER = "Create a new order to try again, this one is final."
NOTHING_CHARGED = "Nothing was charged."

DECLINES: Mapping[str, tuple[str, str]] = {
    "insufficient_amount": ("Declined by the acquirer: not enough money on the card", ANOTHER_CARD),
    "card_disabled": (
        "Declined by the acquirer: the card is disabled",
        "The buyer may enable it at the bank, or try another card: create a new order, this one is final.",
    ),
    "required_call_for_authorize": (
        "Declined by the acquirer: the bank must be called first",
        "The buyer may call the bank, or try another card: create a new order, this one is final.",
    ),
    "amount_limit_exceeded": (
        "Declined by the acquirer: the amount is above the limit of the card",
        "The buyer may try another card, or a smaller amount: create a new order, this one is final.",
    ),
    "rejected_by_issuer": ("Declined by the bank of the card, which gave no reason", ANOTHER_CARD),
    "high_risk": (
        "Declined by the acquirer: fraud is suspected",
        "Don't repeat it with this card. Accept another means of payment: create a new order, this one is final.",
    ),
    "bad_filled_card_data": (
        "Declined by the acquirer: the data of the card is wrong",
        "Read the card again or try another one: create a new order, this one is final.",
    ),
    "max_attempts_exceeded": ("Declined: too many attempts with this card", ANOTHER_CARD),
    "invalid_installments": (
        "Declined by the acquirer: the card cannot pay in these installments",
        "The buyer may choose fewer, or try another card: create a new order, this one is final.",
    ),
    "processing_error": ("The payment could not be processed", NEW_ORDER),
    "rejected_other_reason": ("Declined by the acquirer, for a reason that it does not name", ANOTHER_CARD),
}
"""The reason of each detail of a failed payment, and what to do."""

STATES: Mapping[str, str] = {
    "created": "Waits for the terminal to take it",
    "at_terminal": "At the terminal, waits for the payment",
    "cancellation_requested": "A cancel was requested and waits for the terminal's answer",
    "check_on_terminal": "The outcome is unknown: the card may have been charged",
    "accredited": "Paid",
    "partially_refunded": "Paid and partly refunded",
    "refunded": "Paid and refunded in full",
    "canceled_by_api": "Canceled before the payment",
    "canceled_on_terminal": "Canceled at the terminal by the buyer or the cashier",
    "expired": "Expired: it was not paid in time",
}
"""The words of each other detail of a payment."""

CANCELED_BY: Mapping[str, str] = {
    "cancel": "Canceled by the application before the terminal took it",
    "confirm_cancel": "Canceled by the application, before the payment was authorized",
    "release": "Canceled by an operator, who released the terminal",
    "cancel_on_terminal": STATES["canceled_on_terminal"],
    "expire": STATES["expired"],
}
"""The reason of a canceled order by its last move."""

ENDED_BY: Mapping[str, str] = {
    "not_found": "The acquirer has no such payment, so the order failed",
    "operator": "An operator set the outcome",
}
"""The reasons of a failed order by the outcome of its inquiry, where that says more than the detail."""

REVERSALS: Mapping[str, str] = {
    "reversal": "is being reversed",
    "refund": "is being refunded: a reversal came too late",
    "person": "waits for an operator: the acquirer neither reverses nor refunds it",
}
"""The words of each pending reversal, by what it waits for."""

REFUNDS: Mapping[str, str] = {
    "processing": "is in progress at the acquirer",
    "confirmation": "waits until the acquirer has confirmed the payment",
    "person": "waits for an operator: it may have taken effect",
    "failed": "failed: the acquirer declined it",
}
"""The words of each refund that is not processed, by its status or what it waits for."""


UNDONE: Mapping[str, str] = {
    "canceled": "it was canceled at the terminal",
    "declined": "the terminal declined it",
    "approved": "the terminal reported another payment",
    "unknown": "the terminal does not know its outcome",
    "": "the terminal did not report on it in time",
}
"""Why a provisional approval was undone, by the terminal's result; "" without one."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason of an order's state; `code` is its detail in the API, `charged` and `to_do` are sentences or ""."""

    why: str
    code: str
    charged: str
    to_do: str
    look: Look


def reason_of(status: str, payment_detail: str) -> str:
    """Return the reason of a payment's status and detail, in a few words without a full stop."""
    return DECLINES[payment_detail][0] if payment_detail in DECLINES else STATES.get(payment_detail, status)


def explain(order: Document) -> Explanation:
    """Return the explanation of an order; it says more with the fields that only `GET orders/{order_id}` has."""
    detail, code = payment_of(order)["status_detail"], ""
    if order["status_detail"] == "check_on_terminal":
        why, code, charged = "The outcome is unknown", detail, "The card may have been charged."
        if is_undone(order):
            why = f"The acquirer's approval is being undone: {why_undone(order)}"
        to_do = f"Don't hand over the goods and don't charge again. {waiting_sentence(order)}".rstrip()
    elif detail in ("created", "at_terminal", "cancellation_requested"):
        is_permitted = "permitted_date" in order.get("times", {})
        why = "The payment is being authorized" if is_permitted else STATES[detail]
        if "confirmation" in order:
            why = "The acquirer has approved, and waits for the terminal's result"
        charged = "The card may be charged." if is_permitted else "Nothing was charged yet."
        to_do = waiting_sentence(order)
    elif detail in ("accredited", "partially_refunded", "refunded"):
        why, charged, to_do = _paid_reason(order, detail)
    else:
        why, to_do = DECLINES.get(detail, (STATES.get(detail, str(order["status"])), NEW_ORDER))
        code, charged = detail, _reversed(order) or NOTHING_CHARGED
        if detail == "processing_error":
            by = _operator(order, "orders.resolve")
            outcome = (order.get("inquiry") or {}).get("outcome", "")
            why = f"{by} set the outcome: not paid" if by else ENDED_BY.get(outcome, why)
            if is_undone(order) and not by:
                why = f"The acquirer's approval was undone: {why_undone(order)}"
        elif detail not in DECLINES:
            by = _operator(order, "orders.cancel")
            moves = [one["move"] for one in order.get("events", ())]
            why = f"Canceled by {by}" if by else CANCELED_BY.get(moves[-1] if moves else "", why)
    return Explanation(why, code, charged, to_do, order_look(order["status"], order["status_detail"], detail))


def payment_of(order: Document) -> Document:
    """Return the order's one payment."""
    payment: Document = order["transactions"]["payments"][0]
    return payment


def _paid_reason(order: Document, detail: str) -> tuple[str, str, str]:
    """Return the reason of a paid order, what was charged, and what the acquirer has not done yet."""
    why, charged = STATES[detail], f"{_paid(order)}. {_reversed(order)}".rstrip()
    if order.get("confirmation", {}).get("status") == "refused":
        why, charged = "The acquirer refused to confirm the payment", _reversed(order)
    sentences = [_confirmation(order)]
    for refund in order.get("order_refunds", order["transactions"].get("refunds", ())):
        words = REFUNDS.get(refund.get("waits_for", "")) or REFUNDS.get(refund["status"])
        sentences.append(f"A refund of {money(order, refund['amount'])} {words}." if words else "")
    return why, charged, " ".join(filter(None, sentences))


def _paid(order: Document) -> str:
    payment = payment_of(order)
    tip, refunded = payment.get("tip_amount"), payment.get("refunded_amount")
    text = f"{money(order, payment.get('paid_amount', order['total_amount']))} was charged"
    if tip:
        text += f", of which {money(order, tip)} is the tip"
    if order["status"] == "refunded":
        return f"{text}, and all of it was refunded"
    return f"{text}, and {money(order, refunded)} was refunded" if refunded else text


def _reversed(order: Document) -> str:
    """Return what happens to approvals that are not the order's payment; "" if there are none."""
    reversals: Sequence[Document] = order.get("reversals", ())
    pending = [one for one in reversals if one["status"] == "pending"]
    if pending and is_undone(order):
        return f"The approval of {money(order, pending[0]['amount'])} {_reversal(pending[0])}."
    if pending:
        return f"An approval of {money(order, pending[0]['amount'])} came later and {_reversal(pending[0])}."
    if any(one["status"] == "reversed" for one in reversals):
        if is_undone(order):
            return "The approval was reversed: nothing remains charged."
        return "An approval that came later was reversed: nothing remains charged for it."
    return ""


def is_undone(order: Document) -> bool:
    """Return whether the acquirer's provisional approval was decided against."""
    return bool(order.get("confirmation", {}).get("status") == "undone")


def why_undone(order: Document) -> str:
    """Return why the acquirer's provisional approval was undone."""
    checked = next((one["created_date"] for one in order.get("events", ()) if one["move"] == "check"), None)
    if checked is not None and checked < order["confirmation"]["approved_date"]:
        return "the outcome was unknown already"
    deciding = (one["outcome"] for one in order.get("results", ()) if one["verdict"] in ("taken", "conflict"))
    return UNDONE.get(next(deciding, ""), UNDONE[""])


def _confirmation(order: Document) -> str:
    """Return what the acquirer says to the confirmation of a payment; "" if it is confirmed, or needed none."""
    confirmation: Document = order.get("confirmation", {})
    if confirmation.get("status") == "confirming":
        return "The acquirer has not confirmed the payment yet."
    if confirmation.get("status") != "refused":
        return ""
    settled = confirmation.get("resolution")
    how = f"Settled: {settled.rstrip('.')}." if settled else "Settle it with the acquirer or the buyer."
    return f"It is not paid out, and the goods were handed over. {how}"


def _reversal(reversal: Document) -> str:
    return REVERSALS[reversal.get("waits_for", "reversal")]


def _operator(order: Document, action: str) -> str:
    """Return the name of the operator who made this change; "" if none did."""
    changes: Sequence[Document] = order.get("changes", ())
    return next((str(one.get("operator", "an operator")) for one in changes if one["action"] == action), "")


def money(order: Document, amount: str) -> str:
    """Return an amount with the order's currency, and all its decimals."""
    return f"{spelled(amount, order['currency'])} {order['currency']}"
