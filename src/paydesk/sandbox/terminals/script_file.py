"""Script files: playlists by name, in TOML.

Each array of tables is a playlist: its name, and in each table a `script`, how many `times`, and a `delay_seconds`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from paydesk.sandbox.terminals import playlists
from paydesk.sandbox.terminals.playlists import PARTS_MAX, Part, Playlist

FILE_BYTES_MAX = 100_000


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    script: str
    times: int = 1
    delay_seconds: float = 0.0


_Steps = Annotated[list[_Step], msgspec.Meta(min_length=1, max_length=PARTS_MAX)]


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
    return {name: _playlist(path, name, steps) for name, steps in document.items()}


def _playlist(path: Path, name: str, steps: object) -> Playlist:
    try:
        of_name = msgspec.convert(steps, _Steps)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"The script file {path} is invalid at [[{name}]]: {error}. A step has a script, and perhaps times and"
            " delay_seconds."
        ) from None
    return Playlist(tuple(_part(path, name, number, step) for number, step in enumerate(of_name, 1)))


def _part(path: Path, name: str, number: int, step: _Step) -> Part:
    try:
        return playlists.part_of(step.script, times=step.times, delay_seconds=step.delay_seconds)
    except ValueError as error:
        raise ValueError(f"The script file {path} is invalid at step {number} of [[{name}]]: {error}.") from None
