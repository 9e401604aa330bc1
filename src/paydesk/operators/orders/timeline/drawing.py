"""The positions of a timeline's drawing, in pixels; texts overlap neither each other nor a point.

Time is not to scale: a gap is the widest of 25 px, the label in it, and 7.2·log2(1 + ms/40). A gap of 20 s or more
without work is folded to 70 px. A drawing of up to 930 px is fitted to the page; a wider one scrolls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

from paydesk.operators.orders.timeline.timeline import Bar, Label, Timeline, since

WIDTH_MIN, WIDTH_MAX = 890.0, 930.0
"""The narrowest drawing, and the widest that is fitted to the page."""
LEFT, RIGHT = 14.0, 26.0
GAP_MIN, MARK_MIN, FOLD = 25.0, 8.0, 70.0
LABEL_ROOM = 74.0
"""A gap is this much wider than the label on its bar."""
FOLDED_MS = 20_000
CHARACTER, AXIS_CHARACTER = 6.7, 6.4
"""The width of a character on a bar, and on the axis."""
STRETCH_MAX = 4.0
"""The maximum factor by which gaps are widened to fill the page."""
PERMIT = "permit: cancel has no effect"
POINT = 12.0
"""Half the width of a point, with some room."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """The bars, ticks, folds and the permit of a drawing, in pixels of a width of at least `WIDTH_MIN`."""

    width: float
    bars: list[Bar]
    """The bars from the longest to the shortest."""
    ticks: list[Label]
    folds: list[float]
    permit: Label | None

    @property
    def scrolls(self) -> bool:
        """Whether it is wider than the page."""
        return self.width > WIDTH_MAX

    def part(self, x: float) -> str:
        """Return a position or a length as a part of the width."""
        return f"{100 * x / self.width:.2f}%"


def draw(timeline: Timeline) -> Drawing:
    """Place the steps, bars and statuses of a timeline with at least one step, and return what is drawn besides."""
    place = {id(step): number for number, step in enumerate(timeline.steps)}
    spans = [(bar, place[id(bar.start)], place[id(bar.end)]) for bar in timeline.bars]
    gaps, folded = _gaps(timeline, spans)
    right = RIGHT
    if timeline.bands:
        right = _right(timeline.bands[-1].status, gaps, folded, place[id(timeline.bands[-1].start)])
    spare = WIDTH_MIN - LEFT - right - sum(gaps)
    if spare > 0 and sum(gaps) > 0:
        stretch = min((spare + sum(gaps)) / sum(gaps), STRETCH_MAX)
        gaps = [gap * stretch for gap in gaps]
    for step, x in zip(timeline.steps, accumulate(gaps, initial=LEFT), strict=True):
        step.x = x
    width = max(timeline.steps[-1].x + right, WIDTH_MIN)
    folds = [(timeline.steps[number].x + timeline.steps[number + 1].x) / 2 for number in folded]
    for band in timeline.bands:
        start, end = band.start.x, band.end.x if band.end is not None else width - 2
        band.width = max(end - start - 1.5, 0)
        # Its name is where it fits beside the folds.
        edges = [start, *(edge for fold in folds if start < fold < end for edge in (fold - 12, fold + 12)), end]
        rooms = zip(edges[::2], edges[1::2], strict=True)
        needed = text_width(band.status) + 8
        band.text_x = next((low + 8 for low, high in rooms if needed <= high - low), None)
    permit = _inside(timeline.permit.x, PERMIT, text_width(PERMIT) / 2, width) if timeline.permit else None
    # Long bars first: their labels say most.
    bars = sorted(timeline.bars, key=lambda bar: bar.start.x - bar.end.x)
    _label_bars(timeline, bars, width)
    return Drawing(width, bars, _ticks(timeline, folds, width), folds, permit)


def text_width(text: str) -> float:
    """Return about how wide a label is."""
    return CHARACTER * len(text) + 8


def _gaps(timeline: Timeline, spans: list[tuple[Bar, int, int]]) -> tuple[list[float], list[int]]:
    """Return the gap after each step but the last, and the numbers of those that are folded."""
    worked = {number for bar, first, last in spans if bar.fill in ("work", "person") for number in range(first, last)}
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
    # The longest gap below a bar is widened if its label needs room.
    for bar, first, last in spans:
        missing = text_width(bar.text) + LABEL_ROOM - sum(gaps[first:last])
        if bar.text and not _is_plain(bar) and missing > 0 and last > first:
            longest = max(range(first, last), key=lambda number: gaps[number])
            gaps[longest] += missing
    return gaps, folded


def _is_plain(bar: Bar) -> bool:
    return bar.fill == "work" and not bar.is_unanswered


def _right(status: str, gaps: list[float], folded: list[int], start: int) -> float:
    """Return the margin in which the name of the last status fits, if it does not before a fold."""
    fold = next((number for number in folded if number >= start), None)
    room = sum(gaps[start:fold]) + (gaps[fold] / 2 - POINT if fold is not None else 0)
    needed = text_width(status) + 12
    return RIGHT if room >= needed else max(RIGHT, needed - sum(gaps[start:]) + (FOLD if fold is not None else 0))


def _label_bars(timeline: Timeline, bars: list[Bar], width: float) -> None:
    """Give bars their labels where these hide neither a point nor another label of their lane."""
    taken: dict[int, list[tuple[float, float]]] = {}
    for step in timeline.shown:
        taken.setdefault(step.y, []).append((step.x - POINT, step.x + POINT))
    for bar in bars:
        if not bar.text:
            continue
        start, end, busy = bar.start.x, bar.end.x, taken.setdefault(bar.start.y, [])
        size = text_width(bar.text)
        # In the middle of the bar, or right of a short one.
        middle = Label((start + end) / 2, bar.text, half=size / 2)
        right = Label(end + POINT + 2, bar.text, "start", size / 2)
        low, high = extent(right)
        lane = [other for other in bars if other is not bar and other.start.y == bar.start.y]
        covers = any(other.start.x < high and other.end.x > low for other in lane)
        bar.label = None
        if _is_plain(bar) and high <= width and not covers and _is_free(right, busy):
            bar.label = right
        elif end - start >= size + 2 * POINT and _is_free(middle, busy):
            bar.label = middle
        if bar.label is not None:
            busy.append(extent(bar.label))


def extent(label: Label) -> tuple[float, float]:
    """Return where a label begins and ends."""
    start = label.x if label.anchor == "start" else label.x - (1 if label.anchor == "middle" else 2) * label.half
    return start, start + 2 * label.half


def _is_free(label: Label, taken: list[tuple[float, float]]) -> bool:
    low, high = extent(label)
    return all(high <= first or low >= last for first, last in taken)


def _inside(x: float, text: str, half: float, width: float) -> Label:
    """Return a label in the middle of a position, or beside it at the edges of the drawing."""
    anchor = "start" if x < half else "end" if x + half > width else "middle"
    return Label(x, text, anchor, half)


def _ticks(timeline: Timeline, folds: list[float], width: float) -> list[Label]:
    """Return the times on the axis: of the first and the last step, and of those between as far as there is room."""
    shown = timeline.shown
    ticks: list[Label] = []
    busy = [(fold - 14, fold + 14) for fold in folds]
    for step in (*shown[:1], *shown[:0:-1][:1], *shown[1:-1]):
        text = since(step.at_ms - timeline.start_ms)
        label = _inside(step.x, text, (AXIS_CHARACTER * len(text) + 12) / 2, width)
        if _is_free(label, busy) and all(text != other.text for other in ticks):
            ticks.append(label)
            busy.append(extent(label))
    return sorted(ticks, key=lambda label: label.x)
