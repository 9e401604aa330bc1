"""Reading what was sent: bounded, strict in syntax, validated against a model, with all faults in document order."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import jiter
from pydantic import BaseModel, ValidationError

from paydesk.errors import (
    JSON_SYNTAX_ERROR,
    MAXIMUM_ITEMS,
    MINIMUM_ITEMS,
    MINIMUM_PROPERTIES,
    PAYLOAD_TOO_LARGE,
    PROPERTY_TYPE,
    PROPERTY_VALUE,
    REQUIRED_PROPERTIES,
    UNSUPPORTED_MEDIA_TYPE,
    UNSUPPORTED_PROPERTIES,
    ErrorKind,
    Fault,
    Refusal,
)
from paydesk.redaction import redacted

BODY_BYTES_MAX = 64 * 1024
DEPTH_MAX = 32
NUMBER_DIGITS_MAX = 20
FAULTS_MAX = 50

Path = tuple[str | int, ...]

_LONG_NUMBER = re.compile(rb"[0-9][0-9.eE+-]{20}")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def check_content_type(value: str | None, accepted: tuple[str, ...] = ("application/json",)) -> str:
    """The media type of a request that has a body. Raises `unsupported_media_type`."""
    if value in accepted:
        return value
    media_type, _, parameters = (value or "").partition(";")
    media_type = media_type.strip().lower()
    if media_type not in accepted:
        raise UNSUPPORTED_MEDIA_TYPE.because(f"content type {media_type[:80]!r}")
    for parameter in filter(None, (part.strip().lower() for part in parameters.split(";"))):
        name, _, given = parameter.partition("=")
        if name.strip() == "charset" and given.strip(' "') not in ("utf-8", "utf8"):
            raise UNSUPPORTED_MEDIA_TYPE.because("charset is not UTF-8")
    return media_type


def too_large() -> Refusal:
    """The refusal of a body over the limit."""
    return PAYLOAD_TOO_LARGE.because(f"body of more than {BODY_BYTES_MAX} bytes")


def parse_json(raw: bytes) -> Any:
    """The document: strict JSON in UTF-8, no duplicate key, bounded in depth and in digits.

    Raises `json_syntax_error`.
    """
    try:
        document = jiter.from_json(raw, catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError as error:
        raise JSON_SYNTAX_ERROR.because(_without_content(str(error)), _without_content(str(error))) from None
    if raw.count(b"{") + raw.count(b"[") > DEPTH_MAX and _depth(document) > DEPTH_MAX:
        raise JSON_SYNTAX_ERROR.because("too deep", f"must be at most {DEPTH_MAX} levels deep")
    if _LONG_NUMBER.search(raw) and _has_long_number(raw):
        raise JSON_SYNTAX_ERROR.because("long number", f"a number must have at most {NUMBER_DIGITS_MAX} digits")
    return document


def parse_form(raw: bytes) -> dict[str, str]:
    """A form's fields. Raises `unsupported_properties` for one sent twice, `json_syntax_error` where it is no form."""
    try:
        pairs = urllib.parse.parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict", max_num_fields=50
        )
    except ValueError:
        raise JSON_SYNTAX_ERROR.because("the form is not well-formed") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise UNSUPPORTED_PROPERTIES.because("a field was sent twice")
    if any(_CONTROL.search(text) for pair in pairs for text in pair):
        raise JSON_SYNTAX_ERROR.because("the form has control characters")
    return fields


def validate_form(model: type[BaseModel] | None, raw: bytes) -> BaseModel:
    """The model's instance, of a form. Raises as `parse_form` does; what a fault says names fields, never values."""
    assert model is not None, "an operation that takes a form has a model of it"
    try:
        return model.model_validate(parse_form(raw))
    except ValidationError as error:
        names = (str(redacted(fault["loc"][0]))[:64] for fault in error.errors(include_input=False) if fault["loc"])
        raise PROPERTY_VALUE.because(f"of the form's fields not as they should be: {', '.join(names)}") from None


def validate(
    model: type[BaseModel], document: Any, raw: bytes, context: dict[str, Any] | None = None
) -> tuple[BaseModel | None, list[Fault]]:
    """The model's instance, or every fault of the document in document order."""
    found: dict[Path, Fault] = {}
    # Only where one of these stands in the bytes can there be a null or a control character.
    if b"null" in raw or b"\\" in raw or b"\x7f" in raw or b"\xc2" in raw:
        for path, what in _forbidden(document, ()):
            kind = PROPERTY_TYPE if what == "must not be null" else PROPERTY_VALUE
            found[path] = Fault(kind, f"'{shown(path)}' - {what}")
    try:
        instance = model.model_validate(document, context=context)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=True):
            path, kind, what = _translated(fault, document)
            found.setdefault(path, Fault(kind, f"'{shown(path)}' - {what}"))
        instance = None
    if not found:
        return instance, []
    ordered = sorted(found, key=lambda path: _place(path, document))
    return None, [found[path] for path in ordered[:FAULTS_MAX]]


def refused(faults: list[Fault]) -> Refusal:
    """The refusal that lists all faults of a body; its kind is the first one's."""
    return Refusal(faults[0].kind, "; ".join(fault.detail for fault in faults), faults=tuple(faults))


def shown(path: Path) -> str:
    """A JSON path: `$.transactions.payments[0].amount`."""
    return "$" + "".join(_step(step) for step in path)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    # A name may be anything, a card number or a secret too: masked before it is cut.
    step = str(redacted(step))
    return f".{step}" if _PLAIN_KEY.fullmatch(step) and len(step) <= 64 else f"[{json.dumps(step[:64])}]"


_WITH_KEY = re.compile(r' ".*"', re.DOTALL)


def _without_content(message: str) -> str:
    # A key may be anything, a secret or a quote too: it stays out of the message.
    return _WITH_KEY.sub("", message)


def _depth(document: Any) -> int:
    depth, level = 0, [document]
    while level:
        depth += 1
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += [child for child in value.values() if isinstance(child, dict | list)]
            elif isinstance(value, list):
                below += [child for child in value if isinstance(child, dict | list)]
        level = below
    return depth


def _has_long_number(raw: bytes) -> bool:
    numbers = _NUMBER.findall(_STRING.sub(b"", raw))
    return any(sum(digit in b"0123456789" for digit in number) > NUMBER_DIGITS_MAX for number in numbers)


def _forbidden(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Where a null or a control character stands, whatever field it is."""
    if value is None and path:
        yield path, "must not be null"
    elif isinstance(value, str) and _CONTROL.search(value):
        yield path, "must not contain control characters"
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _forbidden(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _forbidden(child, (*path, index))


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


def _translated(fault: Any, document: Any) -> tuple[Path, ErrorKind, str]:
    path: Path = tuple(fault["loc"])
    kind: str = fault["type"]
    if kind == "missing" and path and _at(document, path[:-1]) == {}:
        return path[:-1], MINIMUM_PROPERTIES, "must not be empty"
    if kind.endswith("_type") or (kind == "literal_error" and not isinstance(fault["input"], str)):
        return path, PROPERTY_TYPE, _sentence(kind, fault["msg"])
    return path, _KINDS.get(kind, PROPERTY_VALUE), _sentence(kind, fault["msg"])


def _sentence(kind: str, message: str) -> str:
    for pydantic_says, ours in _WORDS:
        message = message.replace(pydantic_says, ours)
    if kind == "model_type":
        return "must be an object"
    _, should, expected = message.partition(" should ")
    return f"must {expected}" if should else message


def _at(document: Any, path: Path) -> Any:
    for step in path:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _place(path: Path, document: Any) -> tuple[int, ...]:
    """Where in the document the path stands; what is missing comes after what is there."""
    place: list[int] = []
    for step in path:
        if isinstance(document, dict):
            place.append(list(document).index(step) if step in document else len(document))
            document = document.get(step)
        elif isinstance(document, list) and isinstance(step, int):
            place.append(step)
            document = document[step] if step < len(document) else None
    return tuple(place)
