"""The plot of a day: one bar for each hour, as numbers for the SVG of the template. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEIGHT, FLOOR = 96, 20
"""The pixels of the highest bar, and of the labels below."""
HOURS = 24
BAR = 0.72
"""The part of an hour's width that its bar has."""
PIXELS_MIN = 3
"""The least height of a part of a bar that is not zero, so that it is visible."""
LABELLED_EVERY = 6


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: its class, and the pixels of its top and its height."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: where it is, in percent of the width, and what it says."""

    x: float
    width: float
    middle: float
    label: str
    says: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """The bars, the number of the highest one, and a sentence that describes the plot."""

    bars: tuple[Bar, ...]
    largest: int
    says: str
    height: int = HEIGHT + FLOOR
    base: int = HEIGHT


def plot_of(hours: Sequence[Mapping[str, Any]]) -> Plot:
    """Return the plot of the hours of `GET figures`."""
    largest = max((hour["orders"] for hour in hours), default=0)
    bars = tuple(_bar(number, hour, largest) for number, hour in enumerate(hours))
    orders, failed = (sum(hour[name] for hour in hours) for name in ("orders", "failed"))
    busiest = max(hours, key=lambda hour: int(hour["orders"]), default=None)
    says = f"Orders by hour: {orders} in all, {failed} failed"
    if largest and busiest is not None:
        says += f"; most between {_clock(busiest)} and {(int(_clock(busiest)[:2]) + 1) % HOURS:02}:00 UTC, {largest}"
    return Plot(bars, largest, f"{says}.")


def _bar(number: int, hour: Mapping[str, Any], largest: int) -> Bar:
    width = 100 / HOURS
    others = hour["orders"] - hour["processed"] - hour["failed"]
    parts, top = [], float(HEIGHT)
    for kind, count in (("ok", hour["processed"]), ("bad", hour["failed"]), ("rest", others)):
        if count > 0:
            height = max(HEIGHT * count / largest, PIXELS_MIN)
            top -= height
            parts.append(Part(kind, round(max(top, 0), 1), round(height, 1)))
    return Bar(
        x=round(number * width + width * (1 - BAR) / 2, 3),
        width=round(width * BAR, 3),
        middle=round(number * width + width / 2, 3),
        label=_clock(hour) if number % LABELLED_EVERY == 0 else "",
        says=f"{_clock(hour)} UTC: {hour['orders']} orders, {hour['processed']} processed, {hour['failed']} failed",
        parts=tuple(parts),
    )


def _clock(hour: Mapping[str, Any]) -> str:
    return str(hour["date"])[11:16]
