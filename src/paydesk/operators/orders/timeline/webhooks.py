"""The lane of webhooks: each notification of the order, with its attempts until it was delivered or given up."""

from __future__ import annotations

from urllib.parse import urlsplit

from paydesk.console import view
from paydesk.operators.orders.reasons import Document
from paydesk.operators.orders.timeline.timeline import Bar, Step, Timeline, rounded

ATTEMPTS_SHOWN_MAX = 3
"""If there are more attempts, only the first and the last are shown, with one bar for those between."""


def add_deliveries(timeline: Timeline) -> None:
    """Add the deliveries of the order's notifications: one step, if the first attempt succeeded, or all attempts."""
    for delivery in timeline.order["deliveries"]:
        attempts, host = delivery["history"], urlsplit(str(delivery["url"])).hostname or ""
        link = f"webhooks/deliveries/{delivery['id']}"
        if not attempts:
            continue
        if len(attempts) == 1 and _was_delivered(attempts[0]):
            at_ms, duration_ms = timeline.instant(attempts[0]["date"]), attempts[0]["duration_ms"]
            start = timeline.add(at_ms, "webhooks", "none", order=9)
            title = f"{delivery['action']} delivered"
            detail = f"to {host}, {attempts[0]['status']} in {view.duration(duration_ms)}"
            end = timeline.add(at_ms + duration_ms, "webhooks", "disc", title, detail, order=10, link=link)
            timeline.bars.append(Bar(start, end, "work"))
            continue
        last = _add_attempts(timeline, delivery, host, link)
        if delivery["status"] == "exhausted" and "ended_date" in delivery:
            at_ms = max(timeline.instant(delivery["ended_date"]), last.at_ms)
            timeline.add(
                at_ms, "webhooks", "square", "Given up", f"after {len(attempts)} attempts", order=11, link=link
            )
        if delivery["status"] == "pending" and "next_date" in delivery:
            now = timeline.now_step("webhooks")
            left = timeline.instant(delivery["next_date"]) - now.at_ms
            text = f"next attempt in {rounded(left)}" if left > 0 else "next attempt is due"
            timeline.bars.append(Bar(last, now, "retry", text, text))


def _was_delivered(attempt: Document) -> bool:
    return 200 <= int(attempt.get("status", 0)) < 300


def _add_attempts(timeline: Timeline, delivery: Document, host: str, link: str) -> Step:
    """Add the attempts, with the waits between them; return the answer to the last one."""
    attempts = delivery["history"]
    shown = attempts if len(attempts) <= ATTEMPTS_SHOWN_MAX else [attempts[0], attempts[-1]]
    hidden = len(attempts) - len(shown)
    title, detail = f"{delivery['action']} sent", f"to {host}"
    last: Step | None = None
    for attempt in shown:
        number, took = f"attempt {attempt['number']}", view.duration(attempt["duration_ms"])
        if last is not None:
            title, detail = "Sent again", number
        if attempt.get("resend"):
            detail += ", by an operator"
        at_ms = timeline.instant(attempt["date"])
        start = timeline.add(at_ms, "webhooks", "ring", title, detail, order=9, link=link)
        if last is not None:
            start.at_ms = max(start.at_ms, last.at_ms)
            length = rounded(start.at_ms - last.at_ms)
            text = f"{hidden} more attempts in {length}" if hidden else f"{length} until {number}"
            timeline.bars.append(Bar(last, start, "retry", text, text if hidden else f"waits {text}"))
        last = timeline.add(
            start.at_ms + attempt["duration_ms"], "webhooks", "disc" if _was_delivered(attempt) else "square",
            f"Answered {attempt['status']}" if "status" in attempt else str(attempt.get("error", "No answer")),
            f"in {took}, {number}", order=10, link=link,
        )  # fmt: skip
        timeline.bars.append(Bar(start, last, "work", took))
    assert last is not None, "only a delivery with attempts has a last one"
    return last
