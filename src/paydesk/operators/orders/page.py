"""The screen of one order: the reason of its state, its facts, its timeline, refunds and notifications."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from paydesk.console import statuses
from paydesk.console.api import ApiRefused
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import render, screen
from paydesk.core.clock import rfc3339
from paydesk.operators.orders import reasons
from paydesk.operators.orders.facts import LIVE_LABELS, remaining, unrefundable
from paydesk.operators.orders.reasons import Document
from paydesk.operators.orders.timeline.drawing import draw
from paydesk.operators.orders.timeline.steps import timeline_of
from paydesk.operators.orders.timeline.terminal import card_of
from paydesk.operators.orders.timeline.timeline import since
from paydesk.operators.orders.waiting import RELEASABLE
from paydesk.operators.requests import curl
from paydesk.platform.operation import Answer

REQUESTS_MAX = 100
CHANGES = {
    "orders.cancel": "Canceled",
    "orders.refund": "Refunded",
    "orders.resolve": "Set the outcome",
    "refunds.resolve": "Set the outcome of a refund",
    "reversals.resolve": "Set the outcome of a reversal",
    "confirmations.resolve": "Settled the payment",
    "terminals.release": "Released the terminal",
}
"""The words for a change by an operator, by the action in the audit trail."""
METHODS = {
    "visa": "Visa credit",
    "master": "Mastercard credit",
    "amex": "Amex credit",
    "debvisa": "Visa debit",
    "debmaster": "Mastercard debit",
}
"""The names of payment methods; others are shown by their id."""
WAITS_FOR_THE_TERMINAL = ("acknowledgement", "payment", "cancel_answer", "result", "decision")
"""The values of `waits_for` while the next step is the terminal's."""


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show an order."""
    order = await request.api.get("orders/{}", request.path)
    requests: Sequence[Document] = ()
    with suppress(ApiRefused):  # A page without them is better than none.
        recorded = await request.api.get("requests", order=request.path, limit=REQUESTS_MAX)
        requests = recorded["data"][::-1]  # Oldest first.
    timeline = timeline_of(order, requests, request.now_ms)
    return render(
        request,
        "orders/page.html",
        section="orders",
        title=reasons.money(order, order["total_amount"]),
        live_on=f"terminal:{order['place']['terminal_id']} order:{order['id']}",
        order=order,
        here=f"{PATH}/orders/{order['id']}",
        why=reasons.explain(order),
        payment=reasons.payment_of(order),
        # A terminal of the seller always has a store.
        has_terminal="store" in order["place"],
        card=card_text(order),
        silent=await _silent(request, order),
        releasable=RELEASABLE,
        is_live=order["status"] in LIVE_LABELS,
        remaining="" if unrefundable(order) else remaining(order),
        unrefundable=unrefundable(order) if remaining(order) else "",
        is_refused=order.get("confirmation", {}).get("status") == "refused",
        timeline=timeline,
        drawing=draw(timeline),
        since=since,
        exact=rfc3339,
        looks=statuses,
        curl=await _curl(request, order, requests),
        command=f"paydesk orders get {order['id']}",
        changes=CHANGES,
    )


async def _silent(request: ConsoleRequest, order: Document) -> Document | None:
    """Return what the order waits for if it waits for a terminal that is offline."""
    if order["status"] not in LIVE_LABELS or "store" not in order["place"]:
        return None
    try:
        slot: Document = (await request.api.get("terminals/{}/queue", order["place"]["terminal_id"])).get("current", {})
    except ApiRefused:
        return None  # The terminal was deleted meanwhile.
    waits = slot.get("id") == order["id"] and slot["waits_for"] in WAITS_FOR_THE_TERMINAL
    return slot if waits and slot["terminal_presence"] == "offline" else None


def card_text(order: Document) -> str:
    """Return the payment method with the last digits of the card, of the payment or of what the terminal reported."""
    reported = (reasons.payment_of(order), order.get("authorization", {}), *order["results"])
    method: Document = next((one["payment_method"] for one in reported if one.get("payment_method")), {})
    name = METHODS.get(method.get("id", ""), method.get("id", ""))
    digits, installments = card_of(order).get("last_digits", ""), method.get("installments", 1)
    parts = (name, f"•••• {digits}" if digits else "", f"in {installments} installments" if installments > 1 else "")
    return " ".join(part for part in parts if part)


async def _curl(request: ConsoleRequest, order: Document, requests: Sequence[Document]) -> str:
    """Return the command for the request that created the order, or, if that is not recorded, for one that reads it."""
    created = next((one for one in requests if one.get("operation") == "create_order" and one["status"] == 201), None)
    one = {"method": "GET", "path": f"/v1/orders/{order['id']}"}
    if created is not None:
        with suppress(ApiRefused):  # It is no longer recorded.
            one = await request.api.get("requests/{}", created["entry_id"])
    return curl.command(one, curl.base_url(request))
