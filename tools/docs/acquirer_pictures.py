"""The picture of a sale with the third message: what the terminal, Paydesk and the acquirer say to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from paydesk.engine.payments.lifecycles import ConfirmationStatus
from tools.docs.svg import WIDTH, svg, text

_TERMINAL, _PAYDESK, _ACQUIRER = 40, WIDTH // 2, WIDTH - 40
_ROW, _BOX_WIDTH = 38, 250

_COLORS: dict[ConfirmationStatus, str] = {
    "provisional": "#a85a00",
    "confirming": "#1f5fbf",
    "confirmed": "#157a5a",
    "refused": "#b3362b",
    "undone": "#59636e",
}

Message = tuple[int, int, str, str]
"""The sender's and the receiver's lane, the message, and what it has."""
State = tuple[ConfirmationStatus, str]
"""The status of the confirmation, and what the order is."""

_SALE: tuple[Message | State, ...] = (
    (_TERMINAL, _PAYDESK, "authorize", "card, encrypted_data"),
    (_PAYDESK, _ACQUIRER, "authorize", "key PAY…"),
    (_ACQUIRER, _PAYDESK, "approved", "needs_confirmation"),
    ("provisional", "order: at_terminal"),
    (_PAYDESK, _TERMINAL, "approved", "result_required, until"),
    (_TERMINAL, _PAYDESK, "result: approved", "chip_data"),
    ("confirming", "order: processed"),
    (_PAYDESK, _TERMINAL, "200: release the goods", ""),
    (_PAYDESK, _ACQUIRER, "confirm", "key CNF…, until answered"),
    (_ACQUIRER, _PAYDESK, "approved", ""),
    ("confirmed", "order: processed"),
)
_OTHERWISE: tuple[tuple[str, tuple[Message | State, ...]], ...] = (
    (
        "Or the result is declined, canceled or unknown, or does not come in time",
        (
            ("undone", "order: ends as failed"),
            (_PAYDESK, _ACQUIRER, "reverse", "until answered"),
            (_ACQUIRER, _PAYDESK, "approved", ""),
        ),
    ),
    (
        "Or the acquirer does not confirm: declined, not found, too late",
        (("refused", "order: processed. A person looks"),),
    ),
)


def sale() -> str:
    """Return the picture."""
    lanes = ((_TERMINAL, "Terminal", "start"), (_PAYDESK, "Paydesk", "middle"), (_ACQUIRER, "Acquirer", "end"))
    ends = {"start": 0, "middle": _PAYDESK, "end": WIDTH}
    parts = [text(ends[anchor], 16, name, "title", anchor) for _, name, anchor in lanes]
    steps, y = list(_drawn(_SALE, 28)), 28 + len(_SALE) * _ROW
    for title, messages in _OTHERWISE:
        steps += [f'<line class="cut" x1="0" x2="{WIDTH}" y1="{y + 12}" y2="{y + 12}"/>']
        steps += [text(0, y + 34, title, "warning")]
        steps += _drawn(messages, y + 44)
        y += 44 + len(messages) * _ROW
    shown = {step[0] for steps_ in (_SALE, *(messages for _, messages in _OTHERWISE)) for step in steps_}
    assert set(get_args(ConfirmationStatus)) <= shown, "every status is in the picture"
    return svg([*parts, *steps], y + 8, alternative_text())


def alternative_text() -> str:
    """Return the picture in a sentence, for those who can't see it."""
    return (
        "A sale with the third message: the acquirer's approval is provisional until the terminal's result;"
        " approved is confirmed, everything else is reversed"
    )


def _drawn(steps: tuple[Message | State, ...], y: int) -> Iterator[str]:
    for step in steps:
        yield from _state(*step, y) if len(step) == 2 else _arrow(*step, y)
        y += _ROW


def _state(status: ConfirmationStatus, order: str, y: int) -> Iterator[str]:
    left = _PAYDESK - _BOX_WIDTH / 2
    yield f'<rect x="{left:g}" y="{y + 3}" width="{_BOX_WIDTH}" height="32" rx="4" fill="{_COLORS[status]}"/>'
    yield text(_PAYDESK, y + 17, status, "verdict", "middle")
    yield text(_PAYDESK, y + 30, order, "effect", "middle")


def _arrow(sender: int, receiver: int, message: str, content: str, y: int) -> Iterator[str]:
    way = 1 if receiver > sender else -1
    start, end, at = sender + 8 * way, receiver - 8 * way, y + 30
    yield f'<line class="line" x1="{start}" x2="{end - 6 * way}" y1="{at}" y2="{at}"/>'
    yield f'<polygon class="small" points="{end},{at} {end - 9 * way},{at - 5} {end - 9 * way},{at + 5}"/>'
    yield text(min(start, end) + 4, at - 8, message, "")
    yield text(max(start, end) - 4, at - 8, content, "code", "end")
