"""Bodies: their framing (RFC 9112 section 6), and strict parsing within limits. `validation` validates them."""

from __future__ import annotations

import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import jiter

from paydesk.core.errors import (
    JSON_SYNTAX_ERROR,
    PAYLOAD_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    UNSUPPORTED_PROPERTIES,
    ErrorKind,
    Refusal,
)
from paydesk.core.text import characters as text

BODY_BYTES_MAX = 64 * 1024
DEPTH_MAX = 32
MEMBERS_MAX = 256
NAME_CHARACTERS_MAX = 128
NUMBER_DIGITS_MAX = 20
FORM_FIELDS_MAX = 50
_LINES = re.compile(r"[\r\n\t]")
FRAMING_HEADERS = frozenset({b"content-length", b"transfer-encoding"})
HTTP_VERSIONS = frozenset({"1.1", "1.0"})

HeaderField = tuple[bytes, bytes]
NameFault = Callable[[str, str, str], Refusal]
"""Returns the refusal for a reason, the name of a field and the rule that the field breaks."""

# One run of zeros for each run of a number's characters: finding a long one takes a fifth of an expression's time.
_AS_ZEROS = bytes(ord("0" if chr(byte) in "0123456789.eE+-" else " ") for byte in range(256))
_LONG_RUN = b"0" * (NUMBER_DIGITS_MAX + 1)
# Escapes in runs: a body of nothing but escapes takes a twentieth of the time.
_STRING = re.compile(rb'"[^"\\]*+(?:(?:\\.)++[^"\\]*+)*+"')
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_WITH_KEY = re.compile(r' "(.*)"', re.DOTALL)
_REPEATED = "is sent twice"


def is_framing_unambiguous(fields: list[HeaderField], version: str) -> bool:
    """Return whether these fields of a supported version are none, one length, or chunked coding in HTTP/1.1."""
    if version not in HTTP_VERSIONS or not fields:
        return version in HTTP_VERSIONS
    name, value = fields[0]
    is_chunked = version == "1.1" and value.strip().lower() == b"chunked"
    return len(fields) == 1 and (name == b"content-length" or is_chunked)


def is_small_length(field: HeaderField) -> bool:
    """Return whether the field is a length within the limit of a body."""
    return field[0] == b"content-length" and len(field[1]) <= 5 and int(field[1]) <= BODY_BYTES_MAX


def check_content_type(value: str | None, accepted: tuple[str, ...] = ("application/json",)) -> str:
    """Return the media type of a request with a body. Raises `unsupported_media_type`."""
    if value in accepted:
        return value
    media_type, _, parameters = (value or "").partition(";")
    media_type = media_type.strip().lower()
    if media_type not in accepted:
        raise UNSUPPORTED_MEDIA_TYPE.with_reason(f"content type {media_type[:80]!r}")
    for parameter in filter(None, (part.strip().lower() for part in parameters.split(";"))):
        name, _, given = parameter.partition("=")
        if name.strip() == "charset" and given.strip(' "') not in ("utf-8", "utf8"):
            raise UNSUPPORTED_MEDIA_TYPE.with_reason("charset is not UTF-8")
    return media_type


def too_large(bytes_max: int = BODY_BYTES_MAX) -> Refusal:
    """Return the refusal of a body over the size limit."""
    message = None if bytes_max == BODY_BYTES_MAX else f"The body is larger than {bytes_max:,} bytes."
    return PAYLOAD_TOO_LARGE.with_reason(f"body of more than {bytes_max} bytes", message=message)


def parse_json(raw: bytes, name_fault: NameFault | None = None) -> Any:
    """Return the document: strict JSON in UTF-8, no duplicate key, limited in depth, members, names and digits.

    Raises `json_syntax_error`; for a duplicate or long key the refusal of `name_fault` if there is one.
    """
    try:
        document = jiter.from_json(raw, catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError as error:
        # A key may be a secret, so it is removed from the message.
        reason, key = _WITH_KEY.sub("", str(error)), _WITH_KEY.search(str(error))
        if name_fault is not None and key is not None:
            raise name_fault(reason, key[1], _REPEATED) from None
        raise JSON_SYNTAX_ERROR.with_reason(reason, reason) from None
    # A body with few brackets and commas, and short texts, is within the limits: most documents need no traversal.
    if raw.count(b"{") + raw.count(b"[") > DEPTH_MAX or (len(raw) > 2 * MEMBERS_MAX and raw.count(b",") >= MEMBERS_MAX):
        _check_shape(document)
    # An escaped quotation mark may be inside a name.
    if len(raw) > NAME_CHARACTERS_MAX and (b"\\" in raw or max(map(len, raw.split(b'"'))) > NAME_CHARACTERS_MAX):
        _check_names(document, name_fault)
    if _LONG_RUN in raw.translate(_AS_ZEROS):
        numbers = _NUMBER.findall(_STRING.sub(b"", raw))
        if any(len(number.translate(None, b".eE+-")) > NUMBER_DIGITS_MAX for number in numbers):
            raise JSON_SYNTAX_ERROR.with_reason("long number", f"a number must have at most {NUMBER_DIGITS_MAX} digits")
    return document


def parse_form(
    raw: bytes,
    *,
    invisible_allowed: Collection[str] = (),
    lines_allowed: Collection[str] = (),
    name_fault: NameFault | None = None,
) -> dict[str, str]:
    """Return a form's fields.

    Values of fields in `invisible_allowed` may have invisible characters, of those in `lines_allowed` line ends and
    tabs.
    Raises `unsupported_properties` for a repeated field, `json_syntax_error` for a malformed form and a long name; for
    a repeated field, a long name and a value with forbidden characters the refusal of `name_fault` if there is one.
    """
    try:
        sent = raw.decode("ascii")
        if _BROKEN_ESCAPE.search(sent):
            raise ValueError("an escape is not two hexadecimal digits")
        pairs = urllib.parse.parse_qsl(
            sent,
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=FORM_FIELDS_MAX,
        )
    except ValueError:
        raise JSON_SYNTAX_ERROR.with_reason("the form is not well-formed") from None
    for name, _ in pairs:
        if len(name) > NAME_CHARACTERS_MAX:
            raise _long_name(name, name_fault)
    fields = dict(pairs)
    if len(fields) != len(pairs):
        repeated = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _form_fault(UNSUPPORTED_PROPERTIES, "a field was sent twice", repeated, _REPEATED, name_fault)
    for name, value in pairs:
        checked = _LINES.sub(" ", value) if name in lines_allowed else value
        if text.has_forbidden(name) or (text.has_control if name in invisible_allowed else text.has_forbidden)(checked):
            reason = "the form contains control characters or invisible characters"
            raise _form_fault(JSON_SYNTAX_ERROR, reason, name, text.RULE, name_fault)
    return fields


def _form_fault(kind: ErrorKind, reason: str, name: str, rule: str, name_fault: NameFault | None) -> Refusal:
    return kind.with_reason(reason) if name_fault is None else name_fault(reason, name, rule)


def _check_shape(document: Any) -> None:
    """Raise `json_syntax_error` for a document that is nested too deep or has too many members in one container."""
    depth, level = 0, [document]
    while level := [value for value in level if isinstance(value, dict | list)]:
        depth += 1
        if depth > DEPTH_MAX:
            raise JSON_SYNTAX_ERROR.with_reason("too deep", f"must be at most {DEPTH_MAX} levels deep")
        if max(map(len, level)) > MEMBERS_MAX:
            raise JSON_SYNTAX_ERROR.with_reason(
                "too many members", f"an object or an array must have at most {MEMBERS_MAX} members"
            )
        level = [child for value in level for child in (value.values() if isinstance(value, dict) else value)]


def _check_names(document: Any, name_fault: NameFault | None) -> None:
    """Refuse a name that is too long: a refusal shows names masked, which takes time for each of their digits."""
    level = [document]
    while level := [value for value in level if isinstance(value, dict | list)]:
        for name in (name for value in level if isinstance(value, dict) for name in value):
            if len(name) > NAME_CHARACTERS_MAX:
                raise _long_name(name, name_fault)
        level = [child for value in level for child in (value.values() if isinstance(value, dict) else value)]


def _long_name(name: str, name_fault: NameFault | None) -> Refusal:
    if name_fault is not None:
        return name_fault("long name", name, f"must be a name of at most {NAME_CHARACTERS_MAX} characters")
    return JSON_SYNTAX_ERROR.with_reason("long name", f"a name must have at most {NAME_CHARACTERS_MAX} characters")
