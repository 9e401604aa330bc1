"""The screen of one order: the reason of its state, its facts, its timeline, refunds and notifications."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from paydesk.console import curl, reasons, timeline_drawing, timeline_rows, view
from paydesk.console.api import ApiRefused
from paydesk.console.reasons import Document
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import render, screen
from paydesk.console.timeline_steps import timeline_of
from paydesk.console.timeline_terminal import card_of
from paydesk.console.timeline_webhooks import answer_of
from paydesk.core.clock import rfc3339
from paydesk.operation import Answer
from paydesk.operators.orders.facts import LIVE_LABELS, remaining
from paydesk.operators.orders.waiting import RELEASABLE
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


WAITS_FOR_THE_TERMINAL = ("acknowledgement", "payment", "cancel_answer", "result")
"""What an order waits for while the next step is its terminal's."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What an operator can do to the order now."""

    cancel: bool
    release: bool
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
    silent = await _silent(request, order)
    terminal_id = order["place"]["terminal_id"]
    return render(
        request,
        "order.html",
        section="orders",
        title=reasons.money(order, order["total_amount"]),
        live_on=f"terminal:{terminal_id} order:{order['id']}",
        order=order,
        here=f"{PATH}/orders/{order['id']}",
        why=reasons.explain(order),
        payment=reasons.payment_of(order),
        # A terminal of the seller always has a store.
        has_terminal="store" in order["place"],
        card=card_text(order),
        silent=silent,
        do_about_silence=_do_about(silent),
        has_refused_refund=any(one["status"] == "failed" for one in order["order_refunds"]),
        rights=rights_of(request, order, silent),
        is_live=order["status"] in LIVE_LABELS,
        not_yet=not_yet,
        remaining=remaining(order),
        timeline=timeline,
        drawing=timeline_drawing.drawing_of(timeline),
        rows=timeline_rows.rows_of(timeline),
        exact=exact,
        looks=statuses,
        answer_of=answer_of,
        curl=await _curl(request, order, requests),
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


def _do_about(silent: Document | None) -> str:
    """Return what a person does about an order that waits for an offline terminal."""
    if silent is None:
        return ""
    look = "Check the terminal's power and network"
    return f"{look}, or release it, which cancels the order." if silent["waits_for"] in RELEASABLE else f"{look}."


def rights_of(request: ConsoleRequest, order: Document, silent: Document | None = None) -> Rights:
    """Return which actions the order's state and the operator's role permit; a release if its terminal is silent."""
    is_live, detail = order["status"] in LIVE_LABELS, order["status_detail"]
    can_cancel = is_live and detail != "check_on_terminal" and "permitted_date" not in order["times"]
    may = request.may_change
    can_release = may and silent is not None and silent["waits_for"] in RELEASABLE
    is_unknown = may and is_live and detail == "check_on_terminal"
    resolve_from = not_yet(order.get("waiting", {}).get("resolvable_date"), request.now_ms) if is_unknown else ""
    return Rights(
        cancel=may and can_cancel,
        release=can_release,
        refund=may and bool(remaining(order)),
        resolve=is_unknown and not resolve_from,
        resolve_from=resolve_from,
    )


def not_yet(date: str | None, now_ms: int) -> str:
    """Return the date if it is in the future, else an empty text."""
    return date if date is not None and view.instant_ms(date) > now_ms else ""


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


async def _curl(request: ConsoleRequest, order: Document, requests: Sequence[Document]) -> str:
    """Return the command for the request that created the order, or, if that is not recorded, for one that reads it."""
    created = next((one for one in requests if one.get("operation") == "create_order" and one["status"] == 201), None)
    one = {"method": "GET", "path": f"/v1/orders/{order['id']}"}
    if created is not None:
        with suppress(ApiRefused):  # It is no longer recorded.
            one = await request.api.get("requests/{}", created["entry_id"])
    return curl.command(one, curl.base_url(request))
