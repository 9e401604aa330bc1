"""The parts of an order's time that the buyer, the acquirer, the terminal and Paydesk took, from creation to end."""

from __future__ import annotations

import itertools

from paydesk.operators.orders.timeline.timeline import Timeline

PARTIES = (
    ("The buyer", "b-person"),
    ("The acquirer", "b-work"),
    ("The terminal", "b-slot"),
    ("Paydesk", "b-ink"),
)
"""Each party with its style, in the order of the bar. Time in which two act counts for the one that is first here."""


def shares_of(timeline: Timeline) -> list[tuple[str, str, int]]:
    """Return each party's share; together they are the time from create to end. Parties without time are left out."""
    bars, end_ms = timeline.bars, timeline.end_ms
    buyer = [bar for bar in bars if bar.start.lane == "terminal" and not bar.is_offer]
    acquirer = [bar for bar in bars if bar.start.lane == "acquirer"]
    offered = timeline.order["times"].get("offered_date")
    offered_ms = timeline.instant(offered) if offered else timeline.start_ms
    spans = (
        [(bar.start.at_ms, bar.end.at_ms) for bar in buyer],
        [(bar.start.at_ms, bar.end.at_ms) for bar in acquirer],
        [
            (offered_ms, min((bar.start.at_ms for bar in acquirer), default=end_ms)),
            *((bar.start.at_ms, bar.end.at_ms) for bar in bars if bar.is_offer),
        ],
        [(timeline.start_ms, end_ms)],
    )
    spent = [0] * len(PARTIES)
    marks = {at_ms for of in spans for span in of for at_ms in span if timeline.start_ms <= at_ms <= end_ms}
    for first_ms, last_ms in itertools.pairwise(sorted(marks)):
        part = (number for number, of in enumerate(spans) if any(a <= first_ms and last_ms <= b for a, b in of))
        spent[next(part)] += last_ms - first_ms
    return [(*party, length_ms) for party, length_ms in zip(PARTIES, spent, strict=True) if length_ms]
