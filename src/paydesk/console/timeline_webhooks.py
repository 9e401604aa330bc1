"""The lane of webhooks: each notification of the order, with its attempts until it was delivered or given up."""

from __future__ import annotations

from urllib.parse import urlsplit

from paydesk.console import view
from paydesk.console.reasons import Document
from paydesk.console.timeline import Bar, Step, rounded
from paydesk.console.timeline_parts import Parts

ATTEMPTS_SHOWN_MAX = 3
"""If there are more attempts, only the first and the last are shown, with one bar for those between."""


def add_webhooks(parts: Parts) -> None:
    """Add the deliveries of the order's notifications."""
    for delivery in parts.order["deliveries"]:
        _add_delivery(parts, delivery)


def answer_of(attempt: Document) -> str:
    """Return the result of an attempt: "Answered 200", or why there was no answer."""
    return f"Answered {attempt['status']}" if "status" in attempt else str(attempt.get("error", "No answer"))


def was_delivered(attempt: Document) -> bool:
    """Return whether the receiver accepted the notification."""
    status: int = attempt.get("status", 0)
    return 200 <= status < 300


def _add_delivery(parts: Parts, delivery: Document) -> None:
    attempts, host = delivery["history"], urlsplit(str(delivery["url"])).hostname or ""
    link = f"webhooks/deliveries/{delivery['id']}"
    if len(attempts) == 1 and was_delivered(attempts[0]):
        _add_delivered(parts, delivery, host, link)
        return
    shown = attempts if len(attempts) <= ATTEMPTS_SHOWN_MAX else [attempts[0], attempts[-1]]
    before: Step | None = None
    for attempt in shown:
        title = f"{delivery['action']} sent" if before is None else "Sent again"
        detail = f"to {host}" if before is None else f"attempt {attempt['number']}"
        if attempt.get("resend"):
            detail += ", by an operator"
        at_ms = parts.instant(attempt["date"])
        start = parts.add(at_ms, "webhooks", "ring", title, detail, order=9, link=link)
        if before is not None:
            start.at_ms = max(start.at_ms, before.at_ms)
            length, hidden = rounded(start.at_ms - before.at_ms), len(attempts) - len(shown)
            text = f"{hidden} more attempts in {length}" if hidden else f"{length} until attempt {attempt['number']}"
            parts.bars.append(Bar(before, start, "retry", text, text if hidden else f"waits {text}"))
        before = _add_answer(parts, attempt, start, link)
    _add_rest(parts, delivery, before, link)


def _add_delivered(parts: Parts, delivery: Document, host: str, link: str) -> None:
    """Add a notification that was delivered at its first attempt, as one step."""
    (attempt,) = delivery["history"]
    at_ms = parts.instant(attempt["date"])
    start = parts.add(at_ms, "webhooks", "none", order=9)
    detail = f"to {host}, {attempt['status']} in {view.duration(attempt['duration_ms'])}"
    end = parts.add(
        at_ms + attempt["duration_ms"], "webhooks", "disc", f"{delivery['action']} delivered", detail,
        tone="ok", order=10, link=link,
    )  # fmt: skip
    parts.bars.append(Bar(start, end, "work"))


def _add_answer(parts: Parts, attempt: Document, start: Step, link: str) -> Step:
    took = view.duration(attempt["duration_ms"])
    detail = f"in {took}, attempt {attempt['number']}"
    is_delivered = was_delivered(attempt)
    end = parts.add(
        start.at_ms + attempt["duration_ms"], "webhooks", "disc" if is_delivered else "square", answer_of(attempt),
        detail, tone="ok" if is_delivered else "bad", order=10, link=link,
    )  # fmt: skip
    parts.bars.append(Bar(start, end, "work", took))
    return end


def _add_rest(parts: Parts, delivery: Document, last: Step | None, link: str) -> None:
    """Add what follows the last attempt: the wait for the next one, or that there is none."""
    if last is None:
        return
    if delivery["status"] == "exhausted" and "ended_date" in delivery:
        at_ms = max(parts.instant(delivery["ended_date"]), last.at_ms)
        detail = f"after {len(delivery['history'])} attempts"
        parts.add(at_ms, "webhooks", "square", "Given up", detail, tone="bad", order=11, link=link)
    if delivery["status"] == "pending" and "next_date" in delivery:
        now = parts.now_step("webhooks")
        left = parts.instant(delivery["next_date"]) - now.at_ms
        text = f"next attempt in {rounded(left)}" if left > 0 else "next attempt is due"
        parts.bars.append(Bar(last, now, "retry", text, text))
