"""Sentences as data, which can be listed, checked and translated: those that hold of some values, filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

Names = Mapping[str, Any]
"""The values that sentences can name: JSON values by their names."""


@dataclass(frozen=True, slots=True)
class When:
    """A sentence on a condition: `text` if the value at `path` is set or, with `values`, is one of them.

    `path` is `status` or `answer.released.type`. A value that is missing, empty, zero or false is not set.
    """

    path: str
    text: str = ""
    values: tuple[object, ...] = ()
    otherwise: str = ""


class First(tuple[str | When, ...]):
    """The first of these sentences that holds."""

    __slots__ = ()

    def __new__(cls, *lines: str | When) -> Self:
        """Return the alternatives in the order in which they are tried."""
        return super().__new__(cls, lines)


Line = str | When | First
Lines = Line | tuple[Line, ...]


def holding(lines: Lines, names: Names) -> list[str]:
    """Return the sentences that hold, filled in."""
    return [text.format_map(names) for line in each(lines) if (text := _chosen(line, names))]


def text_of(lines: Lines, names: Names) -> str:
    """Return the sentences that hold as one text."""
    return " ".join(holding(lines, names))


def unconditional(lines: Lines) -> list[str]:
    """Return the sentences that always hold, as they are written."""
    return [line for line in each(lines) if isinstance(line, str)]


def value_at(names: Names, path: str) -> Any:
    """Return the value at a path, None if there is none. Numbers in the path are positions in a list."""
    found: Any = names
    for part in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def each(lines: Lines) -> tuple[Line, ...]:
    """Return the lines one by one."""
    return lines if isinstance(lines, tuple) and not isinstance(lines, First) else (lines,)


def _chosen(line: Line, names: Names) -> str:
    if isinstance(line, str):
        return line
    if isinstance(line, First):
        return next(filter(None, (_chosen(one, names) for one in line)), "")
    value = value_at(names, line.path)
    return line.text if (value in line.values if line.values else value) else line.otherwise
