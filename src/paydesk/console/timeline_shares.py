"""How much of an order's time the buyer, the acquirer, the terminal and Paydesk took, from its creation to its end."""

from __future__ import annotations

import itertools

from paydesk.console.timeline import Share, Timeline
from paydesk.console.timeline_parts import Parts

PARTIES = (
    ("The buyer", "b-person"),
    ("The acquirer", "b-work"),
    ("The terminal", "b-slot"),
    ("Paydesk", "b-ink"),
)
"""Each party with its style, in the order of the bar. Time in which two act counts for the one that is first here."""


def shares_of(timeline: Timeline, parts: Parts) -> list[Share]:
    """Return each party's share; together they are the time from create to end. Parties without time are left out."""
    buyer, acquirer, terminal = [], [], []
    for bar in timeline.bars:
        span = (bar.start.at_ms, bar.end.at_ms)
        if bar.lane == "acquirer":
            acquirer.append(span)
        elif bar.lane == "terminal" and not bar.is_offer:
            buyer.append(span)
    offered = parts.order["times"].get("offered_date")
    begun_ms = parts.instant(offered) if offered else parts.start_ms
    last_ms = min((start for start, _ in acquirer), default=timeline.end_ms)
    terminal.append((begun_ms, last_ms))
    spent = dict.fromkeys((name for name, _ in PARTIES), 0)
    marks = sorted(
        {
            timeline.start_ms,
            timeline.end_ms,
            *(at for spans in (buyer, acquirer, terminal) for span in spans for at in span),
        }
    )
    for start_ms, end_ms in itertools.pairwise(marks):
        if start_ms < timeline.start_ms or end_ms > timeline.end_ms:
            continue
        owner = next(
            (
                name
                for (name, _), spans in zip(PARTIES, (buyer, acquirer, terminal), strict=False)
                if any(first <= start_ms and end_ms <= last for first, last in spans)
            ),
            "Paydesk",
        )
        spent[owner] += end_ms - start_ms
    return [Share(name, style, spent[name]) for name, style in PARTIES if spent[name] > 0]
