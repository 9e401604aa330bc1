"""Scripts: what a virtual terminal does with every order, as a short text such as `decline:card_disabled:0.2s`.

A script is a name, for `decline` a detail, and except for `ignore`, `hold` and `manual` the seconds until the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk_dev.virtual.scripts import presented

SECONDS_DEFAULT, SECONDS_MAX = 1.5, 30.0
DETAIL_DEFAULT = "rejected_by_issuer"
AVAILABLE = (
    "approve, approve:tip=<percent>, decline:<detail>, no_answer, late, cancel (each may end in a speed, as"
    " approve:0.05s), ignore, hold, manual"
)
MANUAL = "manual"
"""The script of a terminal that waits for a person at each step."""

_STEPS: Mapping[str, tuple[str, ...]] = {
    "approve": ("card_requested", "card_presented", "authorizing"),
    "decline": ("card_requested", "card_presented", "pin_requested", "pin_entered", "authorizing", "card_removal"),
    "no_answer": ("card_requested", "card_presented", "authorizing"),
    "late": ("card_requested", "card_presented", "authorizing"),
    "cancel": ("card_requested",),
    "ignore": (),
    "hold": ("card_requested",),
    MANUAL: (),
}

_SPEED = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)s", re.ASCII)
_TIP = re.compile(r"tip=([1-9]\d?)", re.ASCII)
_TIMED = ("approve", "decline", "no_answer", "late", "cancel")


@dataclass(frozen=True, slots=True)
class Script:
    """A script: its name, the detail of a decline, and the seconds from acknowledgement to result."""

    name: str
    detail: str = ""
    seconds: float = SECONDS_DEFAULT
    tip_percent: int = 0
    """The tip given where the terminal offers it."""

    def __str__(self) -> str:
        speed = "" if self.seconds == SECONDS_DEFAULT else f"{self.seconds:g}s"
        tip = f"tip={self.tip_percent}" if self.tip_percent else ""
        return ":".join(part for part in (self.name, self.detail, tip, speed) if part)

    @property
    def steps(self) -> tuple[str, ...]:
        """The progress steps to report, in order."""
        return _STEPS[self.name]

    @property
    def pause_seconds(self) -> float:
        """The duration of each step."""
        return self.seconds / max(len(self.steps), 1)

    def presented(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Return the payment method and test card that the buyer presents; the card decides the acquirer's answer."""
        assert "authorizing" in self.steps, f"{self.name} never calls the acquirer"
        if self.name == "decline":
            return presented.by_script(order, self.detail, "chip")
        name = presented.APPROVED if self.name == "approve" else self.name
        return presented.by_script(order, name, "contactless", self.tip_percent)


def parse(text: str) -> Script:
    """Parse a script. Raises `ValueError` that lists the valid ones."""
    name, *further = text.split(":")
    if name not in _STEPS:
        raise ValueError(f"unknown script {text!r}; valid scripts: {AVAILABLE}")
    seconds = SECONDS_DEFAULT
    if further and name in _TIMED and (speed := _SPEED.fullmatch(further[-1])):
        seconds = float(speed[1])
        further.pop()
    if seconds > SECONDS_MAX:
        raise ValueError(f"the script {text!r} exceeds the limit of {SECONDS_MAX:g}s")
    tip_percent = 0
    if further and name == "approve" and (tip := _TIP.fullmatch(further[0])):
        tip_percent = int(tip[1])
        further.pop(0)
    if name != "decline":
        if further:
            raise ValueError(f"the script {name} does not support {':'.join(further)!r}; valid scripts: {AVAILABLE}")
        return Script(name, "", seconds, tip_percent)
    detail = further[0] if further else DETAIL_DEFAULT
    if len(further) > 1 or detail not in FAILED_DETAILS:
        raise ValueError(f"unknown detail {':'.join(further)!r}; valid details: {', '.join(FAILED_DETAILS)}")
    return Script(name, detail, seconds)
