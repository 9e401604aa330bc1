"""Playlists: the scripts that a virtual terminal plays with one order after another, perhaps over a flaky network.

As text: scripts separated by commas, each with a delay (`@2s`) and a number of times (`*3`) if it needs them, after an
optional `flaky:<probability>:`. `flaky:0.05:approve:0.1s*3,cancel@2s` is three payments, then a canceled order, and
again from the start, with one request in twenty disturbed.

As a file in TOML: each array of tables is a playlist, with its name, and in each table a `script`, how many `times`,
and a `delay_seconds`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from paydesk.core.faults import EVERY_MAX
from paydesk_dev.virtual.scripts import scripts
from paydesk_dev.virtual.scripts.scripts import Script

FLAKY_DEFAULT = 0.05
FLAKY_MIN, FLAKY_MAX = 1 / EVERY_MAX, 0.5
"""One request in `EVERY_MAX`, and one in two; 1 is each."""
FILE_BYTES_MAX = 100_000
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
    """The parts, which repeat from the start after the last, and the probability of a fault of each request."""

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


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    script: str
    times: int = 1
    delay_seconds: float = 0.0


_Steps = Annotated[list[_Step], msgspec.Meta(min_length=1, max_length=PARTS_MAX)]


def parse(text: str, named: Mapping[str, Playlist] | None = None, *, is_stored: bool = False) -> Playlist:
    """Parse a playlist, a single script, or one of these names. Raises `ValueError` that says what is wrong.

    One that is stored may have any probability: earlier versions took others.
    """
    flaky = 0.0
    first, _, rest = text.partition(":")
    if first == "flaky":
        probability, _, after = rest.partition(":")
        is_given = _PROBABILITY.fullmatch(probability) is not None
        flaky, text = (float(probability), after) if is_given else (FLAKY_DEFAULT, rest)
        text = text or "approve"
        is_drawn = FLAKY_MIN <= flaky <= FLAKY_MAX or flaky == 1
        if not is_drawn and not (is_stored and 0 < flaky < 1):
            valid = f"from {FLAKY_MIN} to {FLAKY_MAX}, such as 0.05, or 1"
            raise ValueError(f"the probability of flaky is {probability}; it must be {valid}")
    if named and text in named:
        return Playlist(named[text].parts, flaky)
    texts = text.split(",")
    if len(texts) > PARTS_MAX:
        raise ValueError(f"{len(texts)} scripts in a list exceed the limit of {PARTS_MAX}")
    parts = list[Part]()
    for part in map(str.strip, texts):
        fields = _PART.fullmatch(part)
        if fields is None:
            raise ValueError(f"{part!r} is not a script with a delay and a number of times, such as approve:0.2s@2s*3")
        parts.append(_part(fields["script"], int(fields["times"] or 1), float(fields["delay"] or 0)))
    return Playlist(tuple(parts), flaky)


def canonical(text: str) -> str:
    """Return a playlist as it is stored. Raises `ValueError` that names the scripts there are."""
    try:
        return str(parse(text))
    except ValueError:
        raise ValueError(f"must be one of {scripts.AVAILABLE}") from None


def read(path: Path) -> dict[str, Playlist]:
    """Return the playlists of the file by name. Raises `ValueError` that names the file and the place."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ValueError(f"The script file {path} cannot be read: {error.strerror}.") from None
    if len(text) > FILE_BYTES_MAX:
        raise ValueError(f"The script file {path} has {len(text):,} bytes; the limit is {FILE_BYTES_MAX:,}.")
    try:
        document = tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"The script file {path} is not TOML: {error}.") from None
    if not document:
        raise ValueError(f"The script file {path} has no script. Add one, such as [[lunch]] with script = 'approve'.")
    return {name: _read(f"The script file {path} is invalid at", name, steps) for name, steps in document.items()}


def _read(invalid: str, name: str, document: object) -> Playlist:
    try:
        steps = msgspec.convert(document, _Steps)
    except msgspec.ValidationError as error:
        hint = "A step has a script, and perhaps times and delay_seconds."
        raise ValueError(f"{invalid} [[{name}]]: {error}. {hint}") from None
    parts = list[Part]()
    for number, step in enumerate(steps, 1):
        try:
            parts.append(_part(step.script, step.times, step.delay_seconds))
        except ValueError as error:
            raise ValueError(f"{invalid} step {number} of [[{name}]]: {error}.") from None
    return Playlist(tuple(parts))


def _part(script: str, times: int, delay_seconds: float) -> Part:
    if not 1 <= times <= TIMES_MAX:
        raise ValueError(f"{script!r} {times} times: the number must be from 1 to {TIMES_MAX:,}")
    if not 0 <= delay_seconds <= DELAY_SECONDS_MAX:
        raise ValueError(f"{script!r} after {delay_seconds:g}s: the delay must be from 0s to {DELAY_SECONDS_MAX:g}s")
    return Part(scripts.parse(script), times, delay_seconds)
