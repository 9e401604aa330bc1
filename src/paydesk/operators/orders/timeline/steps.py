"""Makes the timeline of an order from its document and its recorded requests."""

from __future__ import annotations

from collections.abc import Sequence

from paydesk.console import view
from paydesk.console.statuses import order_look
from paydesk.operators.orders.reasons import Document, is_undone
from paydesk.operators.orders.timeline.acquirer import (
    add_authorization,
    add_confirmation,
    add_faults,
    add_inquiry,
    add_refunds,
    add_reversals,
)
from paydesk.operators.orders.timeline.shares import shares_of
from paydesk.operators.orders.timeline.terminal import add_decision, add_offer, add_results, add_steps
from paydesk.operators.orders.timeline.timeline import AFTER, Band, Bar, Lane, Timeline, by_operator
from paydesk.operators.orders.timeline.webhooks import add_deliveries

MOVES: dict[str, tuple[str, str]] = {
    "create": ("Order created", ""),
    "acknowledge": ("Acknowledged", "at_terminal"),
    "cancel": ("Order canceled", "before the terminal took it"),
    "request_cancel": ("Cancel requested", "the terminal is asked to release the order"),
    "confirm_cancel": ("Order canceled", "the terminal released it or did not respond in time"),
    "release": ("Order canceled", "an operator released the terminal"),
    "cancel_on_terminal": ("Order canceled", "at the terminal"),
    "expire": ("Order expired", "it was not paid in time"),
    "check": ("Outcome unknown", "the acquirer is asked"),
    "approve": ("Order processed", "accredited"),
    "decline": ("Order failed", ""),
    "refund_part": ("Order partly refunded", ""),
    "refund_whole": ("Order refunded", ""),
    "refund_failed": ("Refund failed", "the order stays paid"),
}
"""The title and the detail of each move."""
_CHANGES = {"orders.cancel": ("cancel", "request_cancel"), "orders.resolve": ("approve", "decline"),
            "refunds.resolve": ("refund_part", "refund_whole", "refund_failed"),
            "terminals.release": ("release",)}  # fmt: skip
"""Changes by operators, with the moves that they make at the same time."""


def timeline_of(order: Document, requests: Sequence[Document], now_ms: int) -> Timeline:
    """Return the timeline of an order as `GET orders/{order_id}` has it, with its recorded requests."""
    timeline = Timeline(order, requests, now_ms)
    _add_requests(timeline)
    _add_events(timeline)
    if "permitted_date" in order["times"]:
        at_ms = timeline.instant(order["times"]["permitted_date"])
        link = timeline.device_link(at_ms, "/progress") or timeline.device_link(at_ms, "/authorize")
        detail = "cancel requests have no effect any more"
        timeline.permit = timeline.add(at_ms, "paydesk", "diamond", "Authorization permitted", detail, link=link)
    add_offer(timeline)
    add_steps(timeline)
    add_results(timeline)
    add_authorization(timeline)
    add_decision(timeline)
    add_confirmation(timeline)
    add_inquiry(timeline)
    add_reversals(timeline)
    add_refunds(timeline)
    add_faults(timeline)
    add_deliveries(timeline)
    if timeline.events:
        # The order holds its terminal until it ends, or, if a clock went back, until its last move.
        ended = timeline.ended_step or (timeline.now_step("terminal") if timeline.is_live else None)
        last = max((step for _, step in timeline.events), key=lambda step: (step.at_ms, step.order))
        timeline.slot = (timeline.events[0][1], ended or last)
    timeline.sort()
    # The statuses, each until the next one; consecutive equal ones are one band.
    for event, step in timeline.events:
        detail = event["payment_status_detail"]
        name = detail if detail in ("check_on_terminal", "expired", "partially_refunded") else event["status"]
        if timeline.bands and timeline.bands[-1].status == name:
            continue
        if timeline.bands:
            timeline.bands[-1].end = step
        timeline.bands.append(Band(name, _colour(event), step))
    timeline.shares = shares_of(timeline)
    return timeline


def _add_requests(timeline: Timeline) -> None:
    """Add the application's requests that may change the order."""
    for request in timeline.requests:
        path = str(request["path"])
        _add_fault(timeline, request)
        if request["method"] == "GET" or not path.startswith("/v1/orders"):
            continue
        at_ms, length_ms = timeline.instant(request["created_date"]), round(request["duration_ms"])
        path = path.partition("?")[0]
        end_of_path = path if path == "/v1/orders" else f"…/{path.rpartition('/')[2]}"
        detail = f"{request['status']} in {view.duration(length_ms)}"
        if request.get("replayed"):
            detail += ", the stored response"
        if request.get("error"):
            detail += f", {request['error']}"
        start = timeline.add(
            at_ms, "application", "square" if request["status"] >= 400 else "ring",
            f"{request['method']} {end_of_path}", detail, order=0, link=f"requests/{request['entry_id']}",
        )  # fmt: skip
        end = timeline.add(at_ms + length_ms, "application", "none", order=AFTER)
        timeline.bars.append(Bar(start, end, "work", view.duration(length_ms)))


def _add_fault(timeline: Timeline, request: Document) -> None:
    """Add what a fault of the development kit did to a request: without it, the log's status would mislead."""
    if fault := request.get("fault"):
        at_ms = timeline.instant(request["created_date"]) + round(request["duration_ms"])
        lane: Lane = "application" if str(request["path"]).startswith("/v1/") else "terminal"
        link = f"requests/{request['entry_id']}"
        timeline.add(at_ms, lane, "square", f"Fault {fault['kind']}", fault["effect"], order=AFTER, link=link)


def _add_events(timeline: Timeline) -> None:
    """Add the moves of the order, in their order, also where a node's clock went back."""
    at_ms = timeline.start_ms
    changes = timeline.order.get("changes", ())
    for event in timeline.order["events"]:
        move, date = event["move"], event["created_date"]
        at_ms = max(at_ms, timeline.instant(date))
        title, detail = MOVES.get(move, (move, ""))
        if move == "decline":
            detail = event["payment_status_detail"]
        elif move == "check" and is_undone(timeline.order):
            detail = "the payment is reversed"
        by = (one for one in changes if one["date"] == date and move in _CHANGES.get(one["action"], ()))
        if change := next(by, None):
            detail = by_operator(change)
        tone = "bad" if move == "refund_failed" else _colour(event)
        if tone == "wait" or move in ("create", "acknowledge"):
            tone = ""
        order = 1 if move == "create" else 3 if move == "acknowledge" else 8
        lane: Lane = "terminal" if move == "acknowledge" else "paydesk"
        timeline.events.append((event, timeline.add(at_ms, lane, "diamond", title, detail, tone=tone, order=order)))


def _colour(event: Document) -> str:
    return order_look(event["status"], event["status_detail"], event["payment_status_detail"]).colour
