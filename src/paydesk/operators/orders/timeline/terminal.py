"""The terminal's lane: the offer, the steps that the terminal reported, and results that changed nothing."""

from __future__ import annotations

from paydesk.console import view
from paydesk.operators.orders.reasons import Document, payment_of
from paydesk.operators.orders.timeline.timeline import GAP_SHOWN_MS, Bar, Fill, Step, Timeline, rounded

ENTRIES = {
    "chip": "Card inserted",
    "contactless": "Card tapped",
    "magstripe": "Card swiped",
    "magnetic_stripe": "Card swiped",
    "swipe": "Card swiped",
    "qr": "Code read",
}
"""The title of a card that was read, by its entry mode."""
STEPS = {
    "card_requested": "Card asked for",
    "card_presented": "Card presented",
    "pin_requested": "PIN asked for",
    "pin_entered": "PIN entered",
    "card_removal": "Card removal asked for",
    "printing": "Receipt printed",
}
"""The titles of the steps that a terminal reports, but for `authorizing`, which is shown as the permit."""
WAITS = {"card_requested": "a card", "pin_requested": "the PIN"}
"""The steps that wait for the buyer, and what the terminal waits for."""
VERDICTS = {
    "conflict": "it contradicts the order",
    "finished": "the order had ended",
    "late_approval": "it came after the order had ended and is reversed",
    "unreadable": "it could not be read",
}
"""The words of each verdict of a result that did not change the order."""


def card_of(order: Document) -> Document:
    """Return the card that paid, or that a terminal reported; empty if there was none."""
    reported: Document = next((one["card"] for one in order.get("results", ()) if "card" in one), {})
    return payment_of(order).get("card") or order.get("authorization", {}).get("card") or reported


def add_offer(timeline: Timeline) -> None:
    """Add the offer, and how long the order waited for its terminal."""
    start = timeline.events[0][1] if timeline.events else None
    date = timeline.order["times"].get("offered_date")
    if date is not None:
        at_ms = timeline.instant(date)
        detail = f"after {view.duration(at_ms - timeline.start_ms)}"
        start = timeline.add(at_ms, "terminal", "ring", "Offered", detail, order=2)
    taken = timeline.event("acknowledge")
    if taken is not None:
        taken.link = timeline.device_link(taken.at_ms, "/ack")
    if start is None:
        return
    end = taken or timeline.ended_step
    if timeline.is_live if end is None else end.at_ms - start.at_ms >= GAP_SHOWN_MS:
        _add_wait(timeline, _in_terminal(timeline, start), end, "the terminal", "retry", is_offer=True)


def add_steps(timeline: Timeline) -> None:
    """Add the steps that the terminal reported, and how long the buyer took, or takes."""
    card, at_ms = card_of(timeline.order), timeline.start_ms
    reported: list[tuple[str, Step]] = []
    for one in timeline.order["steps"]:
        at_ms = max(at_ms, timeline.instant(one["date"]))
        if one["step"] not in STEPS:
            continue
        title, detail = STEPS[one["step"]], ""
        if one["step"] == "card_presented" and card:
            entry = str(card.get("entry_mode", ""))
            title = ENTRIES.get(entry, title)
            detail = f"•••• {card['last_digits']}{f', {entry}' if entry else ''}"
        link = timeline.device_link(at_ms, "/progress")
        # After the outcome the terminal asks for the card's removal, and prints.
        order = 9 if one["step"] in ("card_removal", "printing") else 4
        reported.append((one["step"], timeline.add(at_ms, "terminal", "ring", title, detail, order=order, link=link)))
    # The wait of a last step ends with the permit, or with the order.
    ends = [one for one in (timeline.permit, timeline.ended_step, timeline.event("check")) if one is not None]
    for place, (name, step) in enumerate(reported):
        if name not in WAITS:
            continue
        following = [one for _, one in reported[place + 1 : place + 2]] or [
            one for one in ends if one.at_ms >= step.at_ms
        ]
        end = min(following, key=lambda one: one.at_ms, default=None)
        # Within half a second no person acts: a script did.
        _add_wait(timeline, step, end, WAITS[name], "person", shown_ms=500)


def add_results(timeline: Timeline) -> None:
    """Add the results that the terminal reported, but for those that the acquirer's lane has."""
    for result in timeline.order["results"]:
        verdict, outcome, at_ms = result["verdict"], result["outcome"], timeline.instant(result["date"])
        link = timeline.device_link(at_ms, "/results/")
        if verdict == "taken":
            if outcome == "canceled":
                detail = "by the buyer or the cashier"
                timeline.add(at_ms, "terminal", "ring", "Canceled at the terminal", detail, order=7, link=link)
            elif "confirmation" in timeline.order:
                timeline.add(at_ms, "terminal", "ring", "Result reported", outcome, order=7, link=link)
        elif verdict == "finished" and "authorization" in timeline.order:
            # The terminal repeats what the acquirer answered to the service.
            timeline.add(at_ms, "terminal", "ring", "Result reported", outcome, order=9, link=link)
        else:
            detail = VERDICTS.get(verdict, "")
            timeline.add(at_ms, "terminal", "square", f"Reported {outcome}", detail, order=7, link=link)


def add_decision(timeline: Timeline) -> None:
    """Add how long the acquirer's provisional approval waited, or waits, for the terminal's result."""
    confirmation: Document = timeline.order.get("confirmation", {})
    ended = timeline.event("check", "approve", "decline")
    if not confirmation:
        return
    approved_ms = timeline.instant(confirmation["approved_date"])
    if ended is not None and ended.at_ms < approved_ms:
        return
    start = timeline.add(approved_ms, "terminal", "none", order=8)
    _add_wait(timeline, start, ended, "the result", "retry", is_offer=True)


def _add_wait(
    timeline: Timeline,
    start: Step,
    end: Step | None,
    what: str,
    fill: Fill,
    *,
    shown_ms: int = GAP_SHOWN_MS,
    is_offer: bool = False,
) -> None:
    """Add a wait for `what`, until a step or now. The list has it if it takes at least `shown_ms`."""
    last = timeline.now_step("terminal") if end is None else _in_terminal(timeline, end)
    length_ms = last.at_ms - start.at_ms
    text = f"{rounded(length_ms)} for {what}"
    if end is None:
        timeline.bars.append(Bar(start, last, "open", text, f"waits {text} and counting", is_offer=is_offer))
    else:
        gap = f"waits {text}" if length_ms >= shown_ms else ""
        timeline.bars.append(Bar(start, last, fill, text, gap, is_offer=is_offer))


def _in_terminal(timeline: Timeline, step: Step) -> Step:
    """Return the step, or a mark at its time if it is in another lane."""
    return step if step.lane == "terminal" else timeline.add(step.at_ms, "terminal", "none", order=step.order)
