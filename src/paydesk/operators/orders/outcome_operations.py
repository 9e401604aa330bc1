"""The operations and words of inquiries, reversals, refunds and confirmations."""

from __future__ import annotations

from paydesk.core.ids import ORDER_ID_PATTERN, REFUND_ID_PATTERN, ULID_PATTERN
from paydesk.core.text.sentences import First, When
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.engine.payments.errors import (
    CANNOT_RESOLVE_CONFIRMATION,
    CANNOT_RESOLVE_REFUND,
    CANNOT_RESOLVE_REVERSAL,
    REFUND_NOT_FOUND,
    REVERSAL_NOT_FOUND,
)
from paydesk.operators.noun import Noun
from paydesk.operators.orders import fields, outcomes, resolving
from paydesk.operators.schemas import ReasonRequest
from paydesk.operators.words import Words, columns

PAGE = "/orders/{order_id}"
_REVERSAL = Noun(
    "reversals/{reversal_id}",
    "reversal",
    f"^{ULID_PATTERN}$",
    outcomes.ReversalDocument,
    REVERSAL_NOT_FOUND,
    key="id",
    page=PAGE,
    forms=f"{PAGE}/reversals/{{reversal_id}}",
    read="orders/{order_id}",
    argument={"reversal_id": "The reversal's id."},
)
_INQUIRY = Noun("inquiries/{order_id}", "inquiry", ORDER_ID_PATTERN, outcomes.InquiryDocument, ORDER_NOT_FOUND)
_REFUND = Noun(
    "refunds/{refund_id}",
    "refund",
    REFUND_ID_PATTERN,
    outcomes.ListedRefund,
    REFUND_NOT_FOUND,
    key="id",
    page=PAGE,
    forms=f"{PAGE}/refunds/{{refund_id}}",
    read="orders/{order_id}",
    argument={"refund_id": "The refund's id."},
)
_CONFIRMATION = Noun(
    "confirmations/{order_id}",
    "confirmation",
    ORDER_ID_PATTERN,
    outcomes.ConfirmationDocument,
    ORDER_NOT_FOUND,
    page=PAGE,
    forms=f"{PAGE}/confirmation",
    read="orders/{order_id}",
    argument={"order_id": "The order's id."},
)

OPERATIONS = (
    _INQUIRY.listing(
        outcomes.INQUIRY_PAGES,
        words=Words(
            "Inquiries",
            says="Of orders whose outcome is unknown, newest first, with the time of the next inquiry at the acquirer.",
            columns=columns("order_id", "status", "order_status", "outcome", "reason", "attempts", "next_date"),
            examples=("", "--all --json"),
        ),
    ),
    _REVERSAL.listing(
        outcomes.REVERSAL_PAGES,
        words=Words(
            "Reversals",
            says="Of approvals that are not their order's payment, newest first. One that comes too late for the"
            " acquirer becomes a refund, or waits for a person, as `waits_for` says. The reversal of an order's own"
            " payment is in the list of inquiries, as `reversing`.",
            columns=columns(
                *("id", "order_id", "status", "confirmed", "amount", "reference_id", "attempts", "next_date"),
                "waits_for",
            ),
            examples=("", "--status pending"),
        ),
    ),
    _REVERSAL.acting(
        "resolve",
        resolving.reversal,
        transaction="none",
        body=fields.ResolveReversalRequest,
        description="For a reversal that the acquirer has not confirmed within three minutes of the late approval, also"
        " if it is being refunded instead or waits for a person: `reversed` if the amount was reversed or refunded by"
        " other means, `not_found` if there is no payment to reverse. No further attempt is made. The audit trail"
        " records the reason.",
        errors=(CANNOT_RESOLVE_REVERSAL,),
        words=Words(
            "Set the outcome of the reversal",
            says="Do this only if the acquirer has not confirmed the reversal, or the refund in its place, for three"
            " minutes, and you have seen in its records what became of the approval. It ends and is not attempted"
            " again.",
            done="The outcome of the reversal is set.",
            did="Set the outcome of",
            submit="Set the outcome",
            danger=True,
            repeatable=True,
            examples=("01J67CQQH5904WDBVZEM4JMEP3 --outcome reversed --reason 'Done in the portal.'",),
        ),
    ),
    _REFUND.listing(
        outcomes.REFUND_PAGES,
        words=Words(
            "Refunds",
            says="Newest first, with the time of the next attempt at the acquirer; without one, a person ends it, as"
            " `waits_for` says.",
            columns=columns(
                *("id", "order_id", "status", "amount", "attempts", "created_date", "next_date", "waits_for")
            ),
            examples=("--status processing",),
        ),
    ),
    _REFUND.acting(
        "resolve",
        resolving.refund,
        transaction="none",
        body=fields.ResolveRefundRequest,
        description="For a refund that the acquirer has not decided within three minutes, also if it waits for a"
        " person: `processed` refunds the order, `failed` releases the amount, as the acquirer's answer would, each"
        " with its notification. No further attempt is made. The audit trail records the reason.",
        errors=(CANNOT_RESOLVE_REFUND,),
        words=Words(
            "Set the outcome of the refund",
            says="Do this only if the acquirer has not decided the refund for three minutes, and you have seen in its"
            " records what became of it. It ends and is not attempted again, and the application is notified.",
            done=When(
                "answer.status",
                "The outcome is set: refunded. The application is notified.",
                ("processed",),
                otherwise="The outcome is set: not refunded. The amount can be refunded again.",
            ),
            did="Set the outcome of",
            submit="Set the outcome",
            danger=True,
            repeatable=True,
            examples=(
                "REF01J67D5XJVM2Z0S9C3HQ4T8W1N --outcome processed --reason 'In the portal.' --reference 115019989861",
                "REF01J67D5XJVM2Z0S9C3HQ4T8W1N --outcome failed --reason 'The acquirer has no such refund.'",
            ),
        ),
    ),
    _CONFIRMATION.listing(
        outcomes.CONFIRMATION_PAGES,
        words=Words(
            "Confirmations",
            says="Of provisional approvals, newest first: whether the acquirer has confirmed the payment, and by when"
            " it must.",
            columns=columns(
                *("order_id", "status", "amount", "reference_id", "attempts", "next_date", "deadline_date"),
                "resolution",
            ),
            examples=("--status refused", "--status confirming --json"),
        ),
    ),
    _CONFIRMATION.acting(
        "resolve",
        resolving.confirmation,
        body=ReasonRequest,
        description="For a payment that the acquirer refused to confirm: the goods were handed over, and the payment is"
        " not paid out. Records how it was settled, once; its status stays, and so does the order. It no longer needs"
        " a person. The audit trail records the reason.",
        errors=(CANNOT_RESOLVE_CONFIRMATION,),
        words=Words(
            "Settle the payment of {total_amount} {currency}",
            says=(
                "The acquirer refused to confirm this payment, so that it is not paid out, though the goods were handed"
                " over. Settle it with the acquirer or the buyer first, then say here how.",
                "The order stays paid for the application, and no longer needs a person.",
            ),
            impossible=First(
                When("confirmation.resolution", "It is settled: {confirmation[resolution]}"),
                When(
                    "confirmation.status",
                    "",
                    ("refused",),
                    otherwise="The acquirer has not refused to confirm this payment.",
                ),
            ),
            done="It is recorded how the payment was settled.",
            did="Settled",
            submit="Settle",
            repeatable=True,
            examples=("ORD01J67CQQH5904WDBVZEM4JMEP3 --reason 'The buyer has paid in cash.'",),
        ),
    ),
)
