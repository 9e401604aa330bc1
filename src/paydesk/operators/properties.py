"""The properties of a request body as people fill them in: in a form of the console, or with options of a command."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from paydesk.core.text.sentences import value_at
from paydesk.operators.documents import Choices, Document, Reader
from paydesk.operators.words import Shown, Widget

_BOOLEAN = ("true", "false")
CHARACTERS_MAX = 200
"""Maximum of a text whose type has no limit."""
ROWS_MAX, PAGE_ROWS = 2000, 200
"""Maximum rows of a list that are read, and the rows of each request."""
_NUMBER_SEPARATORS = re.compile(r"[\s,;%]+")
_NUMBER = re.compile("-?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a body with what people see of it."""

    name: str
    shown: Shown
    widget: Widget
    is_required: bool
    """Whether a body needs it."""
    default: Any
    values: tuple[str, ...]
    """The values that its type permits; empty for any."""
    characters_max: int
    pattern: str
    """The pattern of its type; empty for any text."""

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
            return _BOOLEAN[not value] if self.widget == "select" else "yes" if value else ""
        if isinstance(value, list):
            return ("\n" if self.widget == "lines" else ", ").join(map(str, value))
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
                return chosen if self.widget == "choices" else " ".join(sorted(chosen))
            case "checkbox":
                return bool(text)
            case "lines":
                return [line.strip() for line in text.splitlines() if line.strip()]
            case "numbers":
                return [_number(part) for part in _NUMBER_SEPARATORS.split(text) if part]
            case "number":
                return _number(text) if text else None
        return text == _BOOLEAN[0] if self.values == _BOOLEAN else text or None


@cache
def properties(model: type[BaseModel], names: tuple[str, ...] | None = None) -> Sequence[Property]:
    """Return the properties of a model that are `Shown`, or those with these names in this order."""
    schemas = model.model_json_schema()["properties"] if model.model_fields else {}
    given = ((name, _property(name, field, schemas[name])) for name, field in model.model_fields.items())
    by_name = {name: one for name, one in given if one is not None}
    return list(by_name.values()) if names is None else [by_name[name] for name in names]


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
    page: Document = {"next": None}
    while "next" in page and len(rows) < ROWS_MAX:
        page = await api.get(path, **query, after=page["next"], limit=PAGE_ROWS)
        rows += page["data"]
    return rows


def _property(name: str, field: FieldInfo, schema: Document) -> Property | None:
    # What is annotated inside `X | None` comes first: the outermost is the last.
    inner = (part for one in get_args(field.annotation) for part in getattr(one, "__metadata__", ()))
    shown = next((one for one in reversed((*inner, *field.metadata)) if isinstance(one, Shown)), None)
    if shown is None:
        return None
    schema = schema.get("anyOf", (schema,))[0]
    item = schema.get("items", schema)
    values = tuple(item.get("enum") or (shown.labels if isinstance(shown.labels, Mapping) else ()))
    longest = item.get("maxLength", CHARACTERS_MAX)
    if item is not schema:  # With a separator after each.
        longest = schema.get("maxItems", 1) * (longest + 1)
    default = None if field.default is PydanticUndefined else field.default
    widget = shown.widget or _widget(schema["type"], item["type"], has_choices=bool(values or shown.labels))
    return Property(name, shown, widget, field.is_required(), default, values, longest, item.get("pattern", ""))


def _widget(kind: str, of: str, *, has_choices: bool) -> Widget:
    match kind, of, has_choices:
        case "array", "integer", _:
            return "numbers"
        case "array", _, _:
            return "choices" if has_choices else "lines"
        case "boolean", _, False:
            return "checkbox"
        case _, _, True:
            return "select"
    return "number" if kind == "integer" else "text"


def _number(text: str) -> int | str:
    return int(text) if _NUMBER.fullmatch(text) else text
