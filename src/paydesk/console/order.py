"""The screen of one order: the reason of its state, its facts, its timeline, refunds and notifications."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from paydesk.console import curl, reasons, timeline_drawing, timeline_rows, view
from paydesk.console.api import ApiRefused
from paydesk.console.reasons import Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import render, screen
from paydesk.console.timeline_parts import LIVE_LABELS
from paydesk.console.timeline_steps import timeline_of
from paydesk.console.timeline_terminal import card_of
from paydesk.console.timeline_webhooks import answer_of
from paydesk.core.clock import rfc3339
from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.operation import Answer
from paydesk.web import statuses

REQUESTS_MAX = 100
CHANGES = {
    "orders.cancel": "Canceled",
    "orders.refund": "Refunded",
    "orders.resolve": "Set the outcome",
    "terminals.release": "Released the terminal",
}
"""What operators did, by the action in the audit trail."""
METHODS = {
    "visa": "Visa credit",
    "master": "Mastercard credit",
    "amex": "Amex credit",
    "debvisa": "Visa debit",
    "debmaster": "Mastercard debit",
}
"""The names of payment methods; others are shown by their id."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What an operator can do to the order now."""

    cancel: bool
    refund: bool
    resolve: bool
    resolve_from: str = ""
    """From when on an operator can set the outcome, if not yet."""


@screen
async def show(request: ConsoleRequest) -> Answer:
    """Show an order."""
    order = await request.api.get("orders/{}", request.path)
    requests = await _requests(request)
    timeline = timeline_of(order, requests, request.now_ms)
    terminal_id = order["place"]["terminal_id"]
    return render(
        request,
        "order.html",
        section="orders",
        title=f"{order['total_amount']} {order['currency']}",
        live_on=f"terminal:{terminal_id} order:{order['id']}",
        order=order,
        here=f"{PATH}/orders/{order['id']}",
        why=reasons.explain(order),
        payment=reasons.payment_of(order),
        # A terminal of the seller always has a store.
        has_terminal="store" in order["place"],
        card=card_text(order),
        rights=rights_of(request, order),
        is_live=order["status"] in LIVE_LABELS,
        not_yet=not_yet,
        remaining=remaining(order),
        timeline=timeline,
        drawing=timeline_drawing.drawing_of(timeline),
        rows=timeline_rows.rows_of(timeline),
        exact=exact,
        looks=statuses,
        answer_of=answer_of,
        curl=curl_of(request, order),
        command=f"paydesk orders get {order['id']}",
        changes=CHANGES,
        json=msgspec.json.format(msgspec.json.encode(order), indent=2).decode(),
    )


async def _requests(request: ConsoleRequest) -> list[Any]:
    """Return the recorded requests about the order, oldest first; none if they cannot be read."""
    try:
        page = await request.api.get("requests", order=request.path, limit=REQUESTS_MAX)
    except ApiRefused:
        return []
    found: list[Any] = page["data"]
    return found[::-1]


def rights_of(request: ConsoleRequest, order: Document) -> Rights:
    """Return which actions the order's state and the operator's role permit."""
    is_live, detail = order["status"] in LIVE_LABELS, order["status_detail"]
    can_cancel = is_live and detail != "check_on_terminal" and "permitted_date" not in order["times"]
    may = request.may_change
    is_unknown = may and is_live and detail == "check_on_terminal"
    resolve_from = not_yet(order.get("waiting", {}).get("resolvable_date"), request.now_ms) if is_unknown else ""
    return Rights(
        cancel=may and can_cancel,
        refund=may and bool(remaining(order)),
        resolve=is_unknown and not resolve_from,
        resolve_from=resolve_from,
    )


def not_yet(date: str | None, now_ms: int) -> str:
    """Return the date if it is in the future, else an empty text."""
    return date if date is not None and view.instant_ms(date) > now_ms else ""


def remaining(order: Document) -> str:
    """Return the paid amount that can still be refunded; empty if there is none."""
    payment = reasons.payment_of(order)
    if order["status"] != "processed" or "paid_amount" not in payment:
        return ""
    decimals = CURRENCIES[order["currency"]].decimals
    paid = minor_units(payment["paid_amount"], decimals) or 0
    taken = sum(
        minor_units(one["amount"], decimals) or 0 for one in order["order_refunds"] if one["status"] != "failed"
    )
    return decimal_string(paid - taken, decimals) if paid > taken else ""


def card_text(order: Document) -> str:
    """Return the payment method with the last digits of the card, of the payment or of what the terminal reported."""
    payment, results = reasons.payment_of(order), order["results"]
    found: Sequence[Any] = (
        payment.get("payment_method"),
        order.get("authorization", {}).get("payment_method"),
        *(one.get("payment_method") for one in results),
    )
    method: Document = next((one for one in found if one), {})
    name = METHODS.get(method.get("id", ""), method.get("id", ""))
    digits = card_of(order).get("last_digits", "")
    parts = [name, f"•••• {digits}" if digits else ""]
    if method.get("installments", 1) > 1:
        parts.append(f"in {method['installments']} installments")
    return " ".join(part for part in parts if part)


def exact(step_ms: int) -> str:
    """Return an instant in UTC as the tooltip of a step shows it."""
    return rfc3339(step_ms)


def curl_of(request: ConsoleRequest, order: Document) -> str:
    """Return the command that reads the order as the page shows it, with the operator's token in a variable."""
    base = request.call.settings.public_url or f"http://{request.call.headers.get('host', '')}"
    address = shlex.quote(f"{base}/operator/v1/orders/{order['id']}")
    return f'curl -sS {address} -H "Authorization: Bearer ${curl.OPERATOR_TOKEN}"'
