"""Pictures as SVG, in the light or dark scheme of the page, and narrow, so that their text can be read on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH = 588
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.small { font-size: 12px; fill: #59636e }
.code { font: 12px ui-monospace, monospace; fill: #59636e }
.verdict { font-weight: 600; fill: #fff }
.effect { font-size: 11px; fill: #fff }
.line { stroke: #59636e; stroke-width: 2 }
.cut { stroke: #b3362b; stroke-width: 2; stroke-dasharray: 6 4 }
.warning { font-weight: 600; fill: #b3362b }
.bar { fill: #1f5fbf }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small, .code { fill: #9da7b1 } .verdict, .effect { fill: #fff }
  .line { stroke: #9da7b1 } .cut { stroke: #ff8a7d } .warning { fill: #ff8a7d } .bar { fill: #6cb0ff }
}
"""


def text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    """Return a line of text that starts, ends or has its middle at a point. `kind` is a class of the style."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def svg(parts: Sequence[str], height: int, label: str) -> str:
    """Return the picture of these elements; `label` describes it to those who can't see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" viewBox="0 0 {WIDTH} {height}" role="img"'
    return "\n".join((f'{head} aria-label="{escape(label)}">', f"<style>{_STYLE}</style>", *parts, "</svg>", ""))
