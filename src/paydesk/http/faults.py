"""Validate a document against a model: return its instance, or its faults with their paths in document order."""

from __future__ import annotations

import heapq
import json
import re
from typing import Any

from pydantic import BaseModel, ValidationError

from paydesk.core import text
from paydesk.core.errors import (
    MAXIMUM_ITEMS,
    MINIMUM_ITEMS,
    MINIMUM_PROPERTIES,
    PROPERTY_TYPE,
    PROPERTY_VALUE,
    REQUIRED_PROPERTIES,
    UNSUPPORTED_PROPERTIES,
    ErrorKind,
    Fault,
    Refusal,
)
from paydesk.core.redaction import redacted
from paydesk.http.body import parse_form

FAULTS_MAX = 50
LOGGED_FAULTS_MAX = 5
PATH_CHARACTERS_MAX = 300
KEY_CHARACTERS_MAX = 64

Path = tuple[str | int, ...]
Rule = tuple[ErrorKind, str]
"""The kind of a fault, and the rule that was broken."""

# Without one of these bytes a body has no forbidden character, neither escaped nor in UTF-8.
_FIRST_BYTES = b"\\\x7f\xc2\xd8\xdb\xdc\xe0\xe1\xe2\xef\xf0\xf3"
_OTHER_BYTES = bytes(byte for byte in range(256) if byte not in _FIRST_BYTES)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def validate(
    model: type[BaseModel], document: Any, raw: bytes, context: dict[str, Any] | None = None
) -> tuple[BaseModel | None, list[Fault]]:
    """Return the model's instance, or the first 50 faults of the document in document order."""
    found: dict[Path, Any] = {}
    if (b"null" in raw or raw.translate(None, _OTHER_BYTES)) and isinstance(document, dict | list):
        _note_forbidden(document, (), found)
    try:
        instance = model.model_validate(document, context=context)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=False):
            found.setdefault(_path(fault), fault)
    if not found:
        return instance, []
    return None, [_fault(path, found[path]) for path in heapq.nsmallest(FAULTS_MAX, found, key=_Order(document))]


def validate_form(model: type[BaseModel] | None, raw: bytes) -> BaseModel:
    """Return the model's instance of a form. Raises as `parse_form` does; a reason names fields, never values."""
    assert model is not None, "an operation that takes a form has a model of it"
    fields = parse_form(raw, invisible_allowed=getattr(model, "INVISIBLE_ALLOWED", ()))
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        names = (str(redacted(fault["loc"][0]))[:KEY_CHARACTERS_MAX] for fault in faults if fault["loc"])
        raise PROPERTY_VALUE.with_reason(f"of the form's fields not as they should be: {', '.join(names)}") from None


def refused(faults: list[Fault]) -> Refusal:
    """Return the refusal that lists the faults. Its kind is that of the first; its reason, for the log, has five."""
    reason = "; ".join(fault.detail for fault in faults[:LOGGED_FAULTS_MAX])
    more = len(faults) - LOGGED_FAULTS_MAX
    return Refusal(faults[0].kind, f"{reason}; and {more} more" if more > 0 else reason, faults=tuple(faults))


def shown(path: Path) -> str:
    """Return a JSON path such as `$.transactions.payments[0].amount`, cut off after 300 characters."""
    whole = "$" + "".join(_step(step) for step in path)
    return whole if len(whole) <= PATH_CHARACTERS_MAX else f"{whole[:PATH_CHARACTERS_MAX]}…"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    # A name may be a card number or a secret: masked before it is cut.
    step = str(redacted(step))
    is_plain = len(step) <= KEY_CHARACTERS_MAX and _PLAIN_KEY.fullmatch(step)
    return f".{step}" if is_plain else f"[{json.dumps(step[:KEY_CHARACTERS_MAX])}]"


def _note_forbidden(container: Any, path: Path, found: dict[Path, Any]) -> None:
    """Note the first nulls and forbidden characters, whatever fields they are in, in document order."""
    for step, value in container.items() if isinstance(container, dict) else enumerate(container):
        if isinstance(value, str):
            if text.has_forbidden(value):
                found[*path, step] = PROPERTY_VALUE, text.RULE
        elif value is None:
            found[*path, step] = PROPERTY_TYPE, "must not be null"
        elif isinstance(value, dict | list):
            _note_forbidden(value, (*path, step), found)
        if len(found) >= FAULTS_MAX:
            return


def _path(fault: Any) -> Path:
    """Return the path of a fault of pydantic; where an empty object lacks a field, that of the object."""
    path: Path = fault["loc"]
    return path[:-1] if fault["type"] == "missing" and fault["input"] == {} else path


def _fault(path: Path, found: Any) -> Fault:
    kind, what = found if isinstance(found, tuple) else _translated(found)
    return Fault(kind, f"'{shown(path)}' - {what}")


_KINDS: dict[str, ErrorKind] = {
    "missing": REQUIRED_PROPERTIES,
    "extra_forbidden": UNSUPPORTED_PROPERTIES,
    "too_short": MINIMUM_ITEMS,
    "too_long": MAXIMUM_ITEMS,
}
_WORDS = (
    ("Field required", "is required"),
    ("Extra inputs are not permitted", "is not known here"),
    (" after validation", ""),
    ("a valid list", "a valid array"),
)


def _translated(fault: Any) -> Rule:
    kind: str = fault["type"]
    if kind == "missing" and fault["input"] == {}:
        return MINIMUM_PROPERTIES, "must not be empty"
    if kind.endswith("_type") or (kind == "literal_error" and not isinstance(fault["input"], str)):
        return PROPERTY_TYPE, _sentence(kind, fault["msg"])
    return _KINDS.get(kind, PROPERTY_VALUE), _sentence(kind, fault["msg"])


def _sentence(kind: str, message: str) -> str:
    for pydantic_says, ours in _WORDS:
        message = message.replace(pydantic_says, ours)
    if kind == "model_type":
        return "must be an object"
    _, should, expected = message.partition(" should ")
    return f"must {expected}" if should else message


class _Order:
    """The sort key of paths in document order; a missing member comes after those that the document has."""

    def __init__(self, document: Any) -> None:
        self._known: dict[Path, tuple[Path, Any, dict[Any, int]]] = {(): ((), document, _numbered(document))}
        """By path: its sort key, its value, and the index of each member of the value."""

    def __call__(self, path: Path) -> tuple[Any, ...]:
        if not path:
            return ()
        place, _, numbers = self._known.get(path[:-1]) or self._look_up(path[:-1])
        return (*place, numbers.get(path[-1], len(numbers)))

    def _look_up(self, path: Path) -> tuple[Path, Any, dict[Any, int]]:
        place = self(path)
        _, outer, numbers = self._known[path[:-1]]
        value = outer[path[-1]] if path[-1] in numbers else None
        self._known[path] = place, value, _numbered(value)
        return self._known[path]


def _numbered(value: Any) -> dict[Any, int]:
    """Return the index of each member of an object or an array."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return {key: place for place, key in enumerate(keys)}
