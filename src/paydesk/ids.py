"""Identifiers: ULIDs with a prefix, and the numbers that name sellers and applications."""

from __future__ import annotations

import re
import secrets

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [a + b for a in _CROCKFORD for b in _CROCKFORD]

ULID_PATTERN = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
ORDER_ID_PATTERN = f"^ORD{ULID_PATTERN}$"
ORDER_ID = re.compile(ORDER_ID_PATTERN)


def ulid(now_ms: int) -> str:
    """26 characters of Crockford base32: 48 bits of time, 80 random ones."""
    number = (now_ms << 80) | secrets.randbits(80)
    pairs = _PAIRS
    return "".join([pairs[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def seller_number() -> int:
    """A new seller's `user_id`: ten digits."""
    return 1_000_000_000 + secrets.randbelow(9_000_000_000)


def application_number() -> int:
    """A new application's `client_id`: sixteen digits."""
    return 1_000_000_000_000_000 + secrets.randbelow(9_000_000_000_000_000)


def seller_of(token: str) -> int | None:
    """The seller's id at the end of a token, a code or a device token: a hint where to look, never a proof."""
    tail = token[token.rfind("-") + 1 :]
    return int(tail) if tail.isascii() and tail.isdigit() and len(tail) <= 15 else None
