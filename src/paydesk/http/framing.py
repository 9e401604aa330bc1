"""The length of a request's body by its head, and which heads are unambiguous (RFC 9112 section 6)."""

from __future__ import annotations

from paydesk.http.body import BODY_BYTES_MAX

NAMES = frozenset({b"content-length", b"transfer-encoding"})
VERSIONS = frozenset({"1.1", "1.0"})

Field = tuple[bytes, bytes]


def is_unambiguous(fields: list[Field], version: str) -> bool:
    """Return whether these fields of a supported version are none, one length, or chunked coding in HTTP/1.1."""
    if version not in VERSIONS or not fields:
        return version in VERSIONS
    name, value = fields[0]
    is_chunked = version == "1.1" and value.strip().lower() == b"chunked"
    return len(fields) == 1 and (name == b"content-length" or is_chunked)


def is_small(field: Field) -> bool:
    """Return whether the field is a length within the limit of a body."""
    return field[0] == b"content-length" and len(field[1]) <= 5 and int(field[1]) <= BODY_BYTES_MAX
