"""The steps of a timeline as a list: each line with the lanes as a rail, and further lines for time that passes."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.console.timeline import LANES, Bar, Step, Timeline, since

RAIL = {name: 8 + 14 * number for number, (name, _, _) in enumerate(LANES)}
"""The place of each lane on the rail, in pixels."""
FIRST, WHOLE, LAST = ("50%", "100%"), ("0", "100%"), ("0", "50%")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a bar on the rail of one line."""

    x: int
    fill: str
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Row:
    """A line: a step, or the text of a gap. `time` is since the start; `open_since_ms`: the gap has not ended."""

    step: Step | None
    text: str
    time: str
    lane: str
    pieces: list[Piece]
    open_since_ms: int | None = None

    @property
    def x(self) -> int:
        """The place of the step on the rail."""
        return RAIL[self.step.lane] if self.step is not None else 0

    @property
    def opens(self) -> str:
        """What the link of the step leads to."""
        return "Request" if self.step is not None and self.step.link.startswith("requests/") else "Delivery"


def rows_of(timeline: Timeline) -> list[Row]:
    """Return the lines of the list."""
    shown = timeline.shown
    places = _places(timeline)
    titles = {name: title for name, title, _ in LANES}
    rows = []
    for place, step in enumerate(shown):
        time = since(step.at_ms - timeline.start_ms)
        pieces = [piece for bar in timeline.bars for piece in _pieces(bar, places, place)]
        rows.append(Row(step, "", time if time == "0" else f"+{time}", titles[step.lane], pieces))
        passing = [Piece(RAIL[bar.lane], bar.fill, *WHOLE) for bar in timeline.bars if _passes(bar, places, place)]
        for bar in timeline.bars:
            if bar.gap and int(places[id(bar.start)]) == place:
                is_open = bar.fill == "open"
                rows.append(Row(None, bar.gap, "", "", passing, bar.start.at_ms if is_open else None))
    return rows


def _places(timeline: Timeline) -> dict[int, float]:
    """Return the line of each step; a mark is between the lines before and after it."""
    places: dict[int, float] = {}
    line = -1
    for step in timeline.steps:
        line += step.is_shown
        places[id(step)] = line if step.is_shown else line + 0.5
    return places


def _passes(bar: Bar, places: dict[int, float], place: int) -> bool:
    """Whether the bar goes on below this line."""
    return places[id(bar.start)] <= place < places[id(bar.end)]


def _pieces(bar: Bar, places: dict[int, float], place: int) -> list[Piece]:
    """Return the part of the bar on a line; marks are at the edges of lines."""
    start, end = places[id(bar.start)], places[id(bar.end)]
    if not start <= place <= end:
        return []
    ends = FIRST if start == place and end > place else LAST if end == place and start < place else WHOLE
    return [] if start == end else [Piece(RAIL[bar.lane], bar.fill, *ends)]
