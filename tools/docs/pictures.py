"""The pictures of "Build a terminal": a payment with its journal, and the table of verdicts after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from paydesk.engine.device.rules.verdicts import TABLE, Effect, OrderState, Progress, Verdict
from tools.docs.svg import WIDTH, svg, text

_COLORS: dict[Verdict, str] = {
    "resume": "#157a5a",
    "forget": "#59636e",
    "abort": "#a85a00",
    "report": "#1f5fbf",
    "hold": "#b3362b",
}

_PROGRESS: dict[Progress, tuple[str, str]] = {
    "offered": ("offered", ""),
    "acknowledged": ("acknowledged", "or a later step"),
    "unsent": ("authorizing", "sent: false"),
    "authorizing": ("authorizing", "sent: true"),
}
_STATES: dict[OrderState, tuple[str, str]] = {
    "created": ("created", "is offered again"),
    "open": ("at_terminal", "in time"),
    "canceling": ("at_terminal", "cancel requested"),
    "overdue": ("at_terminal", "expired"),
    "permitted": ("permit granted", "in time"),
    "lapsed": ("permit granted", "expired or canceling"),
    "unknown": ("check_on_terminal", "inquiry"),
    "ended": ("ended", "or another's order"),
}
_EFFECTS: dict[Effect, str] = {
    "none": "",
    "re_lease": "goes on",
    "cancel": "canceled",
    "inquire": "inquiry",
    "fail": "failed",
}

_STEPS: tuple[tuple[str, str, str, Verdict, str], ...] = (
    ("The offer arrives", "last_step: offered", "POST …/ack", "resume", "or forget, and offered again"),
    ("The order is acknowledged", "last_step: acknowledged", "card, PIN", "resume", "abort if it was canceled"),
    ("The card was presented", "authorizing, sent: false", "POST …/progress", "resume", "abort if it was canceled"),
    ("go: true arrives", "", "", "resume", "within the permit, else abort"),
    ("The permit is in time", "sent: true", "call the acquirer", "hold", "the acquirer has the outcome"),
    ("The acquirer has answered", "result, result_id", "PUT …/results", "report", "until it is recorded"),
    ("The result is recorded", "entry deleted", "", "forget", "the order has ended"),
)
"""What happens; what is written to the journal then; the call that follows; the verdict after a restart there; why."""

_LINES = {3: "Point of no return: a cancel cannot win any more", 4: "From here on the card may be charged"}
"""What begins before a step."""

_MEANINGS: Sequence[str] = (
    "resume: nothing was charged, and the order goes on.",
    "forget, abort: the terminal has nothing to do for this order.",
    "report: the result ends the order.",
    "hold: the card may be charged. The terminal never charges it again.",
    "inquiry: Paydesk asks the acquirer. The order keeps the terminal until it answers; if it finds",
    "no payment, until 2 minutes after the permit. All other aborted orders end at once.",
    "Once the permit is granted, every step with sent: false is in the third column. An entry",
    "without the field counts as sent.",
)


def payment() -> str:
    """Return the picture of a payment: its steps, what the journal has, the verdict after a power cut at each."""
    parts, y = [text(0, 16, "On the terminal", "title"), text(368, 16, "After a power cut here", "title")], 36
    for number, step in enumerate(_STEPS):
        if number in _LINES:
            parts += [f'<line class="cut" x1="0" x2="{WIDTH}" y1="{y + 4}" y2="{y + 4}"/>']
            parts += [text(24, y + 24, _LINES[number], "warning")]
            y += 38
        parts += _step(step, y, is_last=number == len(_STEPS) - 1)
        y += 66
    return svg(parts, y - 4, "A payment on the terminal, with its journal and what follows after a power cut")


def _step(step: tuple[str, str, str, Verdict, str], y: int, *, is_last: bool) -> Iterator[str]:
    happens, journal, call, verdict, reason = step
    if not is_last:
        yield f'<line class="line" x1="7" x2="7" y1="{y + 8}" y2="{y + 66}"/>'
    yield f'<circle cx="7" cy="{y + 10}" r="6" fill="{_COLORS[verdict]}"/>'
    yield text(24, y + 14, happens, "title")
    if journal:
        yield text(24, y + 32, f"journal: {journal}", "code")
    if call:
        yield text(24, y + 49, f"then: {call}", "code")
    yield from _cell(368, y, 220, verdict, reason)


def verdicts() -> str:
    """Return the picture of the table of verdicts: columns are last steps, rows are states of the order."""
    columns = [*(_PROGRESS[progress] for progress in get_args(Progress)), ("any step", "with a result")]
    left, width, height = 128, 90, 44
    parts = [text(0, 16, "The order", "title"), text(left, 16, "Last step in the journal", "title")]
    for number, (step, further) in enumerate(columns):
        x = left + number * (width + 2)
        parts += [text(x, 38, step, "small"), text(x, 54, further, "small")]
    y = 64
    for state, (name, further) in _STATES.items():
        parts += [text(0, y + 18, name, ""), text(0, y + 34, further, "small")]
        cells = [TABLE[progress, state] for progress in get_args(Progress)]
        for number, (verdict, effect) in enumerate([*cells, ("report", "none")]):
            parts += _cell(left + number * (width + 2), y, width, verdict, _EFFECTS[effect])
        y += height + 2
    for number, meaning in enumerate(_MEANINGS):
        parts += [text(0, y + 22 + number * 18, meaning, "small")]
    assert set(_STATES) == set(get_args(OrderState)), "every state of the table has a row"
    return svg(parts, y + 22 + len(_MEANINGS) * 18, "The verdict by the last step in the journal and the order's state")


def _cell(x: int, y: int, width: int, verdict: Verdict, effect: str) -> Iterator[str]:
    yield f'<rect x="{x}" y="{y}" width="{width}" height="44" rx="4" fill="{_COLORS[verdict]}"/>'
    middle = x + width / 2
    yield text(middle, y + (18 if effect else 27), verdict, "verdict", "middle")
    if effect:
        yield text(middle, y + 35, effect, "effect", "middle")
