"""Playlists: the scripts that a virtual terminal plays with one order after another, perhaps over a flaky network.

As text: scripts separated by commas, each with a delay (`@2s`) and a number of times (`*3`) if it needs them, after an
optional `flaky:<probability>:`. `flaky:0.05:approve:0.1s*3,cancel@2s` is three payments, then a canceled order, and
again from the start, with one message in twenty lost, doubled, late or reordered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from paydesk.sandbox.terminals import scripts
from paydesk.sandbox.terminals.scripts import Script

FLAKY_DEFAULT = 0.05
PARTS_MAX, TIMES_MAX, DELAY_SECONDS_MAX = 100, 1_000, 60.0

_PART = re.compile(r"(?P<script>[^@*]*)(?:@(?P<delay>\d{1,2}(?:\.\d{1,3})?)s)?(?:\*(?P<times>\d{1,4}))?", re.ASCII)
_PROBABILITY = re.compile(r"\d?\.?\d{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Part:
    """A script, the number of orders in a row that it is for, and the pause before each is acknowledged."""

    script: Script
    times: int = 1
    delay_seconds: float = 0.0

    def __str__(self) -> str:
        delay = f"@{self.delay_seconds:g}s" if self.delay_seconds else ""
        return f"{self.script}{delay}" + (f"*{self.times}" if self.times > 1 else "")


@dataclass(frozen=True, slots=True)
class Playlist:
    """The parts, which repeat from the start after the last, and the probability of a fault of each message."""

    parts: tuple[Part, ...]
    flaky: float = 0.0

    def __str__(self) -> str:
        parts = ",".join(map(str, self.parts))
        return f"flaky:{self.flaky:g}:{parts}" if self.flaky else parts

    def at(self, number: int) -> Part:
        """Return the part for the terminal's order of that number, counted from 0."""
        number %= sum(part.times for part in self.parts)
        for part in self.parts:
            if number < part.times:
                return part
            number -= part.times
        raise AssertionError("the number is smaller than the sum")


def parse(text: str, named: Mapping[str, Playlist] | None = None) -> Playlist:
    """Parse a playlist, a single script, or one of these names. Raises `ValueError` that says what is wrong."""
    flaky = 0.0
    first, _, rest = text.partition(":")
    if first == "flaky":
        probability, _, after = rest.partition(":")
        is_given = _PROBABILITY.fullmatch(probability) is not None
        flaky, text = (float(probability), after) if is_given else (FLAKY_DEFAULT, rest)
        text = text or "approve"
        if not 0 < flaky < 1:
            raise ValueError(f"the probability of flaky is {probability}; it must be above 0 and below 1, such as 0.05")
    if named and text in named:
        return Playlist(named[text].parts, flaky)
    parts = text.split(",")
    if len(parts) > PARTS_MAX:
        raise ValueError(f"{len(parts)} scripts in a list exceed the limit of {PARTS_MAX}")
    return Playlist(tuple(_part(part.strip()) for part in parts), flaky)


def part_of(script: str, *, times: int = 1, delay_seconds: float = 0.0) -> Part:
    """Return the part. Raises `ValueError` for an invalid script and for a number out of bounds."""
    if not 1 <= times <= TIMES_MAX:
        raise ValueError(f"{script!r} {times} times: the number must be from 1 to {TIMES_MAX:,}")
    if not 0 <= delay_seconds <= DELAY_SECONDS_MAX:
        raise ValueError(f"{script!r} after {delay_seconds:g}s: the delay must be from 0s to {DELAY_SECONDS_MAX:g}s")
    return Part(scripts.parse(script), times, delay_seconds)


def _part(text: str) -> Part:
    found = _PART.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a script with a delay and a number of times, such as approve:0.2s@2s*3")
    return part_of(found["script"], times=int(found["times"] or 1), delay_seconds=float(found["delay"] or 0))
