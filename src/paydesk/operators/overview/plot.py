"""The plot of a day: one bar for each hour, as numbers for the SVG of the template. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

HEIGHT, FLOOR = 96, 20
"""The pixels of the highest bar, and of the labels below."""
HOURS = 24
BAR_WIDTH = 3.0
"""The width of a bar in percent of the plot."""
PIXELS_MIN = 3
"""The least height of a part of a bar that is not zero, so that it is visible."""
LABELLED_EVERY = 6


class Bar(NamedTuple):
    """The bar of an hour: its position in percent of the width, its label, and its sentence."""

    x: float
    middle: float
    label: str
    says: str
    parts: list[tuple[str, float, float]]
    """The parts of the bar: the class of each, and the pixels of its top and its height."""


class Plot(NamedTuple):
    """The bars, the number of the highest one, and a sentence that describes the plot."""

    bars: list[Bar]
    largest: int
    says: str
    height: int = HEIGHT + FLOOR
    base: int = HEIGHT
    width: float = BAR_WIDTH


def plot_of(hours: Sequence[Mapping[str, Any]]) -> Plot:
    """Return the plot of the hours of `GET figures`."""
    clocks = [str(hour["date"])[11:16] for hour in hours]
    orders = [int(hour["orders"]) for hour in hours]
    largest = max(orders, default=0)
    says = f"Orders by hour: {sum(orders)} in all, {sum(hour['failed'] for hour in hours)} failed"
    if largest:
        busiest = clocks[orders.index(largest)]
        says += f"; most between {busiest} and {(int(busiest[:2]) + 1) % HOURS:02}:00 UTC, {largest}"
    bars = []
    for number, (clock, hour) in enumerate(zip(clocks, hours, strict=True)):
        middle = round((number + 0.5) * 100 / HOURS, 3)
        counts = f"{hour['orders']} orders, {hour['processed']} processed, {hour['failed']} failed"
        label = clock if number % LABELLED_EVERY == 0 else ""
        x = round(number * 100 / HOURS + (100 / HOURS - BAR_WIDTH) / 2, 3)
        parts, top = [], float(HEIGHT)
        others = hour["orders"] - hour["processed"] - hour["failed"]
        for kind, count in (("ok", hour["processed"]), ("bad", hour["failed"]), ("rest", others)):
            if count > 0:
                height = max(HEIGHT * count / largest, PIXELS_MIN)
                top -= height
                parts.append((kind, round(max(top, 0), 1), round(height, 1)))
        bars.append(Bar(x, middle, label, f"{clock} UTC: {counts}", parts))
    return Plot(bars, largest, f"{says}.")
