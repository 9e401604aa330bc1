"""The operations and words of orders, and of operator events."""

from __future__ import annotations

from paydesk.core.ids import ORDER_ID_PATTERN
from paydesk.core.text.sentences import First, When
from paydesk.engine.orders.errors import CANNOT_CANCEL_ORDER, ORDER_ALREADY_CANCELED, ORDER_NOT_FOUND
from paydesk.engine.orders.operations import ALLOW_CANCELABLE_STATUS, CANCELED_EXAMPLE
from paydesk.engine.orders.presentation import OrderDocument
from paydesk.engine.payments.errors import CANNOT_RESOLVE_ORDER, REFUND_ERRORS
from paydesk.engine.payments.refund import EXAMPLE as REFUND_EXAMPLE
from paydesk.engine.payments.refund import KEYS_KEPT_DAYS_MIN, RefundedOrder
from paydesk.operators.deliveries.operations import OPERATIONS as DELIVERIES
from paydesk.operators.noun import Noun
from paydesk.operators.orders import changes, facts, fields, handlers, history, resolving
from paydesk.operators.orders.outcome_operations import OPERATIONS as OUTCOMES
from paydesk.operators.schemas import ReasonRequest
from paydesk.operators.words import Column, Words, columns

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
_EVENT = Noun("events/{event_id}", "event", "", history.OperatorEvent, ORDER_NOT_FOUND)
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
        body=ReasonRequest,
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
        answer=RefundedOrder,
        example=REFUND_EXAMPLE,
        errors=REFUND_ERRORS,
        words=Words(
            "Refund a payment of {total} {currency}",
            says=(
                When(
                    "refunds_parts",
                    "{left} {currency} of {paid} {currency} can be refunded.",
                    otherwise="All of it is refunded, {left} {currency}: its acquirer refunds only whole payments.",
                ),
                "The acquirer returns the money to the buyer's card, which can take days.",
                "A refund cannot be undone.",
            ),
            impossible=First(
                When("left", "", otherwise="Nothing remains to be refunded."),
                When(
                    "unrefundable",
                    "The acquirer refused to confirm the payment, so that it has not been paid: there is nothing to"
                    " refund.",
                    ("refused",),
                ),
                When(
                    "unrefundable",
                    "The order's acquirer, {acquirer[name]}, is no longer configured, so nothing can be refunded.",
                    ("gone",),
                ),
                When("unrefundable", "No acquirer is configured, so nothing can be refunded.", ("none",)),
                When("unrefundable", "The order's acquirer does not accept {currency} any more.", ("currency",)),
                When(
                    "unrefundable",
                    "The order's acquirer refunds a payment only as a whole, and a part of it is refunded already.",
                    ("part",),
                ),
            ),
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
        resolving.order,
        body=fields.ResolveRequest,
        description="For an order at `check_on_terminal` for at least three minutes, when neither the terminal nor the"
        " acquirer reports the outcome. The audit trail records the reason. An approval that is reported after the"
        " order was declined here is a late approval and is reversed. An approval may have the acquirer's reference,"
        " the authorization code and the card; the audit trail records them too. If the acquirer waits for a"
        " confirmation of the payment, it is sent.",
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
            examples=(
                "ORD01J67CQQH5904WDBVZEM4JMEP3 --outcome declined --reason 'Not in the portal.'",
                "ORD01J67CQQH5904WDBVZEM4JMEP3 --outcome approved --reason 'In the portal.' --reference 115019989861"
                " --authorization-code 831000 --brand visa --type credit_card --first-digits 503175"
                " --last-digits 6351",
            ),
        ),
    ),
    *OUTCOMES,
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
