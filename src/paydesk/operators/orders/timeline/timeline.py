"""The timeline of an order: its steps, the time between them, and who took how long.

`steps` makes it from the document of an order, `drawing` places it, and `timeline.html` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paydesk.console import view
from paydesk.operators.orders.facts import LIVE_LABELS
from paydesk.operators.orders.reasons import Document

Lane = Literal["application", "paydesk", "terminal", "acquirer", "webhooks"]
LANES: tuple[Lane, ...] = ("application", "paydesk", "terminal", "acquirer", "webhooks")
"""The lanes from top to bottom."""
HEAD, LANE = 34, 36
"""The height of the band of statuses, and of a lane of the drawing."""

Kind = Literal["ring", "diamond", "square", "disc", "none"]
"""The meaning of a point: a step, a status, a failure, a success. `none` only marks the end of a bar."""
Fill = Literal["work", "person", "retry", "open"]
"""The meaning of a bar: work, waiting for a person, waiting for the next attempt, or time that has not ended."""

GAP_SHOWN_MS = 1000
"""The list has a line of its own for a time that is at least this long."""
AFTER = 9
"""The place of a mark after all other steps at the same time."""
LINKED_MS = 50
"""A step and the request that reported it are at most this far apart: a request has the time of its arrival."""


@dataclass(eq=False, slots=True)
class Step:
    """A point in time in one lane. `order`: its place among steps at the same time; `link`: the page it opens."""

    at_ms: int
    lane: Lane
    kind: Kind
    title: str = ""
    detail: str = ""
    tone: str = ""
    """The colour of a diamond."""
    order: int = 5
    link: str = ""
    number: float = 0
    """Its place in the list, from 1; a mark is between the steps before and after it."""
    x: float = 0
    """Its place in the drawing."""

    @property
    def is_shown(self) -> bool:
        """Whether the step is a point with a line in the list."""
        return self.kind != "none"

    @property
    def y(self) -> int:
        """The middle of its lane in the drawing."""
        return HEAD + LANES.index(self.lane) * LANE + LANE // 2

    @property
    def rail(self) -> int:
        """The place of its lane beside the list."""
        return 8 + 14 * LANES.index(self.lane)


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a position. `anchor`: start, middle or end; `half`: half of the width of the ground below it."""

    x: float
    text: str
    anchor: str = "middle"
    half: float = 0.0


@dataclass(eq=False, slots=True)
class Bar:
    """Time in a lane between two steps. `text` is on the bar, `gap` in the list below the first step.

    `is_offer`: until the terminal takes the order or reports on an approval, so the terminal's own time.
    `is_unanswered`: work of the acquirer whose outcome is unknown.
    """

    start: Step
    end: Step
    fill: Fill
    text: str = ""
    gap: str = ""
    is_offer: bool = False
    is_unanswered: bool = False
    label: Label | None = None
    """The text in the drawing, if there is room for it."""

    @property
    def length_ms(self) -> int:
        """The time that it took, or has taken so far."""
        return self.end.at_ms - self.start.at_ms


@dataclass(eq=False, slots=True)
class Band:
    """A status of the order, from a step to the next status; None: to the end of the drawing."""

    status: str
    tone: str
    start: Step
    end: Step | None = None
    width: float = 0
    text_x: float | None = None
    """The position of its name in the drawing; None without room for it."""


class Timeline:
    """The steps, bars and statuses of an order, from its document and its recorded requests."""

    def __init__(self, order: Document, requests: Sequence[Document], now_ms: int) -> None:
        self.order, self.requests = order, requests
        created_ms = view.instant_ms(order["created_date"])
        own = [
            view.instant_ms(one["created_date"])
            for one in requests
            if one["method"] == "POST" and str(one["path"]).partition("?")[0] == "/v1/orders"
        ]
        # The request began a little before the order, but not much: the clocks of two nodes may differ.
        self.start_ms = min([created_ms, *(at for at in own if created_ms - at < view.MINUTE_MS)])
        self.now_ms = max(now_ms, self.start_ms)
        self.is_live = order["status"] in LIVE_LABELS
        self.steps: list[Step] = []
        self.bars: list[Bar] = []
        self.bands: list[Band] = []
        self.events: list[tuple[Document, Step]] = []
        self.permit: Step | None = None
        """The step at which authorization was permitted."""
        self.slot: tuple[Step, Step] | None = None
        """The first and the last step of the time in which the order held its terminal."""
        self.shares: list[tuple[str, str, int]] = []
        """The time that each party took: its name, its style, and milliseconds."""

    def instant(self, date: str) -> int:
        """Return the instant of a date, at the earliest the start of the timeline."""
        return max(view.instant_ms(date), self.start_ms)

    def add(
        self,
        at_ms: int,
        lane: Lane,
        kind: Kind,
        title: str = "",
        detail: str = "",
        *,
        tone: str = "",
        order: int = 5,
        link: str = "",
    ) -> Step:
        """Add a step and return it."""
        step = Step(max(at_ms, self.start_ms), lane, kind, title, detail, tone, order, link)
        self.steps.append(step)
        return step

    def now_step(self, lane: Lane) -> Step:
        """Return a step that marks the present, for time that has not ended."""
        return self.add(max([self.now_ms, *(step.at_ms for step in self.steps)]), lane, "none", order=AFTER)

    @property
    def ended_step(self) -> Step | None:
        """The move that ended the order's time at its terminal."""
        return next((step for event, step in self.events if event["status"] not in LIVE_LABELS), None)

    @property
    def end_ms(self) -> int:
        """The instant at which the order left its terminal, or now."""
        ended = self.ended_step
        return ended.at_ms if ended is not None else self.now_ms if self.is_live else self.start_ms

    @property
    def summary(self) -> str:
        """The time that the order took, in words."""
        length = view.duration(self.end_ms - self.start_ms)
        return f"{length} since it was created" if self.is_live else f"{length} from create to the end"

    @property
    def shown(self) -> list[Step]:
        """The steps that are points."""
        return [step for step in self.steps if step.is_shown]

    def event(self, *moves: str) -> Step | None:
        """Return the step of the first of these moves."""
        return next((step for event, step in self.events if event["move"] in moves), None)

    def device_link(self, at_ms: int, suffix: str) -> str:
        """Return the recorded request of the terminal at this time; empty if there is none."""
        candidates = [
            (abs(self.instant(one["created_date"]) - at_ms), f"requests/{one['entry_id']}")
            for one in self.requests
            if str(one["path"]).startswith("/device/") and suffix in str(one["path"])
        ]
        distance_ms, link = min(candidates, default=(LINKED_MS + 1, ""))
        return link if distance_ms <= LINKED_MS else ""

    def sort(self) -> None:
        """Let every bar end after it begins, also where clocks differ, then sort and number the steps."""
        for _ in self.bars:  # Bars that follow one another move together.
            late = [one for one in self.bars if (one.end.at_ms, one.end.order) <= (one.start.at_ms, one.start.order)]
            if not late:
                break
            for start, end in ((one.start, one.end) for one in late):
                end.at_ms, end.order = max((end.at_ms, end.order), (start.at_ms, start.order + 1))
        self.steps.sort(key=lambda step: (step.at_ms, step.order))
        number = 0
        for step in self.steps:
            number += step.is_shown
            step.number = number if step.is_shown else number + 0.5


def by_operator(change: Document) -> str:
    """Return who made a change, and why."""
    return f"by {change.get('operator', 'an operator')}: {change.get('reason', '')}".rstrip(": ")


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
