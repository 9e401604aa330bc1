"""The operations and words of orders, and of the inquiries, reversals and refunds of their payments."""

from __future__ import annotations

from paydesk.core.ids import ORDER_ID_PATTERN, REFUND_ID_PATTERN, ULID_PATTERN
from paydesk.core.text.sentences import First, When
from paydesk.engine.orders.errors import CANNOT_CANCEL_ORDER, ORDER_ALREADY_CANCELED, ORDER_NOT_FOUND
from paydesk.engine.orders.operations import ALLOW_CANCELABLE_STATUS, CANCELED_EXAMPLE
from paydesk.engine.orders.presentation import OrderDocument
from paydesk.engine.payments.errors import (
    CANNOT_RESOLVE_ORDER,
    CANNOT_RESOLVE_REVERSAL,
    REFUND_ERRORS,
    REVERSAL_NOT_FOUND,
)
from paydesk.engine.payments.refund import EXAMPLE as REFUND_EXAMPLE
from paydesk.engine.payments.refund import KEYS_KEPT_DAYS_MIN, RefundResponse
from paydesk.operators.deliveries.operations import OPERATIONS as DELIVERIES
from paydesk.operators.noun import Noun
from paydesk.operators.orders import changes, facts, fields, handlers, history, outcomes
from paydesk.operators.words import Column, Words, columns

_PAGE = "/orders/{order_id}"
_ORDER = Noun(
    "orders/{order_id}",
    "order",
    ORDER_ID_PATTERN,
    OrderDocument,
    ORDER_NOT_FOUND,
    key="id",
    argument={"order_id": "The order's id."},
    facts=facts.of_order,
)
_REVERSAL = Noun(
    "reversals/{reversal_id}",
    "reversal",
    f"^{ULID_PATTERN}$",
    outcomes.ReversalDocument,
    REVERSAL_NOT_FOUND,
    key="id",
    page=_PAGE,
    forms=f"{_PAGE}/reversals/{{reversal_id}}",
    read="orders/{order_id}",
    argument={"reversal_id": "The reversal's id."},
)
_INQUIRY = Noun("inquiries/{order_id}", "inquiry", ORDER_ID_PATTERN, outcomes.InquiryDocument, ORDER_NOT_FOUND)
_REFUND = Noun("refunds/{refund_id}", "refund", REFUND_ID_PATTERN, outcomes.RefundDocument, ORDER_NOT_FOUND)
_EVENT = Noun("events/{event_id}", "event", "", history.EventDocument, ORDER_NOT_FOUND)
_NEW = ("created",)
_REFUNDED = "{answer[transactions][refunds][0][amount]} {currency}"

LIST = _ORDER.listing(
    handlers.PAGES,
    words=Words(
        "Orders",
        says="Newest first.",
        columns=(
            Column("created_date", "Time", "order_time", at=5),
            Column("status", "Status", "order_status", at=2),
            Column("status_detail", "Status", "order_status_and_reason"),
            Column("reason", "Why", "order_reason", style="wide", at=3),
            Column("amount", "Amount", "order_amount", style="r nowrap", at=4),
            Column("external_reference", "Reference", style="wide mono", at=8),
            Column("terminal", "Terminal", "order_terminal", style="wide nowrap", at=7),
            Column("card", "Card", "order_card", style="wide nowrap"),
            Column("id", at=1),
            Column("kind", at=6),
        ),
        examples=("--status at_terminal", "--state partially_refunded", "--card 6351 --since 2026-01-31 --json"),
        limit=50,
    ),
)

OPERATIONS = (
    LIST,
    _ORDER.reading(history.get_order, name="inspect_order", answer=history.InspectedOrder),
    *DELIVERIES,
    _ORDER.acting(
        "cancel",
        changes.cancel,
        body=fields.CancelOrderRequest,
        description="By the rules of applications: an order at its terminal needs the extra header, and the response"
        " is 202. The audit trail records the reason.",
        further_statuses=(202,),
        idempotent=True,
        on_behalf=changes.as_seller,
        headers=(ALLOW_CANCELABLE_STATUS,),
        example=CANCELED_EXAMPLE,
        errors=(ORDER_ALREADY_CANCELED, CANNOT_CANCEL_ORDER),
        words=Words(
            "Cancel {total} {currency}",
            says=(
                When(
                    "status",
                    "The order is canceled at once. The terminal no longer shows it, and nothing is charged.",
                    _NEW,
                    otherwise="The terminal is requested to release the order. It shows the buyer that the payment was"
                    " canceled.",
                ),
                When("status", "", _NEW, "If the terminal does not answer, the order is canceled without it."),
                When("status", "", _NEW, "Once authorization is permitted, a cancel has no effect."),
            ),
            impossible=First(
                When("late", "The order is canceled already. A later approval is being reversed.", ("pending",)),
                When("late", "The order is canceled already. A later approval was reversed.", ("reversed",)),
                When("status", "The order is canceled already. Nothing was charged.", ("canceled",)),
                When("left", "The order is paid, so it cannot be canceled. It can be refunded."),
                When("is_live", "", otherwise="The order has ended, so it cannot be canceled."),
            ),
            done=When(
                "status",
                "The order is canceled. Nothing was charged.",
                ("canceled",),
                otherwise="The terminal was requested to release the order. This page shows when it has.",
            ),
            did="Canceled",
            submit="Cancel the order",
            command=None,
            danger=True,
            repeatable=True,
            headers={"x-allow-cancelable-status": When("status", "", _NEW, "at_terminal")},
        ),
    ),
    _ORDER.acting(
        "refund",
        changes.REFUND,
        body=fields.RefundOrderRequest,
        description="By the rules of applications. Without `transactions`, refunds all that remains of the payment."
        " The audit trail records the reason.",
        status=201,
        idempotent=True,
        keys_kept_days_min=KEYS_KEPT_DAYS_MIN,
        on_behalf=changes.as_seller,
        answer=RefundResponse,
        example=REFUND_EXAMPLE,
        errors=REFUND_ERRORS,
        words=Words(
            "Refund a payment of {total} {currency}",
            says=(
                "{left} {currency} of {paid} {currency} can be refunded. The acquirer returns the money to the buyer's"
                " card, which can take days.",
                "A refund cannot be undone.",
            ),
            impossible=When("left", "", otherwise="Nothing remains to be refunded."),
            done=When(
                "answer.transactions.refunds.0.status",
                f"{_REFUNDED} was refunded.",
                ("processed",),
                otherwise=f"The refund of {_REFUNDED} is in progress: the acquirer has not confirmed it yet. It is"
                " retried.",
            ),
            did="Refunded",
            submit="Refund",
            command=None,
            asks=fields.RefundForm,
            sends=fields.part_of_payment,
            danger=True,
            repeatable=True,
        ),
    ),
    _ORDER.acting(
        "resolve",
        outcomes.resolve,
        body=fields.ResolveRequest,
        description="For an order at `check_on_terminal` for at least three minutes, when neither the terminal nor the"
        " acquirer reports the outcome. The audit trail records the reason. An approval that is reported after the"
        " order was declined here is a late approval and is reversed.",
        errors=(CANNOT_RESOLVE_ORDER,),
        words=Words(
            "Set the outcome of {total} {currency}",
            says=(
                "Do this only if neither the terminal nor the acquirer has reported the outcome for three minutes, and"
                " you have seen the receipt or the acquirer's records: the order ends with this outcome, and the"
                " terminal is free.",
                When("waits", "{waits}"),
                "If you choose not paid and an approval is reported later, it is reversed.",
            ),
            impossible=When("is_live", "", otherwise="The order has ended: its outcome is known."),
            done=When(
                "status",
                "The outcome is set: paid. The terminal is free, and the application is notified.",
                ("processed",),
                otherwise="The outcome is set: not paid. The terminal is free, and the application is notified.",
            ),
            did="Set the outcome of",
            submit="Set the outcome",
            danger=True,
            repeatable=True,
            examples=("ORD01J67CQQH5904WDBVZEM4JMEP3 --outcome declined --reason 'Not in the portal.'",),
        ),
    ),
    _INQUIRY.listing(
        outcomes.INQUIRY_PAGES,
        words=Words(
            "Inquiries",
            says="Of orders whose outcome is unknown, newest first, with the time of the next inquiry at the acquirer.",
            columns=columns("order_id", "status", "outcome", "reason", "attempts", "next_date"),
            examples=("", "--all --json"),
        ),
    ),
    _REVERSAL.listing(
        outcomes.REVERSAL_PAGES,
        words=Words(
            "Reversals",
            says="Of late approvals, newest first.",
            columns=columns(
                *("id", "order_id", "status", "confirmed", "amount", "reference_id", "attempts", "next_date")
            ),
            examples=("", "--status pending"),
        ),
    ),
    _REVERSAL.acting(
        "resolve",
        outcomes.resolve_reversal,
        transaction="none",
        body=fields.ResolveReversalRequest,
        description="For a reversal that the acquirer has not confirmed within three minutes of the late approval:"
        " `reversed` if the amount was reversed by other means, `not_found` if there is no payment to reverse. It"
        " is not retried. The audit trail records the reason.",
        errors=(CANNOT_RESOLVE_REVERSAL,),
        words=Words(
            "Set the outcome of the reversal",
            says="Do this only if the acquirer has not confirmed the reversal for three minutes, and you have seen in"
            " its records what became of the approval. The reversal ends and is not attempted again.",
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
            says="Newest first, with the time of the next attempt at the acquirer.",
            columns=columns("id", "order_id", "status", "amount", "attempts", "created_date", "next_date"),
            examples=("--status processing",),
        ),
    ),
    _EVENT.listing(
        history.EVENT_PAGES,
        words=Words(
            "Operator events",
            says="Newest first: what needs an operator's attention.",
            columns=columns("created_date", "kind", "subject", "message"),
            examples=("--json",),
        ),
    ),
)
