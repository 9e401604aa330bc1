"""Makes the timeline of an order from its document and its recorded requests."""

from __future__ import annotations

from collections.abc import Sequence

from paydesk.console import timeline_shares, view
from paydesk.console.reasons import Document
from paydesk.console.timeline import Band, Bar, Lane, Step, Timeline, Tone
from paydesk.console.timeline_acquirer import add_acquirer, add_refunds
from paydesk.console.timeline_parts import AFTER, Parts, latest
from paydesk.console.timeline_terminal import add_terminal
from paydesk.console.timeline_webhooks import add_webhooks
from paydesk.web.statuses import order_look

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
"""Each move with its title and detail."""
_CHANGES = {"orders.cancel": ("cancel", "request_cancel"), "orders.resolve": ("approve", "decline"),
            "terminals.release": ("release",)}  # fmt: skip
"""Changes by operators, with the moves that they make at the same time."""


def timeline_of(order: Document, requests: Sequence[Document], now_ms: int) -> Timeline:
    """Return the timeline of an order as `GET orders/{order_id}` has it, with its recorded requests."""
    parts = Parts(order, requests, now_ms)
    _add_requests(parts)
    _add_events(parts)
    permit = _add_permit(parts)
    add_terminal(parts)
    add_acquirer(parts)
    add_refunds(parts)
    add_webhooks(parts)
    slot = _slot(parts)
    steps = parts.sorted_steps()
    end_ms = parts.end_ms
    made = Timeline(parts.start_ms, end_ms, parts.is_live, steps, parts.bars, _bands(parts), permit, slot)
    made.shares = timeline_shares.shares_of(made, parts)
    return made


def _add_requests(parts: Parts) -> None:
    """Add the application's requests that may change the order."""
    for request in parts.requests:
        if request["method"] == "GET" or not str(request["path"]).startswith("/v1/orders"):
            continue
        at_ms = parts.instant(request["created_date"])
        length_ms = round(request["duration_ms"])
        detail = f"{request['status']} in {view.duration(length_ms)}"
        if request.get("replayed"):
            detail += ", the stored response"
        if request.get("error"):
            detail += f", {request['error']}"
        is_refused = request["status"] >= 400
        start = parts.add(
            at_ms, "application", "square" if is_refused else "ring", _request_title(request), detail,
            tone="bad" if is_refused else "", order=0, link=f"requests/{request['entry_id']}",
        )  # fmt: skip
        end = parts.add(at_ms + length_ms, "application", "none", order=AFTER)
        parts.bars.append(Bar(start, end, "work", view.duration(length_ms)))


def _request_title(request: Document) -> str:
    path = str(request["path"]).partition("?")[0]
    verb = path.rpartition("/")[2]
    return f"{request['method']} {path}" if path == "/v1/orders" else f"{request['method']} …/{verb}"


def _add_events(parts: Parts) -> None:
    """Add the moves of the order, in their order, also where a node's clock went back."""
    at_ms = parts.start_ms
    for event in parts.order["events"]:
        move = event["move"]
        at_ms = max(at_ms, parts.instant(event["created_date"]))
        title, detail = MOVES.get(move, (move, ""))
        if move == "decline":
            detail = event["payment_status_detail"]
        change = _change_of(parts.order, move, event["created_date"])
        if change:
            detail = f"by {change.get('operator', 'an operator')}: {change.get('reason', '')}".rstrip(": ")
        tone = _tone(event, move)
        order = 1 if move == "create" else 3 if move == "acknowledge" else 8
        lane: Lane = "terminal" if move == "acknowledge" else "paydesk"
        step = parts.add(at_ms, lane, "diamond", title, detail, tone=tone, order=order)
        parts.events.append((event, step))


def _tone(event: Document, move: str) -> Tone:
    if move in ("create", "acknowledge"):
        return ""
    look = order_look(event["status"], event["status_detail"], event["payment_status_detail"])
    tones: dict[str, Tone] = {"ok": "ok", "bad": "bad", "look": "look", "off": "off", "back": "back"}
    return "bad" if move == "refund_failed" else tones.get(look.colour, "")


def _change_of(order: Document, move: str, date: str) -> Document:
    """Return the change by an operator that made the move; empty if none did."""
    changes: Sequence[Document] = order.get("changes", ())
    return next((one for one in changes if one["date"] == date and move in _CHANGES.get(one["action"], ())), {})


def _add_permit(parts: Parts) -> Step | None:
    date = parts.order["times"].get("permitted_date")
    if date is None:
        return None
    at_ms = parts.instant(date)
    link = parts.device_link(at_ms, "/progress") or parts.device_link(at_ms, "/authorize")
    detail = "cancel requests have no effect any more"
    step = parts.add(at_ms, "paydesk", "diamond", "Authorization permitted", detail, order=5, link=link)
    parts.permit = step
    return step


def _bands(parts: Parts) -> list[Band]:
    """Return the statuses, each until the next one; consecutive equal ones are one band."""
    found: list[tuple[str, Tone, Step]] = []
    for event, step in parts.events:
        detail = event["payment_status_detail"]
        name = detail if detail in ("check_on_terminal", "expired", "partially_refunded") else event["status"]
        look = order_look(event["status"], event["status_detail"], detail)
        tone: Tone = look.colour if look.colour in ("ok", "bad", "look", "off", "back", "wait") else ""  # type: ignore[assignment]
        if not found or found[-1][0] != name:
            found.append((name, tone, step))
    ends = [step for _, _, step in found[1:]]
    return [Band(name, tone, step, end) for (name, tone, step), end in zip(found, [*ends, None], strict=True)]


def _slot(parts: Parts) -> tuple[Step, Step] | None:
    """Return from when until when the order held its terminal."""
    if not parts.events:
        return None
    first, ended = parts.events[0][1], parts.ended_step
    if ended is None and parts.is_live:
        ended = parts.now_step("terminal")
    return (first, ended or latest(step for _, step in parts.events))
