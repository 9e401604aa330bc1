"""The terminal's lane: the offer, the steps that the terminal reported, and results that changed nothing."""

from __future__ import annotations

from paydesk.console import view
from paydesk.console.reasons import Document, payment_of
from paydesk.console.timeline import GAP_SHOWN_MS, Bar, Kind, Step, rounded
from paydesk.console.timeline_parts import Parts

ENTRIES = {
    "chip": "Card inserted",
    "contactless": "Card tapped",
    "magstripe": "Card swiped",
    "magnetic_stripe": "Card swiped",
    "swipe": "Card swiped",
    "qr": "Code read",
}
"""How a card was read, by its entry mode."""
STEPS = {
    "card_requested": "Card asked for",
    "card_presented": "Card presented",
    "pin_requested": "PIN asked for",
    "pin_entered": "PIN entered",
    "card_removal": "Card removal asked for",
    "printing": "Receipt printed",
}
"""Each step that a terminal reports, but for `authorizing`, which is shown as the permit."""
WAITS = {
    "card_requested": ("card_presented", "a card"),
    "pin_requested": ("pin_entered", "the PIN"),
}
"""The steps that wait for the buyer: the step that ends the wait, and what the terminal waits for."""
VERDICTS = {
    "conflict": "it contradicts the order",
    "finished": "the order had ended",
    "late_approval": "it came after the order had ended and is reversed",
    "unreadable": "it could not be read",
}
"""Each verdict of a result that did not change the order."""


def card_of(order: Document) -> Document:
    """Return the card that paid, or that a terminal reported; empty if there was none."""
    found = payment_of(order).get("card") or order.get("authorization", {}).get("card")
    reported: Document = next((one["card"] for one in order.get("results", ()) if "card" in one), {})
    card: Document = found or reported
    return card


def add_terminal(parts: Parts) -> None:
    """Add the steps of the terminal."""
    _add_offer(parts)
    _add_steps(parts)
    for result in parts.order["results"]:
        if result["verdict"] == "taken" and result["outcome"] != "canceled":
            continue
        at_ms = parts.instant(result["date"])
        if result["verdict"] == "finished" and "authorization" in parts.order:
            # The terminal repeats what the acquirer answered to the service.
            link = parts.device_link(at_ms, "/results/")
            parts.add(at_ms, "terminal", "ring", "Result reported", result["outcome"], order=9, link=link)
            continue
        is_taken = result["verdict"] == "taken"
        title = "Canceled at the terminal" if is_taken else f"Reported {result['outcome']}"
        detail = "by the buyer or the cashier" if is_taken else VERDICTS.get(result["verdict"], "")
        kind: Kind = "ring" if is_taken else "square"
        parts.add(at_ms, "terminal", kind, title, detail, order=7, link=parts.device_link(at_ms, "/results/"))


def _add_offer(parts: Parts) -> None:
    """Add the offer, and how long the order waited for its terminal."""
    times, created = parts.order["times"], parts.events[0][1] if parts.events else None
    date = times.get("offered_date")
    offer = None
    if date is not None:
        at_ms = parts.instant(date)
        offer = parts.add(
            at_ms, "terminal", "ring", "Offered", f"after {view.duration(at_ms - parts.start_ms)}", order=2
        )
    taken, start = parts.event("acknowledge"), offer or created
    if taken is not None:
        taken.link = parts.device_link(taken.at_ms, "/ack")
    if start is None:
        return
    end = taken or parts.ended_step
    if end is None and parts.is_live:
        mark, now = _in_terminal(parts, start), parts.now_step("terminal")
        text = f"{rounded(now.at_ms - start.at_ms)} for the terminal"
        parts.bars.append(Bar(mark, now, "open", text, f"waits {text} and counting", is_offer=True))
    elif end is not None and end.at_ms - start.at_ms >= GAP_SHOWN_MS:
        mark, last = _in_terminal(parts, start), _in_terminal(parts, end)
        text = f"{rounded(end.at_ms - start.at_ms)} for the terminal"
        parts.bars.append(Bar(mark, last, "retry", text, f"waits {text}", is_offer=True))


def _in_terminal(parts: Parts, step: Step) -> Step:
    """Return the step, or a mark at its time if it is in another lane."""
    return step if step.lane == "terminal" else parts.add(step.at_ms, "terminal", "none", order=step.order)


def _add_steps(parts: Parts) -> None:
    card, at_ms = card_of(parts.order), parts.start_ms
    made: list[tuple[str, Step]] = []
    for one in parts.order["steps"]:
        at_ms = max(at_ms, parts.instant(one["date"]))
        if one["step"] not in STEPS:
            continue
        title, detail = STEPS[one["step"]], ""
        if one["step"] == "card_presented" and card:
            entry = str(card.get("entry_mode", ""))
            title = ENTRIES.get(entry, title)
            detail = f"•••• {card['last_digits']}{f', {entry}' if entry else ''}"
        link = parts.device_link(at_ms, "/progress")
        # After the outcome the terminal asks for the card's removal, and prints.
        order = 9 if one["step"] in ("card_removal", "printing") else 4
        made.append((one["step"], parts.add(at_ms, "terminal", "ring", title, detail, order=order, link=link)))
    for place, (name, step) in enumerate(made):
        if name in WAITS:
            _add_wait(parts, name, step, made[place + 1] if place + 1 < len(made) else None)


def _add_wait(parts: Parts, name: str, step: Step, following: tuple[str, Step] | None) -> None:
    """Add how long the buyer took, or takes."""
    _, what = WAITS[name]
    end = following[1] if following is not None else _first_after(parts, step)
    if end is None:
        now = parts.now_step("terminal")
        text = f"{rounded(now.at_ms - step.at_ms)} for {what}"
        parts.bars.append(Bar(step, now, "open", text, f"waits {text} and counting"))
        return
    text = f"{rounded(end.at_ms - step.at_ms)} for {what}"
    mark = end if end.lane == "terminal" else parts.add(end.at_ms, "terminal", "none", order=end.order)
    # Within half a second no person acts: a script did.
    parts.bars.append(Bar(step, mark, "person", text, f"waits {text}" if mark.at_ms - step.at_ms >= 500 else ""))


def _first_after(parts: Parts, step: Step) -> Step | None:
    """Return what ended the wait of a last step: the permit, or the end of the order; None while it goes on."""
    ends = [one for one in (parts.permit, parts.ended_step, parts.event("check")) if one is not None]
    later = [one for one in ends if one.at_ms >= step.at_ms]
    return min(later, key=lambda one: one.at_ms) if later else None
