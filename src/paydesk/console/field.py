"""A field of a form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """A field. `kind`: text, textarea, select, checkbox, hidden, number, email, password."""

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    options: Sequence[tuple[str, str]] = ()
    """The values of a select, with their labels."""
    hint: str = ""
    required: bool = True
    maxlength: int = 200
    """Longer texts are refused with their length, never cut."""
    inputmode: str = ""
    noun: str = ""
    """The name in sentences, by default the label: "The {noun} must be at most 21.40"."""
    sets: Sequence[str] = ()
    """The properties of the request that it sets, if they have other names."""
    group: str = ""
    """The heading above it and the fields after it with the same one."""
    rows: int = 6
    """The height of a textarea in lines."""
