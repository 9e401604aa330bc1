"""What must not reach a log is masked: tokens, codes and secrets by their look or their name, card numbers by Luhn.

Nobody should log such a thing in the first place; this is the net under the rope.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from paydesk import card_numbers
from paydesk.card_numbers import MASK

_CREDENTIAL = re.compile(
    r"\b(APP_USR|TEST)-\d+-\d{6}-[0-9a-f]{32}-\d+"  # access tokens
    r"|\b(TG|PDT|PDO)-[0-9a-fA-F]{24,}(?:-\d+)?"  # codes, refresh tokens, terminals' and operators' tokens
    r"|\b(whsec)_[A-Za-z0-9+/_=-]{16,}"  # webhook secrets
    r"|\b[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}\b"  # user codes of a pairing: eight consonants
    r"|\b[0-9a-f]{40,}\b"  # device codes and client secrets: 160 random bits or more
    r"|\$argon2id\$[^\s\"']+"  # passwords as they are stored
)
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:password|secret|token|authorization|cookie|pan|cvv|track\d?|card_number|verifier"
    r"|(?:user|device|authorization)_code)$"
)
_PLAIN_NUMBERS = frozenset({"application_id", "client_id", "seller_id", "user_id"})


def carries_secret(text: str) -> bool:
    """Whether the text has anything in it that has the look of a secret or of a card number."""
    return card_numbers.could_carry(text) or _CREDENTIAL.search(text) is not None


def redacted(value: Any, name: str = "") -> Any:
    """The value as it may be logged under `name`."""
    if isinstance(value, str):
        return MASK if value and _SECRET_NAME.search(name.lower()) else _without_secrets(value, name)
    if isinstance(value, Mapping):
        return {str(key): redacted(held, str(key)) for key, held in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted(held, name) for held in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if value is None or isinstance(value, int | float):
        return MASK if _without_secrets(str(value), name) == MASK else value
    return _without_secrets(str(value), name)


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The step of a structlog chain that masks every value of the line."""
    return {name: redacted(value, name) for name, value in event.items()}


def _without_secrets(text: str, name: str) -> str:
    if len(text) < 9:
        return text
    text = _CREDENTIAL.sub(_prefix_and_mask, text)
    return text if name in _PLAIN_NUMBERS else card_numbers.masked(text)


def _prefix_and_mask(found: re.Match[str]) -> str:
    prefix = next((group for group in found.groups() if group), "")
    return f"{prefix}-{MASK}" if prefix else MASK
