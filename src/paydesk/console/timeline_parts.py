"""What the modules that make a timeline share: the order's document, the time, and the steps so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paydesk.console import view
from paydesk.console.reasons import Document
from paydesk.console.timeline import Bar, Kind, Lane, Step, Tone
from paydesk.operators.orders.facts import LIVE_LABELS

AFTER = 9
"""The place of a mark after all other steps at the same time."""
LINKED_MS = 50
"""A step and the request that reported it are at most this far apart: a request has the time of its arrival."""


class Parts:
    """Collects the steps and bars of one order."""

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
        self.events: list[tuple[Document, Step]] = []
        self.permit: Step | None = None

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
        tone: Tone = "",
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
        """When the order left its terminal, or now."""
        ended = self.ended_step
        return ended.at_ms if ended is not None else self.now_ms if self.is_live else self.start_ms

    def event(self, *moves: str) -> Step | None:
        """Return the first of these moves."""
        return next((step for event, step in self.events if event["move"] in moves), None)

    def device_link(self, at_ms: int, suffix: str) -> str:
        """Return the recorded request of the terminal at this time; empty if there is none."""
        found = [
            (abs(self.instant(one["created_date"]) - at_ms), f"requests/{one['entry_id']}")
            for one in self.requests
            if str(one["path"]).startswith("/device/") and suffix in str(one["path"])
        ]
        distance_ms, link = min(found, default=(LINKED_MS + 1, ""))
        return link if distance_ms <= LINKED_MS else ""

    def sorted_steps(self) -> list[Step]:
        """Return all steps in order, those that are shown numbered."""
        self._order_bars()
        steps = sorted(self.steps, key=lambda step: (step.at_ms, step.order))
        for number, step in enumerate((step for step in steps if step.is_shown), 1):
            step.number = number
        return steps

    def _order_bars(self) -> None:
        """Let every bar end after it begins, also where clocks differ; bars that follow one another move together."""
        for _ in self.bars:
            is_ordered = True
            for bar in self.bars:
                start, end = bar.start, bar.end
                if (end.at_ms, end.order) <= (start.at_ms, start.order):
                    end.at_ms, end.order = start.at_ms, start.order + 1
                    is_ordered = False
            if is_ordered:
                return


def latest(steps: Iterable[Step]) -> Step:
    """Return the last one in time."""
    return max(steps, key=lambda step: (step.at_ms, step.order))
