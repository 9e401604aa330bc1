"""Request bodies of operators about orders, refunds, reversals and confirmations, closed to unknown fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from paydesk.core.model import NO_CARD_NUMBER, Model, property_fault, rule
from paydesk.core.money import spelled
from paydesk.core.text.card_numbers import carried_by_reference
from paydesk.core.text.sentences import value_at
from paydesk.engine.payments.refunds.schemas import RefundRequest
from paydesk.operators.documents import Document
from paydesk.operators.schemas import Reason
from paydesk.operators.words import Shown

_Reference = Annotated[
    str,
    Field(pattern="^[A-Za-z0-9._-]{1,64}$", examples=["115019989861"]),
    rule("must not be a card number", lambda text: not carried_by_reference(text)),
]
_APPROVED = ("outcome", ("approved",))
_CARD = "The card, from the receipt or the acquirer's records"


def _card_field(path: str, label: str, hint: str, option: str, help_: str, **more: Any) -> Shown:
    """Return the look of a field about the card; the form has at first what the terminal sent of it."""

    def sent(order: Document) -> str:
        return str(value_at(order, f"authorization.{path}") or "")

    return Shown(label, hint, group=_CARD, value=sent, only=_APPROVED, option=option, help=help_, **more)


class RefundOrderRequest(RefundRequest):
    """`POST /operator/v1/orders/{order_id}/refund`: a part of the payment; without it, all that remains."""

    reason: Annotated[Reason, Field(examples=["The customer has complained by telephone."])]


class RefundForm(Model):
    """The fields of the form that refunds an order."""

    amount: Annotated[
        str,
        Field(max_length=15),
        Shown(
            "Amount in {currency}",
            noun="amount",
            widget="decimal",
            value=lambda order: order["left"],
            only=("refunds_parts", (True,)),
        ),
    ]
    reason: Reason


class ResolveRequest(Model):
    """`POST /operator/v1/orders/{order_id}/resolve`."""

    outcome: Annotated[
        Literal["approved", "declined"],
        Shown("Outcome", labels={"approved": "Paid", "declined": "Not paid"}, help="approved or declined."),
    ]
    reason: Reason
    reference_id: Annotated[
        _Reference | None,
        Shown(
            "Acquirer's reference",
            "If it was paid and you know it. Refunds of the payment are requested with it.",
            noun="reference",
            only=_APPROVED,
            option="--reference",
            help="The acquirer's reference of an approved payment.",
        ),
    ] = None
    authorization_code: Annotated[
        Annotated[str, Field(pattern="^[0-9A-Za-z]{1,12}$", examples=["831000"]), NO_CARD_NUMBER] | None,
        Shown("Authorization code", only=_APPROVED, help="The authorization code of an approved payment."),
    ] = None
    payment_method_id: Annotated[
        Annotated[str, Field(pattern="^[a-z_]{1,32}$", examples=["visa"])] | None,
        _card_field("payment_method.id", "Brand", "Such as visa, master or amex.", "--brand", "The card's brand."),
    ] = None
    payment_method_type: Annotated[
        Literal["credit_card", "debit_card"] | None,
        _card_field(
            "payment_method.type",
            "Kind of card",
            "",
            "--type",
            "credit_card or debit_card.",
            labels={"credit_card": "Credit card", "debit_card": "Debit card"},
        ),
    ] = None
    first_digits: Annotated[
        Annotated[str, Field(pattern="^[0-9]{6}$", examples=["503175"])] | None,
        _card_field("card.first_digits", "First six digits", "", "--first-digits", "The card's first six digits."),
    ] = None
    last_digits: Annotated[
        Annotated[str, Field(pattern="^[0-9]{4}$", examples=["6351"])] | None,
        _card_field("card.last_digits", "Last four digits", "", "--last-digits", "The card's last four digits."),
    ] = None

    @model_validator(mode="after")
    def _describes_a_payment(self) -> Self:
        details = self.model_dump(exclude_none=True, exclude={"outcome", "reason"})
        if details and self.outcome == "declined":
            raise property_fault(f"must not have {next(iter(details))}, as nothing was paid")
        if (self.payment_method_id is None) != (self.payment_method_type is None):
            raise property_fault("must have both payment_method_id and payment_method_type, or neither")
        if (self.first_digits is None) != (self.last_digits is None):
            raise property_fault("must have both first_digits and last_digits, or neither")
        return self


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


class ResolveRefundRequest(Model):
    """`POST /operator/v1/refunds/{refund_id}/resolve`."""

    outcome: Annotated[
        Literal["processed", "failed"],
        Shown(
            "Outcome",
            labels={"processed": "Refunded", "failed": "Not refunded"},
            help="processed: the buyer gets the money; or failed: nothing was refunded.",
        ),
    ]
    reason: Reason
    reference_id: Annotated[
        _Reference | None,
        Shown(
            "Acquirer's reference",
            "If it was refunded and you know it.",
            noun="reference",
            only=("outcome", ("processed",)),
            option="--reference",
            help="The acquirer's reference of a processed refund.",
        ),
    ] = None

    @model_validator(mode="after")
    def _describes_a_refund(self) -> Self:
        if self.reference_id is not None and self.outcome == "failed":
            raise property_fault("must not have reference_id, as nothing was refunded")
        return self


def part_of_payment(typed: Document, order: Document) -> Document:
    """Return the request that refunds the amount that was typed, or all that remains where no part can be.

    Always with the amount: never more than the form said, and the same request if the form is sent twice.
    """
    amount = spelled(str(typed.get("amount", order["left"])).replace(",", "."), order["currency"])
    parts = [{"id": order["transactions"]["payments"][0]["id"], "amount": amount}]
    return {"reason": typed.get("reason", ""), "transactions": parts}
