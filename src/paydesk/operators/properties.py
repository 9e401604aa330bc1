"""The properties of a request body as people fill them in: in a form of the console, or with options of a command."""

from __future__ import annotations

import re
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import MaxLen
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from paydesk.core.sentences import value_at
from paydesk.operators.words import Choices, Document, Reader, Shown

LINES, CHOICES, WORDS, NUMBERS, CHECKBOX, SELECT, NUMBER, TEXT = (
    "lines", "choices", "words", "numbers", "checkbox", "select", "number", "text"
)  # fmt: skip
"""The widgets: a text of several lines, one checkbox a value of a list, the same of a text of words, a list of numbers
as a text, …"""
OF_CHECKBOXES = (CHOICES, WORDS)
OF_LISTS = (LINES, NUMBERS)
_BOOLEAN = ("true", "false")
CHARACTERS_MAX = 200
"""Of a text whose type has no limit."""
ROWS_MAX, PAGE_ROWS = 2000, 200
"""Of a list: so many are read at most, and so many with each request."""
_NUMBER_SEPARATORS = re.compile(r"[\s,;%]+")
_NUMBER = re.compile("-?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a body with what people see of it."""

    name: str
    shown: Shown
    widget: str
    is_required: bool
    """Whether a body needs it."""
    default: Any
    values: tuple[str, ...]
    """Those that its type permits; empty for any."""
    characters_max: int
    pattern: str
    """That of its type; empty for any text."""

    def is_asked(self, names: Document) -> bool:
        """Return whether it is asked or sent, by the property or fact that it depends on."""
        only = self.shown.only
        return only is None or value_at(names, only[0]) in only[1]

    def shown_at_first(self, names: Document, *, is_new: bool) -> str:
        """Return the text of the form's field: of the object, or the default of something new."""
        if self.shown.value is not None:
            return self.shown.value(names)
        return self.text_of(self.default if is_new else names.get(self.name, self.default))

    def text_of(self, value: Any) -> str:
        """Return a value of the property as the text in a form."""
        if isinstance(value, bool):
            return _BOOLEAN[not value] if self.widget == SELECT else "yes" if value else ""
        if isinstance(value, list):
            return ("\n" if self.widget == LINES else ", ").join(map(str, value))
        return "" if value is None else str(value)

    def typed(self, sent: Mapping[str, str]) -> Any:
        """Return the value that was typed in a form; None if it was left empty.

        What is no number stays a text, so that the refusal names it.
        """
        text = sent.get(self.name, "")
        match self.widget:
            case "choices" | "words":
                prefix = f"{self.name}."
                chosen = [name.removeprefix(prefix) for name, text in sent.items() if name.startswith(prefix) and text]
                value: Any = chosen if self.widget == CHOICES else " ".join(sorted(chosen))
            case "checkbox":
                value = bool(text)
            case "lines":
                value = [line.strip() for line in text.splitlines() if line.strip()]
            case "numbers":
                value = [_number(part) for part in _NUMBER_SEPARATORS.split(text) if part]
            case "number":
                value = _number(text) if text else None
            case _:
                value = text == _BOOLEAN[0] if self.values == _BOOLEAN else text or None
        return value


@cache
def properties(model: type[BaseModel], names: tuple[str, ...] | None = None) -> Sequence[Property]:
    """Return the properties of a model that are `Shown`, or those with these names in this order."""
    found = {name: one for name in model.model_fields if (one := _property(model, name)) is not None}
    return list(found.values()) if names is None else [found[name] for name in names]


def typed_body(asked: Sequence[Property], sent: Mapping[str, str], names: Document) -> Document:
    """Return the body of what was typed in a form about an object, without what was left empty."""
    body: Document = {}
    for one in asked:
        value = one.typed(sent)
        if value is not None and one.is_asked({**names, **body}):
            body[one.name] = value
    return body


def listed(path: str, value: str, label: str) -> Callable[[Reader, Document], Awaitable[Choices]]:
    """Return a function that reads all rows of a list: as the choices of a select, each with a value and a label.

    `value` is the name of the property, `label` a text with the names of properties in braces.
    """

    async def read(api: Reader, _: Document) -> Choices:
        return [(str(one[value]), label.format_map(one)) for one in await every(api, path)]

    return read


async def every(api: Reader, path: str, **query: object) -> list[Document]:
    """Return all rows of a list, but no further pages than 2,000 rows: no form has use for more."""
    rows: list[Document] = []
    found: Document = {"next": None}
    while "next" in found and len(rows) < ROWS_MAX:
        found = await api.get(path, **query, after=found["next"], limit=PAGE_ROWS)
        rows += found["data"]
    return rows


def _property(model: type[BaseModel], name: str) -> Property | None:
    field = model.model_fields[name]
    kind, metadata = _unwrapped(field.annotation)
    metadata += field.metadata
    shown = next((one for one in reversed(metadata) if isinstance(one, Shown)), None)
    if shown is None:
        return None
    default = None if field.default is PydanticUndefined else field.default
    values = _values(kind) or (tuple(shown.labels) if isinstance(shown.labels, Mapping) else ())
    widget, longest = shown.widget or _widget(kind, shown), _longest(kind, metadata)
    pattern = next((found for one in metadata if (found := getattr(one, "pattern", None))), "")
    return Property(name, shown, widget, field.is_required(), default, values, longest, pattern)


def _unwrapped(annotation: Any) -> tuple[Any, list[Any]]:
    """Return a type without `Annotated` and `| None`, and the metadata in both, the outermost last."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        kind, found = _unwrapped(inner)
        return kind, [*found, *(part for one in metadata for part in getattr(one, "metadata", (one,)))]
    if get_origin(annotation) in (Union, types.UnionType):
        (inner,) = (one for one in get_args(annotation) if one is not type(None))
        return _unwrapped(inner)
    return annotation, []


def _values(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is list:
        kind, _ = _unwrapped(get_args(kind)[0])
    return get_args(kind) if get_origin(kind) is Literal else ()


def _longest(kind: Any, metadata: Sequence[Any]) -> int:
    """Return how many characters a value has at most as a text: all items of a list, each with a separator."""
    limit = next((one.max_length for one in metadata if isinstance(one, MaxLen)), None)
    if get_origin(kind) is list:
        return (limit or 1) * (_longest(*_unwrapped(get_args(kind)[0])) + 1)
    return limit or CHARACTERS_MAX


def _widget(kind: Any, shown: Shown) -> str:
    if get_origin(kind) is list:
        of, _ = _unwrapped(get_args(kind)[0])
        return NUMBERS if of is int else CHOICES if shown.labels is not None or _values(kind) else LINES
    if kind is bool and shown.labels is None:
        return CHECKBOX
    if shown.labels is not None or _values(kind):
        return SELECT
    return NUMBER if kind is int else TEXT


def _number(text: str) -> int | str:
    return int(text) if _NUMBER.fullmatch(text) else text
