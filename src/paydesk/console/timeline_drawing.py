"""The positions of a timeline's drawing, in pixels; texts overlap neither each other nor a point.

Time is not to scale: a gap is the widest of 25 px, the label in it, and 7.2·log2(1 + ms/40). A gap of 20 s or more
without work is folded to 70 px. A drawing of up to 930 px is fitted to the page; a wider one scrolls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from paydesk.console.timeline import LANES, Bar, Lane, Step, Timeline, Tone, since

WIDTH_MIN, WIDTH_MAX = 890.0, 930.0
"""The narrowest drawing, and the widest that is fitted to the page."""
LEFT, RIGHT = 14.0, 26.0
GAP_MIN, MARK_MIN, FOLD = 25.0, 8.0, 70.0
LABEL_ROOM = 74.0
"""A gap is this much wider than the label on its bar."""
FOLDED_MS = 20_000
HEAD, LANE = 34, 36
"""The height of the band of statuses, and of a lane."""
CHARACTER, AXIS_CHARACTER = 6.7, 6.4
"""The width of a character on a bar, and on the axis."""
STRETCH_MAX = 4.0
"""How much the gaps are widened at most to fill the page."""
PERMIT = "permit: cancel has no effect"
POINT = 12.0
"""Half the width of a point, with some room."""


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a position. `anchor`: start, middle or end; `half`: half of the width of the ground below it."""

    x: float
    text: str
    anchor: str = "middle"
    half: float = 0.0


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A point."""

    x: float
    y: int
    step: Step


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """A bar, and its label if there is room for one."""

    x: float
    width: float
    y: int
    bar: Bar
    label: Label | None


@dataclass(frozen=True, slots=True)
class DrawnBand:
    """A status, and its name if there is room for it."""

    x: float
    width: float
    tone: Tone
    text: str
    text_x: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything that is drawn, in pixels of a width of at least `WIDTH_MIN`."""

    width: float
    steps: list[DrawnStep]
    bars: list[DrawnBar]
    bands: list[DrawnBand]
    ticks: list[Label]
    folds: list[float]
    slot: tuple[float, float] | None
    permit: Label | None

    @property
    def scrolls(self) -> bool:
        """Whether it is wider than the page."""
        return self.width > WIDTH_MAX

    def part(self, x: float) -> str:
        """Return a position or a length as a part of the width."""
        return f"{100 * x / self.width:.2f}%"


def drawing_of(timeline: Timeline) -> Drawing:
    """Return the drawing of a timeline with at least one step."""
    steps = timeline.steps
    gaps, folded = _gaps(timeline)
    _make_room(timeline, gaps)
    right = _right(timeline, gaps, folded)
    spare = WIDTH_MIN - LEFT - right - sum(gaps)
    if spare > 0 and sum(gaps) > 0:
        stretch = min((spare + sum(gaps)) / sum(gaps), STRETCH_MAX)
        gaps = [gap * stretch for gap in gaps]
    places = [LEFT]
    for gap in gaps:
        places.append(places[-1] + gap)
    x = {id(step): place for step, place in zip(steps, places, strict=True)}
    width = max(places[-1] + right, WIDTH_MIN)
    folds = [(places[number] + places[number + 1]) / 2 for number in folded]
    drawn = Drawing(width, [], [], [], [], folds, None, None)
    drawn.steps.extend(DrawnStep(x[id(step)], lane_y(step.lane), step) for step in steps if step.is_shown)
    drawn.bars.extend(_bars(timeline, x, drawn))
    bands = [_band(band.status, band.tone, x[id(band.start)], x[id(band.end)] if band.end else width - 2, folds)
             for band in timeline.bands]  # fmt: skip
    slot = (x[id(timeline.slot[0])], x[id(timeline.slot[1])]) if timeline.slot else None
    permit = _inside(x[id(timeline.permit)], PERMIT, text_width(PERMIT) / 2, width) if timeline.permit else None
    return Drawing(width, drawn.steps, drawn.bars, bands, _ticks(timeline, x, folds, width), folds, slot, permit)


def lane_y(lane: Lane) -> int:
    """Return the middle of a lane."""
    names = [name for name, _, _ in LANES]
    return HEAD + names.index(lane) * LANE + LANE // 2


def text_width(text: str) -> float:
    """Return about how wide a label is."""
    return CHARACTER * len(text) + 8


def _gaps(timeline: Timeline) -> tuple[list[float], list[int]]:
    """Return the gap after each step but the last, and the numbers of those that are folded."""
    order = {id(step): number for number, step in enumerate(timeline.steps)}
    worked: set[int] = set()
    for bar in timeline.bars:
        if bar.fill in ("work", "person"):
            worked.update(range(order[id(bar.start)], order[id(bar.end)]))
    gaps, folded = [], []
    for number, (step, following) in enumerate(pairwise(timeline.steps)):
        length_ms = following.at_ms - step.at_ms
        least = GAP_MIN if step.is_shown and following.is_shown else MARK_MIN
        if length_ms >= FOLDED_MS and number not in worked:
            gaps.append(FOLD)
            folded.append(number)
        else:
            gaps.append(max(least, 7.2 * math.log2(1 + length_ms / 40)))
    shown = [number for number, step in enumerate(timeline.steps) if step.is_shown]
    for first, last in pairwise(shown):
        gaps[last - 1] += max(GAP_MIN - sum(gaps[first:last]), 0)
    return gaps, folded


def _make_room(timeline: Timeline, gaps: list[float]) -> None:
    """Widen the longest gap below each bar whose label needs room."""
    order = {id(step): number for number, step in enumerate(timeline.steps)}
    for bar in timeline.bars:
        if not bar.text or (bar.fill == "work" and not bar.is_unanswered):
            continue
        first, last = order[id(bar.start)], order[id(bar.end)]
        missing = text_width(bar.text) + LABEL_ROOM - sum(gaps[first:last])
        if missing > 0 and last > first:
            longest = max(range(first, last), key=lambda number: gaps[number])
            gaps[longest] += missing


def _right(timeline: Timeline, gaps: list[float], folded: list[int]) -> float:
    """Return the margin in which the name of the last status fits, if it does not before a fold."""
    if not timeline.bands:
        return RIGHT
    last = timeline.bands[-1]
    number = next(place for place, step in enumerate(timeline.steps) if step is last.start)
    fold = next((place for place in folded if place >= number), None)
    room = sum(gaps[number:fold]) + (gaps[fold] / 2 - POINT if fold is not None else 0)
    needed = text_width(last.status) + 12
    return RIGHT if room >= needed else max(RIGHT, needed - sum(gaps[number:]) + (FOLD if fold is not None else 0))


def _bars(timeline: Timeline, x: dict[int, float], drawn: Drawing) -> list[DrawnBar]:
    """Return the bars, with the labels that hide neither a point nor another label of their lane."""
    taken: dict[int, list[tuple[float, float]]] = {}
    for one in drawn.steps:
        taken.setdefault(one.y, []).append((one.x - POINT, one.x + POINT))
    spans = [(lane_y(bar.lane), x[id(bar.start)], x[id(bar.end)], bar) for bar in timeline.bars]
    made = []
    # Long bars first: their labels say most.
    for y, start, end, bar in sorted(spans, key=lambda span: span[1] - span[2]):
        label = None
        if bar.text:
            label = _label(
                bar, start, end, taken.setdefault(y, []), [other for other in spans if other[0] == y], drawn.width
            )
        if label is not None:
            taken[y].append(extent(label))
        made.append(DrawnBar(start, end - start, y, bar, label))
    return made


def _label(
    bar: Bar,
    start: float,
    end: float,
    taken: list[tuple[float, float]],
    spans: list[tuple[int, float, float, Bar]],
    width: float,
) -> Label | None:
    """Return the label in the middle of the bar, or right of a short one; None without room."""
    size = text_width(bar.text)
    middle = Label((start + end) / 2, bar.text, half=size / 2)
    right = Label(end + POINT + 2, bar.text, "start", size / 2)
    low, high = extent(right)
    covers = any(other is not bar and first < high and last > low for _, first, last, other in spans)
    is_plain = bar.fill == "work" and not bar.is_unanswered
    if is_plain and high <= width and not covers and _is_free(right, taken):
        return right
    return middle if end - start >= size + 2 * POINT and _is_free(middle, taken) else None


def extent(label: Label) -> tuple[float, float]:
    """Return where a label begins and ends."""
    start = label.x if label.anchor == "start" else label.x - (1 if label.anchor == "middle" else 2) * label.half
    return start, start + 2 * label.half


def _is_free(label: Label, taken: list[tuple[float, float]]) -> bool:
    low, high = extent(label)
    return all(high <= first or low >= last for first, last in taken)


def _band(status: str, tone: Tone, start: float, end: float, folds: list[float]) -> DrawnBand:
    """Return a status with its name, where that fits beside the folds."""
    width = max(end - start - 1.5, 0)
    inside = [fold for fold in folds if start < fold < end]
    edges = [start, *(edge for fold in inside for edge in (fold - 12, fold + 12)), end]
    for low, high in zip(edges[::2], edges[1::2], strict=True):
        if text_width(status) + 8 <= high - low:
            return DrawnBand(start, width, tone, status, low + 8)
    return DrawnBand(start, width, tone, "", start)


def _inside(x: float, text: str, half: float, width: float) -> Label:
    """Return a label in the middle of a position, or beside it at the edges of the drawing."""
    anchor = "start" if x < half else "end" if x + half > width else "middle"
    return Label(x, text, anchor, half)


def _ticks(timeline: Timeline, x: dict[int, float], folds: list[float], width: float) -> list[Label]:
    """Return the times on the axis: of the first and the last step, and of those between as far as there is room."""
    shown = timeline.shown
    made: list[Label] = []
    busy = [(fold - 14, fold + 14) for fold in folds]
    for step in (*shown[:1], *shown[:0:-1][:1], *shown[1:-1]):
        text = since(step.at_ms - timeline.start_ms)
        half = (AXIS_CHARACTER * len(text) + 12) / 2
        label = _inside(x[id(step)], text, half, width)
        if _is_free(label, busy) and all(text != other.text for other in made):
            made.append(label)
            busy.append(extent(label))
    return sorted(made, key=lambda label: label.x)
