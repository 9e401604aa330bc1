"""What an operator does to an order: cancel, refund, set the outcome, send a notification again."""

from __future__ import annotations

from collections.abc import Mapping

from paydesk.console import deliveries, reasons
from paydesk.console.actions import KEY, REASON, ActionForm, Done, Field, act, decimal
from paydesk.console.order import remaining
from paydesk.console.reasons import Document, money
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import screen
from paydesk.console.timeline_parts import LIVE_LABELS
from paydesk.operation import Answer

SECTION = "orders"


@screen
async def cancel(request: ConsoleRequest) -> Answer:
    """Cancel an order, or request its terminal to release it."""
    order = await request.api.get("orders/{}", request.path)
    is_taken = order["status"] != "created"
    action = ActionForm(
        title=f"Cancel {_amount(order)}",
        says=_cancel_says(order),
        impossible=_cancel_impossible(order),
        submit="Cancel the order",
        back=_page(order),
        section=SECTION,
        fields=(REASON,),
        danger=True,
        repeatable=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        headers = {"x_allow_cancelable_status": "at_terminal"} if is_taken else {}
        body = {"reason": sent["reason"]}
        changed = await request.api.post("orders/{}/cancel", order["id"], body=body, key=sent[KEY], **headers)
        if changed["status"] == "canceled":
            return Done("The order is canceled. Nothing was charged.")
        return Done("The terminal was requested to release the order. This page shows when it has.")

    return await act(request, action, work)


def _cancel_says(order: Document) -> tuple[str, ...]:
    """Return what canceling an order in its state does."""
    if order["status"] == "created":
        return ("The order is canceled at once. The terminal does not show it any more, and nothing is charged.",)
    return (
        "The terminal is requested to release the order. It shows the buyer that the payment was canceled.",
        "If the terminal does not answer, the order is canceled without it.",
        "Once authorization is permitted, a cancel has no effect.",
    )


def _cancel_impossible(order: Document) -> str:
    """Return why an order cannot be canceled; empty if it can."""
    if order["status"] in LIVE_LABELS:
        return ""
    if order["status"] == "canceled":
        return f"The order is canceled already. {reasons.explain(order).charged}"
    if remaining(order):
        return "The order is paid, so it cannot be canceled. It can be refunded."
    return "The order has ended, so it cannot be canceled."


@screen
async def refund(request: ConsoleRequest) -> Answer:
    """Refund what remains of an order, or a part of it."""
    order = await request.api.get("orders/{}", request.path)
    left, payment = remaining(order), reasons.payment_of(order)
    action = ActionForm(
        title=f"Refund a payment of {_amount(order)}",
        says=(
            f"{money(order, left)} of {money(order, payment.get('paid_amount', order['total_amount']))} can be"
            " refunded. The acquirer returns the money to the buyer's card, which can take days.",
            "A refund cannot be undone.",
        ),
        impossible="" if left else "Nothing remains to be refunded.",
        submit="Refund",
        back=_page(order),
        section=SECTION,
        fields=(
            Field(
                "amount",
                f"Amount in {order['currency']}",
                value=left,
                inputmode="decimal",
                maxlength=15,
                noun="amount",
            ),
            REASON,
        ),
        danger=True,
        repeatable=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        # Always with the amount: never more than the form said, and the same request if the form is sent twice.
        asked = {"id": payment.get("id", ""), "amount": decimal(request, sent["amount"])}
        body = {"reason": sent["reason"], "transactions": [asked]}
        made = await request.api.post("orders/{}/refund", order["id"], body=body, key=sent[KEY])
        (one,) = made["transactions"]["refunds"]
        amount = money(order, one["amount"])
        if one["status"] == "processed":
            return Done(f"{amount} was refunded.")
        return Done(f"The refund of {amount} is in progress: the acquirer has not confirmed it yet. It is retried.")

    return await act(request, action, work)


@screen
async def resolve(request: ConsoleRequest) -> Answer:
    """Set the outcome of an order whose outcome is unknown."""
    order = await request.api.get("orders/{}", request.path)
    action = ActionForm(
        title=f"Set the outcome of {_amount(order)}",
        says=(
            "Do this only if you have seen the receipt or the acquirer's records: the order ends with this outcome, and"
            " the terminal is free.",
            reasons.waiting_sentence(order),
            "If you choose not paid and an approval is reported later, it is reversed.",
        ),
        impossible="" if order["status"] in LIVE_LABELS else "The order has ended: its outcome is known.",
        submit="Set the outcome",
        back=_page(order),
        section=SECTION,
        fields=(_outcome(("approved", "Paid"), ("declined", "Not paid")), REASON),
        danger=True,
        repeatable=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {"outcome": sent["outcome"], "reason": sent["reason"]}
        changed = await request.api.post("orders/{}/resolve", order["id"], body=body)
        said = "paid" if changed["status"] == "processed" else "not paid"
        return Done(f"The outcome is set: {said}. The terminal is free, and the application is notified.")

    return await act(request, action, work)


@screen
async def resend(request: ConsoleRequest) -> Answer:
    """Send a notification of an order again."""
    order_id, delivery_id = request.call.paths
    return await deliveries.send_again(request, delivery_id, f"{PATH}/orders/{order_id}", SECTION)


@screen
async def resolve_reversal(request: ConsoleRequest) -> Answer:
    """Set the outcome of a reversal that the acquirer does not confirm."""
    order_id, reversal_id = request.call.paths
    action = ActionForm(
        title="Set the outcome of the reversal",
        says=(
            "Do this only if you have seen in the acquirer's records what became of the approval. The reversal ends and"
            " is not attempted again.",
        ),
        submit="Set the outcome",
        back=f"{PATH}/orders/{order_id}",
        section=SECTION,
        fields=(
            _outcome(("reversed", "Reversed by other means"), ("not_found", "There is nothing to reverse")),
            REASON,
        ),
        danger=True,
        repeatable=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body = {"outcome": sent["outcome"], "reason": sent["reason"]}
        await request.api.post("reversals/{}/resolve", reversal_id, body=body)
        return Done("The outcome of the reversal is set.")

    return await act(request, action, work)


def _outcome(*options: tuple[str, str]) -> Field:
    """Return the field for an outcome, none of which is chosen beforehand."""
    return Field("outcome", "Outcome", "select", options=(("", "Choose"), *options))


def _amount(order: Document) -> str:
    return money(order, order["total_amount"])


def _page(order: Document) -> str:
    return f"{PATH}/orders/{order['id']}"
