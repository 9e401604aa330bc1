"""The acquirer's lane: the authorization, the inquiry about an unknown outcome, refunds and reversals."""

from __future__ import annotations

from typing import Any

from paydesk.console.reasons import Document, payment_of
from paydesk.console.timeline import GAP_SHOWN_MS, Bar, Fill, Kind, Step, Tone, rounded
from paydesk.console.timeline_parts import Parts
from paydesk.core.money import spelled

ATTEMPTS_MIN = 2
"""From this number of attempts on, the text of a bar has the number."""
_Outcome = tuple[Kind, str, str]
INQUIRY_OUTCOMES: dict[str, _Outcome] = {
    "approved": ("disc", "Approved", ""),
    "declined": ("square", "Declined", ""),
    "not_found": ("square", "No such payment", "it cannot be charged later"),
    "result": ("ring", "Inquiry ended", "the terminal reported the outcome"),
    "operator": ("ring", "Inquiry ended", "an operator set the outcome"),
    "simulated": ("ring", "Inquiry ended", "the outcome was simulated"),
}
"""How an inquiry ends; without `forgone`, which never began."""
RESULTS: dict[str, _Outcome] = {
    "approved": ("disc", "Approved", ""),
    "declined": ("square", "Declined", ""),
    "canceled": ("ring", "Not charged", "canceled at the terminal"),
}
"""What a terminal reports if it knows the outcome."""
NO_ANSWER = "No answer"
REFUND_ENDS: dict[str, _Outcome] = {
    "processed": ("disc", "Refund approved", ""),
    "failed": ("square", "Refund declined", ""),
}
REVERSAL_ENDS: dict[str, _Outcome] = {
    "reversed": ("disc", "Reversed", "nothing remains charged"),
    "not_found": ("ring", "Never charged", "the acquirer has no such approval"),
}


def add_acquirer(parts: Parts) -> None:
    """Add the authorization, the inquiry and the reversals."""
    _add_authorization(parts)
    _add_inquiry(parts)
    for one in parts.order["reversals"]:
        start = parts.add(
            parts.instant(one["created_date"]), "acquirer", "ring", "Reversal begins",
            f"{spelled(one['amount'], parts.order['currency'])} was approved too late", order=9,
        )  # fmt: skip
        _add_end(parts, start, one, REVERSAL_ENDS.get(one["status"]))


def add_refunds(parts: Parts) -> None:
    """Add each refund, with the operator who requested it."""
    by_refund = {one.get("refund_id"): one for one in parts.order["changes"]}
    for one in parts.order["order_refunds"]:
        change, detail = by_refund.get(one["id"]), spelled(one["amount"], parts.order["currency"])
        if change is not None:
            detail += f" by {change.get('operator', 'an operator')}: {change.get('reason', '')}".rstrip(": ")
        start = parts.add(parts.instant(one["created_date"]), "acquirer", "ring", "Refund sent", detail, order=6)
        _add_end(parts, start, one, REFUND_ENDS.get(one["status"]))


def _add_authorization(parts: Parts) -> None:
    """Add the time from the request at the acquirer to its outcome, for both kinds of terminals."""
    own: Document = parts.order.get("authorization", {})
    if parts.permit is None and not own:
        return
    began_ms = parts.instant(own["date"]) if own else parts.permit.at_ms if parts.permit is not None else 0
    by = "by Paydesk" if own else "by the terminal"
    start = parts.add(began_ms, "acquirer", "ring", "Authorization sent", by, order=6)
    if "repeated_date" in own:
        parts.add(parts.instant(own["repeated_date"]), "acquirer", "ring", "Authorization sent again", by, order=6)
    end, is_known = _outcome(parts, start)
    if end is None:
        _open(parts, start, "")
        return
    text = rounded(end.at_ms - start.at_ms)
    if not is_known:
        text += ", no answer"
    parts.bars.append(Bar(start, end, "work", text, _takes(start, end, text), is_unanswered=not is_known))


def _outcome(parts: Parts, start: Step) -> tuple[Step | None, bool]:
    """Return the step of the outcome, None while there is none; and whether the acquirer's answer is known."""
    checked = parts.event("check")
    taken = next((one for one in parts.order["results"] if one["verdict"] == "taken"), None)
    ended = parts.event("approve", "decline")
    if parts.order.get("authorization") is None and taken is not None:
        at_ms = parts.instant(taken["date"])
        if checked is None or at_ms <= checked.at_ms:
            return _result(parts, taken, max(at_ms, start.at_ms)), taken["outcome"] in RESULTS
    if checked is not None:
        detail = "the outcome is unknown"
        return parts.add(checked.at_ms, "acquirer", "square", NO_ANSWER, detail, tone="bad", order=7), False
    if ended is None:
        return None, False
    kind: Kind = "disc" if ended.tone == "ok" else "square"
    title = "Approved" if kind == "disc" else "Declined"
    detail = _codes(parts.order) if kind == "disc" else ended.detail
    return parts.add(ended.at_ms, "acquirer", kind, title, detail, tone=_tone(kind), order=7), True


def _result(parts: Parts, result: Document, at_ms: int) -> Step:
    """Add the outcome that the terminal reported."""
    outcome, link = result["outcome"], parts.device_link(at_ms, "/results/")
    kind, title, detail = RESULTS.get(outcome, ("square", NO_ANSWER, "the terminal knows no outcome"))
    if outcome == "approved":
        detail = _codes(parts.order)
    elif outcome == "declined":
        detail = result.get("status_detail", "")
    return parts.add(at_ms, "acquirer", kind, title, detail, tone=_tone(kind), order=7, link=link)


def _codes(order: Document) -> str:
    """Return the authorization code of the payment."""
    return str(payment_of(order).get("authorization_code", ""))


def _add_inquiry(parts: Parts) -> None:
    inquiry: Document = parts.order.get("inquiry", {})
    if not inquiry or inquiry.get("outcome") == "forgone":
        return
    start = parts.add(
        parts.instant(inquiry["created_date"]), "acquirer", "ring", "Inquiry", str(inquiry["reason"]), order=9
    )
    if "reversing_date" in inquiry:
        at_ms = parts.instant(inquiry["reversing_date"])
        parts.add(at_ms, "acquirer", "ring", "Payment is reversed", "so that it cannot be charged later", order=9)
    _add_end(parts, start, inquiry, INQUIRY_OUTCOMES.get(str(inquiry.get("outcome"))))


def _add_end(parts: Parts, start: Step, work: Document, outcome: _Outcome | None) -> None:
    """Add the end of work at the acquirer, or how long it has taken so far."""
    if outcome is None or "ended_date" not in work:
        _open(parts, start, _attempts(work))
        return
    kind, title, detail = outcome
    at_ms = max(parts.instant(work["ended_date"]), start.at_ms)
    end = parts.add(at_ms, "acquirer", kind, title, detail, tone=_tone(kind), order=7 if at_ms > start.at_ms else 10)
    length, attempts = rounded(end.at_ms - start.at_ms), _attempts(work)
    fill: Fill = "retry" if attempts else "work"
    text = f"{attempts} in {length}" if attempts else length
    parts.bars.append(Bar(start, end, fill, text, text if attempts else _takes(start, end, length)))


def _open(parts: Parts, start: Step, attempts: str) -> None:
    now = parts.now_step("acquirer")
    text = f"{rounded(now.at_ms - start.at_ms)} and counting"
    parts.bars.append(Bar(start, now, "open", text, f"{attempts}, {text}" if attempts else text))


def _takes(start: Step, end: Step, text: str) -> str:
    """Return the line of the list for work that a person would notice."""
    return f"takes {text}" if end.at_ms - start.at_ms >= GAP_SHOWN_MS else ""


def _attempts(work: dict[str, Any] | Document) -> str:
    return f"{work['attempts']} attempts" if work.get("attempts", 0) >= ATTEMPTS_MIN else ""


def _tone(kind: Kind) -> Tone:
    return "ok" if kind == "disc" else "bad" if kind == "square" else ""
