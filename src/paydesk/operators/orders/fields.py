"""Request bodies of operators about orders and reversals, closed to unknown fields."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paydesk.core.model import Model
from paydesk.core.money import spelled
from paydesk.engine.payments.refunds.schemas import RefundRequest
from paydesk.operators.documents import Document
from paydesk.operators.schemas import Reason
from paydesk.operators.words import Shown


class CancelOrderRequest(Model):
    """`POST /operator/v1/orders/{order_id}/cancel`."""

    reason: Annotated[Reason, Field(examples=["The customer has left."])]


class RefundOrderRequest(RefundRequest):
    """`POST /operator/v1/orders/{order_id}/refund`: a part of the payment; without it, all that remains."""

    reason: Annotated[Reason, Field(examples=["The customer has complained by telephone."])]


class RefundForm(Model):
    """The fields of the form that refunds an order."""

    amount: Annotated[
        str,
        Field(max_length=15),
        Shown("Amount in {currency}", noun="amount", widget="decimal", value=lambda order: order["left"]),
    ]
    reason: Reason


class ResolveRequest(Model):
    """`POST /operator/v1/orders/{order_id}/resolve`."""

    outcome: Annotated[
        Literal["approved", "declined"],
        Shown("Outcome", labels={"approved": "Paid", "declined": "Not paid"}, help="approved or declined."),
    ]
    reason: Reason


class ResolveReversalRequest(Model):
    """`POST /operator/v1/reversals/{reversal_id}/resolve`."""

    outcome: Annotated[
        Literal["reversed", "not_found"],
        Shown(
            "Outcome",
            labels={"reversed": "Reversed by other means", "not_found": "There is nothing to reverse"},
            help="reversed: reversed by other means; or not_found: there is no payment to reverse.",
        ),
    ]
    reason: Reason


def part_of_payment(typed: Document, order: Document) -> Document:
    """Return the request that refunds the amount that was typed.

    Always with the amount: never more than the form said, and the same request if the form is sent twice.
    """
    amount = spelled(typed.get("amount", "").replace(",", "."), order["currency"])
    parts = [{"id": order["transactions"]["payments"][0]["id"], "amount": amount}]
    return {"reason": typed.get("reason", ""), "transactions": parts}
