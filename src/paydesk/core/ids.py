"""Identifiers: ULIDs with a prefix, and the numbers that name sellers and applications."""

from __future__ import annotations

import os
import re
import secrets
from functools import lru_cache
from itertools import count

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SIGN_OF_BYTE = "".join(_CROCKFORD[byte & 31] for byte in range(256)).encode()

UUID_PATTERN = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
PUBLIC_KEY_PATTERN = r"^(APP_USR|TEST)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
ULID_PATTERN = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
ORDER_ID_PATTERN = f"^ORD{ULID_PATTERN}$"
PAYMENT_ID_PATTERN = f"^PAY{ULID_PATTERN}$"
REFUND_ID_PATTERN = f"^REF{ULID_PATTERN}$"
NUMBER_PATTERN = "^[0-9]{1,18}$"
"""The pattern of ids that are numbers, such as those of applications, sellers and stores."""
ORDER_ID = re.compile(ORDER_ID_PATTERN)
UUID = re.compile(UUID_PATTERN)


class _Randomness:
    """The system's random bytes, fetched 4 KiB at a time: a system call per id costs more than the id."""

    POOL_BYTES = 4096

    def __init__(self) -> None:
        self._pool, self._place = b"", 0
        # A forked child must not generate the same ids as its parent.
        os.register_at_fork(after_in_child=self._empty)

    def _empty(self) -> None:
        self._pool, self._place = b"", 0

    def take(self, number: int) -> bytes:
        """Return `number` random bytes and discard them from the pool."""
        place = self._place
        if place + number > len(self._pool):
            self._pool, place = os.urandom(self.POOL_BYTES), 0
        self._place = place + number
        return self._pool[place : place + number]


_random = _Randomness()
_VARIANTS = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)
_uuids: list[str] = []
os.register_at_fork(after_in_child=_uuids.clear)
_places = count()


def ulid(now_ms: int) -> str:
    """Return a ULID: 26 characters of Crockford base32, 48 bits of time and 80 random bits."""
    return _instant(now_ms) + _random.take(16).translate(_SIGN_OF_BYTE).decode()


def ordered_ulid(now_ms: int) -> str:
    """Return a ULID that sorts after those that this process returned before in the same millisecond."""
    place = next(_places)
    text = "".join([_CROCKFORD[(place >> shift) & 31] for shift in range(20, -1, -5)])
    return f"{_instant(now_ms)}{text}{ulid(now_ms)[15:]}"


def first_ulid(now_ms: int) -> str:
    """Return the smallest ULID of an instant."""
    return _instant(now_ms) + "0" * 16


def instant_of(ulid_: str) -> int | None:
    """Return the instant in a ULID in milliseconds, or None if the text does not begin with one."""
    digits = ulid_[:10]
    if len(digits) < 10 or not set(digits) <= set(_CROCKFORD):
        return None
    return sum(_CROCKFORD.index(digit) << shift for digit, shift in zip(digits, range(45, -1, -5), strict=True))


@lru_cache(64)
def _instant(now_ms: int) -> str:
    return "".join([_CROCKFORD[(now_ms >> shift) & 31] for shift in range(45, -1, -5)])


def uuid() -> str:
    """Return a random UUID (version 4)."""
    if not _uuids:
        # They are written as one text, column by column: each alone takes three times as long.
        digits, text = os.urandom(16 * 256).hex().encode(), bytearray(b"-" * 36 * 256)
        for digit, place in enumerate(place for place in range(36) if place not in {8, 13, 18, 23}):
            text[place::36] = digits[digit::32]
        text[14::36] = b"4" * 256  # the version
        text[19::36] = digits[16::32].translate(_VARIANTS)
        _uuids.extend(re.findall(".{36}", text.decode()))
    return _uuids.pop()


def seller_number() -> int:
    """Return a new seller's `user_id`: 10 digits."""
    return 1_000_000_000 + secrets.randbelow(9_000_000_000)


def application_number() -> int:
    """Return a new application's `client_id`: 16 digits."""
    return 1_000_000_000_000_000 + secrets.randbelow(9_000_000_000_000_000)


def event_number() -> int:
    """Return a new notification's number: 16 digits, below 2^53, which every JSON parser keeps exactly."""
    return 1_000_000_000_000_000 + secrets.randbelow(8_000_000_000_000_000)


def seller_of(token: str) -> int | None:
    """Return the seller's id at the end of a token or code. It selects the rows to search and proves nothing."""
    tail = token[token.rfind("-") + 1 :]
    return int(tail) if tail.isascii() and tail.isdigit() and len(tail) <= 15 else None
