"""Scripts: what a virtual terminal does with every order, as a short text such as `decline:card_disabled:0.2s`.

A script is a name, for `decline` a detail, and for those that end by themselves the seconds until they do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paydesk.orders.status import FAILED_DETAILS
from paydesk.sandbox.terminals import cards

SECONDS_DEFAULT, SECONDS_MAX = 1.5, 30.0
DETAIL_DEFAULT = "rejected_by_issuer"

DESCRIPTIONS = {
    "approve": "A visa is tapped and approved.",
    "decline": f"A visa is inserted and declined: decline:<detail>, by default {DETAIL_DEFAULT}.",
    "no_answer": "A visa is tapped; it is charged, and the acquirer's answer gets lost: the outcome is unknown.",
    "late": "A visa is tapped; it is charged, and the acquirer tells nobody for half a minute.",
    "cancel": "The buyer presses the red key.",
    "ignore": "Asks for orders and acknowledges none: they stay created.",
    "hold": "Acknowledges, asks for a card and waits for a cancel or the expiry.",
}

STEPS: Mapping[str, tuple[str, ...]] = {
    "approve": ("card_requested", "card_presented", "authorizing"),
    "decline": ("card_requested", "card_presented", "pin_requested", "pin_entered", "authorizing", "card_removal"),
    "no_answer": ("card_requested", "card_presented", "authorizing"),
    "late": ("card_requested", "card_presented", "authorizing"),
    "cancel": ("card_requested",),
    "ignore": (),
    "hold": ("card_requested",),
}

_SPEED = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)s", re.ASCII)
_TIMED = ("approve", "decline", "no_answer", "late", "cancel")


@dataclass(frozen=True, slots=True)
class Script:
    """One script: its name, the detail it declines with, and how long it takes from acknowledgement to result."""

    name: str
    detail: str = ""
    seconds: float = SECONDS_DEFAULT

    def __str__(self) -> str:
        speed = "" if self.seconds == SECONDS_DEFAULT else f"{self.seconds:g}s"
        return ":".join(part for part in (self.name, self.detail, speed) if part)

    @property
    def steps(self) -> tuple[str, ...]:
        """The progress that it reports, in order."""
        return STEPS[self.name]

    @property
    def pause_seconds(self) -> float:
        """How long each step takes."""
        return self.seconds / max(len(self.steps), 1)

    def presented(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The card that the buyer presents for the order, which says to the acquirer what is to come of it."""
        assert "authorizing" in self.steps, f"{self.name} never goes to the acquirer"
        if self.name == "decline":
            return cards.presented(order, self.detail, "chip")
        return cards.presented(order, cards.APPROVED if self.name == "approve" else self.name, "contactless")


def parse(text: str) -> Script:
    """The script that the text names. Raises `ValueError`, which lists what there is."""
    name, *further = text.split(":")
    if name not in STEPS:
        raise ValueError(f"there is no script {text!r}; there are: {available()}")
    seconds = SECONDS_DEFAULT
    if further and name in _TIMED and (speed := _SPEED.fullmatch(further[-1])):
        seconds = float(speed[1])
        further.pop()
    if seconds > SECONDS_MAX:
        raise ValueError(f"the script {text!r} takes longer than {SECONDS_MAX:g}s, which is the most")
    if name != "decline":
        if further:
            raise ValueError(f"the script {name} has no {':'.join(further)!r}; there are: {available()}")
        return Script(name, "", seconds)
    detail = further[0] if further else DETAIL_DEFAULT
    if len(further) > 1 or detail not in FAILED_DETAILS:
        raise ValueError(f"nothing is declined with {':'.join(further)!r}; details: {', '.join(FAILED_DETAILS)}")
    return Script(name, detail, seconds)


def available() -> str:
    """One line that says which scripts there are."""
    return (
        "approve, decline:<detail>, no_answer, late, cancel (each may end in a speed, as approve:0.05s), ignore, hold"
    )
