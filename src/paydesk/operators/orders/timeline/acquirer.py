"""The acquirer's lane: the authorization, its confirmation, the inquiry about an unknown outcome, and repayments."""

from __future__ import annotations

from paydesk.core.money import spelled
from paydesk.operators.orders.reasons import Document, is_undone, payment_of, why_undone
from paydesk.operators.orders.timeline.timeline import (
    AFTER,
    GAP_SHOWN_MS,
    Bar,
    Fill,
    Kind,
    Step,
    Timeline,
    by_operator,
    rounded,
)

ATTEMPTS_MIN = 2
"""The number of attempts from which on the text of a bar has it."""
_Outcome = tuple[Kind, str, str]
INQUIRY_OUTCOMES: dict[str, _Outcome] = {
    "approved": ("disc", "Approved", ""),
    "declined": ("square", "Declined", ""),
    "not_found": ("square", "No such payment", "it cannot be charged later"),
    "result": ("ring", "Inquiry ended", "the terminal reported the outcome"),
    "operator": ("ring", "Inquiry ended", "an operator set the outcome"),
    "simulated": ("ring", "Inquiry ended", "the outcome was simulated"),
}
"""The ends of an inquiry; without `forgone`, which never began."""
RESULTS: dict[str, _Outcome] = {
    "approved": ("disc", "Approved", ""),
    "declined": ("square", "Declined", ""),
    "canceled": ("ring", "Not charged", "canceled at the terminal"),
}
"""The outcomes that a terminal reports if it knows them."""
NO_ANSWER = "No answer"
CONFIRMATION_ENDS: dict[str, _Outcome] = {
    "confirmed": ("disc", "Payment confirmed", ""),
    "refused": ("square", "Confirmation refused", "the payment is not paid out"),
}
REFUND_ENDS: dict[str, _Outcome] = {
    "processed": ("disc", "Refund approved", ""),
    "failed": ("square", "Refund declined", ""),
}
REVERSAL_ENDS: dict[str, _Outcome] = {
    "reversed": ("disc", "Reversed", "nothing remains charged"),
    "not_found": ("ring", "Never charged", "the acquirer has no such approval"),
}


def add_authorization(timeline: Timeline) -> None:
    """Add the time from the request at the acquirer to its outcome, for both kinds of terminals."""
    own: Document = timeline.order.get("authorization", {})
    if own:
        began_ms, by = timeline.instant(own["date"]), "by Paydesk"
    elif timeline.permit is not None:
        began_ms, by = timeline.permit.at_ms, "by the terminal"
    else:
        return
    start = timeline.add(began_ms, "acquirer", "ring", "Authorization sent", by, order=6)
    if "repeated_date" in own:
        again_ms = timeline.instant(own["repeated_date"])
        timeline.add(again_ms, "acquirer", "ring", "Authorization sent again", by, order=6)
    end, is_known = _outcome(timeline, start)
    if end is None:
        _add_open(timeline, start, "")
        return
    text = rounded(end.at_ms - start.at_ms) + ("" if is_known else ", no answer")
    timeline.bars.append(Bar(start, end, "work", text, _takes(start, end, text), is_unanswered=not is_known))


def _outcome(timeline: Timeline, start: Step) -> tuple[Step | None, bool]:
    """Return the step of the outcome, None while there is none; and whether the acquirer's answer is known."""
    checked, ended = timeline.event("check"), timeline.event("approve", "decline")
    confirmation: Document = timeline.order.get("confirmation", {})
    if confirmation:
        at_ms, detail = timeline.instant(confirmation["approved_date"]), "until the terminal's result"
        if checked is None or at_ms <= checked.at_ms:
            return timeline.add(at_ms, "acquirer", "ring", "Approved, provisionally", detail, order=7), True
    code = str(payment_of(timeline.order).get("authorization_code", ""))
    result = next((one for one in timeline.order["results"] if one["verdict"] == "taken"), None)
    if result is not None and timeline.order.get("authorization") is None:
        at_ms = timeline.instant(result["date"])
        if checked is None or at_ms <= checked.at_ms:
            at_ms, outcome = max(at_ms, start.at_ms), result["outcome"]
            kind, title, detail = RESULTS.get(outcome, ("square", NO_ANSWER, "the terminal knows no outcome"))
            detail = {"approved": code, "declined": result.get("status_detail", "")}.get(outcome, detail)
            link = timeline.device_link(at_ms, "/results/")
            return timeline.add(at_ms, "acquirer", kind, title, detail, order=7, link=link), outcome in RESULTS
    if checked is not None:
        return timeline.add(checked.at_ms, "acquirer", "square", NO_ANSWER, "the outcome is unknown", order=7), False
    if ended is None:
        return None, False
    if ended.tone == "ok":
        return timeline.add(ended.at_ms, "acquirer", "disc", "Approved", code, order=7), True
    return timeline.add(ended.at_ms, "acquirer", "square", "Declined", ended.detail, order=7), True


def add_confirmation(timeline: Timeline) -> None:
    """Add the confirmation of a provisional approval, or that it was undone."""
    confirmation: Document = timeline.order.get("confirmation", {})
    approved = timeline.event("approve")
    if approved is not None and confirmation.get("status") in ("confirming", *CONFIRMATION_ENDS):
        deadline, detail = confirmation.get("deadline_date"), ""
        if deadline is not None:
            detail = f"the acquirer takes it within {rounded(timeline.instant(deadline) - approved.at_ms)}"
        start = timeline.add(approved.at_ms, "acquirer", "ring", "Confirmation sent", detail, order=9)
        _add_end(timeline, start, confirmation, CONFIRMATION_ENDS.get(confirmation["status"]))
    elif confirmation.get("status") == "undone":
        decided, at_ms = timeline.event("check", "decline"), timeline.instant(confirmation["approved_date"])
        if decided is not None:
            at_ms = max(at_ms, decided.at_ms)
        timeline.add(at_ms, "paydesk", "ring", "Approval undone", why_undone(timeline.order), order=7)


def add_inquiry(timeline: Timeline) -> None:
    """Add the inquiry about an unknown outcome, unless it was skipped."""
    inquiry: Document = timeline.order.get("inquiry", {})
    if inquiry and inquiry.get("outcome") != "forgone":
        at_ms = timeline.instant(inquiry["created_date"])
        is_known = (
            is_undone(timeline.order) and timeline.order["confirmation"]["approved_date"] <= inquiry["created_date"]
        )
        title = "Reversal begins" if is_known else "Inquiry"
        start = timeline.add(at_ms, "acquirer", "ring", title, str(inquiry["reason"]), order=9)
        if "reversing_date" in inquiry and not is_known:
            at_ms = timeline.instant(inquiry["reversing_date"])
            detail = "so that it cannot be charged later"
            timeline.add(at_ms, "acquirer", "ring", "Payment is reversed", detail, order=9)
        end = INQUIRY_OUTCOMES.get(str(inquiry.get("outcome")))
        if is_undone(timeline.order) and inquiry.get("outcome") == "not_found":
            end = REVERSAL_ENDS["reversed"]
        _add_end(timeline, start, inquiry, end)


def add_reversals(timeline: Timeline) -> None:
    """Add the reversals of late approvals."""
    for one in timeline.order["reversals"]:
        at_ms, amount = timeline.instant(one["created_date"]), spelled(one["amount"], timeline.order["currency"])
        detail = f"{amount} was approved{'' if is_undone(timeline.order) else ' too late'}"
        start = timeline.add(at_ms, "acquirer", "ring", "Reversal begins", detail, order=9)
        if "refunding_date" in one:
            at_ms, detail = timeline.instant(one["refunding_date"]), "the acquirer no longer reverses it"
            timeline.add(at_ms, "acquirer", "ring", "Reversal becomes a refund", detail, order=9)
        _add_end(timeline, start, one, REVERSAL_ENDS.get(one["status"]))


def add_refunds(timeline: Timeline) -> None:
    """Add each refund, with the operator who requested it."""
    by_refund = {one.get("refund_id"): one for one in timeline.order["changes"]}
    for one in timeline.order["order_refunds"]:
        change, detail = by_refund.get(one["id"]), spelled(one["amount"], timeline.order["currency"])
        if change is not None:
            detail += f" {by_operator(change)}"
        title = "Refund requested" if one.get("waits_for") == "confirmation" else "Refund sent"
        start = timeline.add(timeline.instant(one["created_date"]), "acquirer", "ring", title, detail, order=6)
        _add_end(timeline, start, one, REFUND_ENDS.get(one["status"]))


def add_faults(timeline: Timeline) -> None:
    """Add what faults of the development kit did to requests to the acquirer."""
    for one in timeline.order.get("faults", ()):
        at_ms, title = timeline.instant(one["date"]), f"Fault {one['kind']}"
        timeline.add(at_ms, "acquirer", "square", title, f"{one['request']}: {one['effect']}", order=AFTER)


def _add_end(timeline: Timeline, start: Step, work: Document, outcome: _Outcome | None) -> None:
    """Add the end of work at the acquirer, or how long it has taken so far."""
    attempts = f"{work['attempts']} attempts" if work.get("attempts", 0) >= ATTEMPTS_MIN else ""
    if outcome is None or "ended_date" not in work:
        _add_open(timeline, start, attempts)
        return
    for one in timeline.order["changes"]:
        if one["subject"] == work.get("id"):
            outcome = outcome[0], f"Outcome set: {str(one['outcome']).replace('_', ' ')}", by_operator(one)
    at_ms = max(timeline.instant(work["ended_date"]), start.at_ms)
    end = timeline.add(at_ms, "acquirer", *outcome, order=7 if at_ms > start.at_ms else 10)
    length = rounded(at_ms - start.at_ms)
    fill: Fill = "retry" if attempts else "work"
    text = f"{attempts} in {length}" if attempts else length
    timeline.bars.append(Bar(start, end, fill, text, text if attempts else _takes(start, end, length)))


def _add_open(timeline: Timeline, start: Step, attempts: str) -> None:
    now = timeline.now_step("acquirer")
    text = f"{rounded(now.at_ms - start.at_ms)} and counting"
    timeline.bars.append(Bar(start, now, "open", text, f"{attempts}, {text}" if attempts else text))


def _takes(start: Step, end: Step, text: str) -> str:
    """Return the line of the list for work that a person would notice."""
    return f"takes {text}" if end.at_ms - start.at_ms >= GAP_SHOWN_MS else ""
