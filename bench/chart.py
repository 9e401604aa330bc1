"""The chart: requests per second as bars, one panel per operation, as an SVG for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.kept import Kept

WIDTH, PANEL_WIDTH, PANEL_HEIGHT, PANEL_GAP = 960, 464, 260, 32
TOP, LEFT, BOTTOM, TITLE = 64, 48, 36, 34
COLORS = {
    "SQLite": "#3f83f8",
    "PostgreSQL": "#1f9d76",
    "oidc-provider": "#d97b16",
    "Prism": "#d97b16",
    "pgbench": "#9b72d6",
}
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.panel { font-size: 13px; font-weight: 600 }
.small { font-size: 10px; fill: #59636e }
.bar { font-size: 9px; fill: #59636e }
.grid { stroke: #8b949e; stroke-opacity: .35 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small, .bar { fill: #9da7b1 } }
"""


@dataclass(frozen=True, slots=True)
class Series:
    """Bars of one colour: a row of one database, under its name in the legend."""

    name: str
    database: str
    row: str


PANELS: dict[str, tuple[Series, ...]] = {
    "Creates a second": (
        Series("SQLite", "sqlite", "create"),
        Series("PostgreSQL", "postgres", "create"),
        Series("Prism", "postgres", "Prism: create"),
        Series("pgbench", "postgres", "pgbench: create"),
    ),
    "Refreshes a second": (
        Series("SQLite", "sqlite", "refresh"),
        Series("PostgreSQL", "postgres", "refresh"),
        Series("oidc-provider", "postgres", "oidc-provider: refresh"),
    ),
    "Gets a second": (Series("SQLite", "sqlite", "get"), Series("PostgreSQL", "postgres", "get")),
    "Polls a second": (Series("SQLite", "sqlite", "poll"), Series("PostgreSQL", "postgres", "poll")),
}


def svg(kept: Kept) -> str:
    """Return the chart, without panels and bars that have no figures."""
    counts = sorted({key[2] for key in kept.measured})
    panels = [(title, shown) for title, series in PANELS.items() if (shown := _with_figures(kept, series))]
    height = TOP + math.ceil(len(panels) / 2) * (PANEL_HEIGHT + PANEL_GAP)
    drawn = [f'<text class="title" x="0" y="20">{escape(_title(kept))}</text>', *_legend(panels)]
    for place, (title, series) in enumerate(panels):
        x, y = place % 2 * (PANEL_WIDTH + PANEL_GAP), TOP + place // 2 * (PANEL_HEIGHT + PANEL_GAP)
        drawn += [f'<g transform="translate({x} {y})">', *_panel(kept, title, series, counts), "</g>"]
    label = "Requests a second by operation, database and number of connections"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *drawn, "</svg>"]) + "\n"


def _title(kept: Kept) -> str:
    return f"Requests a second, by connections · {kept.machine.get('Date', '')}".rstrip(" ·")


def _with_figures(kept: Kept, series: tuple[Series, ...]) -> list[Series]:
    measured = {key[:2] for key in kept.measured}
    return [one for one in series if (one.database, one.row) in measured]


def _legend(panels: list[tuple[str, list[Series]]]) -> Iterator[str]:
    """Yield each colour once, with the names of all peers that share it."""
    names: dict[str, list[str]] = {}
    for _, series in panels:
        for one in series:
            shared = names.setdefault(COLORS[one.name], [])
            if one.name not in shared:
                shared.append(one.name)
    x = 0
    for color, together in names.items():
        text = " / ".join(together)
        yield f'<rect x="{x}" y="34" width="11" height="11" rx="2" fill="{color}"/>'
        yield f'<text x="{x + 16}" y="44">{escape(text)}</text>'
        x += 40 + 7 * len(text)


def _panel(kept: Kept, title: str, series: list[Series], counts: list[int]) -> Iterator[str]:
    rates = {
        (one, count): made.per_second
        for one in series
        for count in counts
        if (made := kept.median(one.database, one.row, count))
    }
    top = nice_top(max(rates.values()))
    floor, plot = PANEL_HEIGHT - BOTTOM, PANEL_HEIGHT - BOTTOM - TITLE
    yield f'<text class="panel" x="0" y="14">{escape(title)}</text>'
    for quarter in range(5):
        y = floor - plot * quarter / 4
        yield f'<line class="grid" x1="{LEFT}" x2="{PANEL_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="small" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{top * quarter / 4:,.0f}</text>'
    group = (PANEL_WIDTH - LEFT) / len(counts)
    width = min(26.0, group * 0.82 / len(series))
    for place, count in enumerate(counts):
        middle = LEFT + group * (place + 0.5)
        yield f'<text x="{middle:.1f}" y="{floor + 18}" text-anchor="middle">{count}</text>'
        for number, one in enumerate(series):
            if (one, count) in rates:
                x = middle + width * (number - len(series) / 2)
                yield from _bar(one.name, rates[one, count], x, width, floor, plot / top)


def _bar(name: str, rate: float, x: float, width: float, floor: int, scale: float) -> Iterator[str]:
    tall = rate * scale
    yield (
        f'<rect x="{x + 1:.1f}" y="{floor - tall:.1f}" width="{width - 2:.1f}" height="{tall:.1f}" rx="2"'
        f' fill="{COLORS[name]}"><title>{escape(name)}: {rate:,.0f} a second</title></rect>'
    )
    yield (
        f'<text class="bar" x="{x + width / 2:.1f}" y="{floor - tall - 4:.1f}" text-anchor="middle">'
        f"{short(rate)}</text>"
    )


def nice_top(highest: float) -> float:
    """Return the next round number whose quarter is round too."""
    step = 10.0 ** math.floor(math.log10(highest))
    return next(step * factor for factor in (1, 2, 4, 6, 8, 10, 12) if step * factor >= highest * 1.06)


def short(rate: float) -> str:
    """Return a short label for a bar: 950, 2.4k, 13k."""
    if rate < 995:
        return f"{rate:.0f}"
    thousands = rate / 1000
    return f"{thousands:.1f}k" if thousands < 9.95 else f"{thousands:.0f}k"
