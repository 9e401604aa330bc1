"""The timeline of an order: its steps, the time between them, and who took how long. No positions, no HTML.

`timeline_steps` makes it from the document of an order; `timeline_drawing` and `timeline_rows` show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from paydesk.console import view

Lane = Literal["application", "paydesk", "terminal", "acquirer", "webhooks"]
LANES: tuple[tuple[Lane, str, str], ...] = (
    ("application", "Application", "A"),
    ("paydesk", "Paydesk", "P"),
    ("terminal", "Terminal", "T"),
    ("acquirer", "Acquirer", "Q"),
    ("webhooks", "Webhooks", "W"),
)
"""The lanes from top to bottom, each with its title and its letter above the list."""

Kind = Literal["ring", "diamond", "square", "disc", "none"]
"""What a point stands for: a step, a status, a failure, a success. `none` only marks the end of a bar."""
Fill = Literal["work", "person", "retry", "open"]
"""What a bar stands for: work, waiting for a person, waiting for the next attempt, or time that has not ended."""
Tone = Literal["", "ok", "bad", "look", "off", "back", "wait"]

GAP_SHOWN_MS = 1000
"""The list has a line of its own for a time that is at least this long."""


@dataclass(eq=False, slots=True)
class Step:
    """A point in time in one lane. `order`: its place among steps at the same time; `link`: the page it opens.

    `number` is its place in the list, from 1; 0 if it is not in the list.
    """

    at_ms: int
    lane: Lane
    kind: Kind
    title: str = ""
    detail: str = ""
    tone: Tone = ""
    order: int = 5
    link: str = ""
    number: int = 0

    @property
    def is_shown(self) -> bool:
        """Whether the step is a point with a line in the list."""
        return self.kind != "none"


@dataclass(eq=False, slots=True)
class Bar:
    """Time in a lane between two steps. `text` is on the bar, `gap` in the list below the first step.

    `is_offer`: until the terminal takes the order, so the terminal's own time. `is_unanswered`: work of the acquirer
    whose outcome is unknown.
    """

    start: Step
    end: Step
    fill: Fill
    text: str = ""
    gap: str = ""
    is_offer: bool = False
    is_unanswered: bool = False

    @property
    def lane(self) -> Lane:
        """The lane of the bar."""
        return self.start.lane

    @property
    def length_ms(self) -> int:
        """How long it took, or has taken so far."""
        return self.end.at_ms - self.start.at_ms


@dataclass(frozen=True, slots=True)
class Band:
    """A status of the order, from a step to the next status; None: to the end of the drawing."""

    status: str
    tone: Tone
    start: Step
    end: Step | None


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the time that one party took."""

    name: str
    style: str
    length_ms: int


@dataclass(slots=True)
class Timeline:
    """What happened to an order. `permit`: when authorization was permitted; `slot`: while it held its terminal."""

    start_ms: int
    end_ms: int
    is_live: bool
    steps: list[Step]
    bars: list[Bar]
    bands: list[Band]
    permit: Step | None = None
    slot: tuple[Step, Step] | None = None
    shares: Sequence[Share] = field(default=())

    @property
    def summary(self) -> str:
        """How long the order took, in words."""
        length = view.duration(self.end_ms - self.start_ms)
        return f"{length} since it was created" if self.is_live else f"{length} from create to the end"

    @property
    def shown(self) -> list[Step]:
        """The steps that are points, in order."""
        return [step for step in self.steps if step.is_shown]


def since(length_ms: int) -> str:
    """Return the time since the start: "0", "31 ms", "6.31 s", "3 min 20 s", "3 h 05", "5 d 3 h"."""
    if length_ms <= 0:
        return "0"
    if length_ms < view.HOUR_MS:
        return view.duration(length_ms)
    if length_ms < 2 * view.DAY_MS:
        return f"{length_ms // view.HOUR_MS} h {length_ms % view.HOUR_MS // view.MINUTE_MS:02}"
    days, rest = divmod(length_ms, view.DAY_MS)
    return f"{days} d {rest // view.HOUR_MS} h" if rest >= view.HOUR_MS else f"{days} d"


def rounded(length_ms: int) -> str:
    """Return a duration for a label: "134 ms", "6.2 s", "20 s", "3 min", "3 h", "5 days"."""
    if length_ms < view.SECOND_MS:
        return f"{length_ms} ms"
    if length_ms < 9.95 * view.SECOND_MS:
        return f"{length_ms / view.SECOND_MS:.1f} s"
    for unit_ms, units_max, name in ((view.SECOND_MS, 120, "s"), (view.MINUTE_MS, 120, "min"), (view.HOUR_MS, 48, "h")):
        if round(length_ms / unit_ms) < units_max:
            return f"{round(length_ms / unit_ms)} {name}"
    return f"{round(length_ms / view.DAY_MS)} days"
