"""Where a request's body ends: what its head says about it, and which heads leave no doubt (RFC 9112 section 6)."""

from __future__ import annotations

from paydesk.http.body import BODY_BYTES_MAX

NAMES = frozenset({b"content-length", b"transfer-encoding"})
VERSIONS = frozenset({"1.1", "1.0"})

Field = tuple[bytes, bytes]


def is_clear(fields: list[Field], version: str) -> bool:
    """Return whether these fields, at least one, give one length, or HTTP/1.1's chunks and no other coding."""
    name, value = fields[0]
    is_chunked = version == "1.1" and value.strip().lower() == b"chunked"
    return len(fields) == 1 and (name == b"content-length" or is_chunked)


def is_small(field: Field) -> bool:
    """Return whether the field is a length that a request's body may have."""
    return field[0] == b"content-length" and len(field[1]) <= 5 and int(field[1]) <= BODY_BYTES_MAX
