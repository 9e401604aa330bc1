"""Secrets: a type whose `repr` hides its value, digests for storage, comparison in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets as _secrets


class Secret:
    """A value that must not reach a log, an error or a trace: its `repr` and `str` are `***`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and same(self._value, other._value)

    def __hash__(self) -> int:
        return hash(self._value)


def digest(value: str) -> bytes:
    """Return the SHA-256, the only form in which codes, tokens and client secrets are stored."""
    return hashlib.sha256(value.encode()).digest()


def same(one: str, other: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def new_hex(bits: int) -> str:
    """Return random bits as lower-case hex."""
    return _secrets.token_hex(bits // 8)
