"""Validate a document against a model: return its instance, or its faults with their paths in document order."""

from __future__ import annotations

import heapq
from typing import Any

from pydantic import BaseModel, ValidationError

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
from paydesk.core.model import CHOICE_FAULT
from paydesk.core.text import characters as text
from paydesk.core.text.redaction import NAME_CHARACTERS_MAX, redacted, redacted_name
from paydesk.platform.http.body import parse_form

FAULTS_MAX = 50
LOGGED_FAULTS_MAX = 5
PATH_CHARACTERS_MAX = 300

Path = tuple[str | int, ...]
Rule = tuple[ErrorKind, str]
"""The kind of a fault, and the rule that is broken."""

# A body without any of these bytes has no forbidden character, neither escaped nor in UTF-8.
_FIRST_BYTES = b"\\\x7f\xc2\xd8\xdb\xdc\xe0\xe1\xe2\xe3\xef\xf0\xf3"
_OTHER_BYTES = bytes(byte for byte in range(256) if byte not in _FIRST_BYTES)


def validate(
    model: type[BaseModel], document: Any, raw: bytes, context: dict[str, Any] | None = None
) -> tuple[BaseModel | None, list[Fault]]:
    """Return the model's instance, or the first 50 faults of the document in document order."""
    found: dict[Path, Any] = {}
    if (b"null" in raw or raw.translate(None, _OTHER_BYTES)) and isinstance(document, dict | list):
        _collect_forbidden(document, (), found)
    try:
        instance = model.model_validate(document, context=context)
    except ValidationError as error:
        needed: dict[Path, list[str]] = {}
        for fault in error.errors(include_url=False, include_context=False):
            if fault["type"] == "missing" and fault["input"] == {}:
                needed.setdefault(fault["loc"][:-1], []).append(str(fault["loc"][-1]))
            else:
                found.setdefault(fault["loc"], fault)
        for path, names in needed.items():
            found.setdefault(path, (MINIMUM_PROPERTIES, f"must have {', '.join(names)}"))
    if not found:
        return instance, []
    return None, [_fault(path, found[path]) for path in heapq.nsmallest(FAULTS_MAX, found, key=_Order(document))]


def validate_form(model: type[BaseModel] | None, raw: bytes) -> BaseModel:
    """Return the model's instance of a form. Raises as `parse_form` does; the reason names fields, never values."""
    assert model is not None, "an operation with a form has a model"
    fields = parse_form(
        raw,
        invisible_allowed=getattr(model, "INVISIBLE_ALLOWED", ()),
        lines_allowed=getattr(model, "LINES_ALLOWED", ()),
    )
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        names = (str(redacted(fault["loc"][0]))[:NAME_CHARACTERS_MAX] for fault in faults if fault["loc"])
        raise PROPERTY_VALUE.with_reason(f"invalid fields of the form: {', '.join(names)}") from None


def refused(faults: list[Fault]) -> Refusal:
    """Return the refusal that lists the faults. It has the kind of the first; its reason names the first five."""
    reason = "; ".join(fault.detail for fault in faults[:LOGGED_FAULTS_MAX])
    more = len(faults) - LOGGED_FAULTS_MAX
    return Refusal(faults[0].kind, f"{reason}; and {more} more" if more > 0 else reason, faults=tuple(faults))


def json_path(path: Path) -> str:
    """Return a JSON path such as `$.transactions.payments[0].amount`, truncated after 300 characters."""
    whole = "$" + "".join(_step(step) for step in path)
    return whole if len(whole) <= PATH_CHARACTERS_MAX else f"{whole[:PATH_CHARACTERS_MAX]}…"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    name = redacted_name(step)
    return f"[{name}]" if name.startswith('"') else f".{name}"


def _collect_forbidden(container: Any, path: Path, faults: dict[Path, Any]) -> None:
    """Collect the first 50 nulls and forbidden characters of any field, in document order."""
    for step, value in container.items() if isinstance(container, dict) else enumerate(container):
        if isinstance(value, str):
            if text.has_forbidden(value):
                faults[*path, step] = PROPERTY_VALUE, text.RULE
        elif value is None:
            faults[*path, step] = PROPERTY_TYPE, "must not be null"
        elif isinstance(value, dict | list):
            _collect_forbidden(value, (*path, step), faults)
        if len(faults) >= FAULTS_MAX:
            return


_KINDS: dict[str, ErrorKind] = {
    "missing": REQUIRED_PROPERTIES,
    "extra_forbidden": UNSUPPORTED_PROPERTIES,
    "too_short": MINIMUM_ITEMS,
    "too_long": MAXIMUM_ITEMS,
}
_REPLACEMENTS = (
    ("Field required", "is required"),
    ("Extra inputs are not permitted", "is not known here"),
    (" after validation", ""),
    ("a valid string", "a string"),
    ("a valid list", "a valid array"),
)


def _fault(path: Path, fault: Any) -> Fault:
    """Return the fault at a path, which is a `Rule` or a fault of pydantic."""
    if isinstance(fault, tuple):
        kind, rule = fault
    else:
        name, rule, is_text = fault["type"], fault["msg"], isinstance(fault["input"], str)
        is_type = name.endswith("_type") or (name in ("literal_error", CHOICE_FAULT) and not is_text)
        kind = PROPERTY_TYPE if is_type else _KINDS.get(name, PROPERTY_VALUE)
        for pydantic_text, replacement in _REPLACEMENTS:
            rule = rule.replace(pydantic_text, replacement)
        _, should, expected = rule.partition(" should ")
        if name == "model_type":
            rule = "must be an object"
        elif should:
            rule = f"must {expected}"
    return Fault(kind, f"'{json_path(path)}' - {rule}")


class _Order:
    """The sort key of paths in document order; a missing member comes after the existing ones."""

    def __init__(self, document: Any) -> None:
        self._containers: dict[Path, tuple[Path, Any, dict[Any, int]]] = {(): ((), document, _indexes(document))}
        """The sort key of each path, its value, and the index of each member of the value."""

    def __call__(self, path: Path) -> tuple[Any, ...]:
        if not path:
            return ()
        outer = path[:-1]
        if outer not in self._containers:
            position = self(outer)
            _, values, indexes = self._containers[outer[:-1]]
            value = values[outer[-1]] if outer[-1] in indexes else None
            self._containers[outer] = position, value, _indexes(value)
        position, _, indexes = self._containers[outer]
        return (*position, indexes.get(path[-1], len(indexes)))


def _indexes(value: Any) -> dict[Any, int]:
    """Return the index of each member of an object or an array."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return {key: index for index, key in enumerate(keys)}
