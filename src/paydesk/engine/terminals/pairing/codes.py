"""The codes of a pairing: the terminal keeps the device code, and shows the user code to a person (RFC 8628)."""

from __future__ import annotations

import re
import secrets

from paydesk.core.keys import Keys
from paydesk.core.secrets import new_hex

CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so that no code is a word, and no Y, which sounds like I (RFC 8628 section 6.1)."""
USER_CODE_PATTERN = f"^[{CONSONANTS}]{{4}}[ -]?[{CONSONANTS}]{{4}}$"
EXAMPLE_USER_CODE = "BCDF-GHJK"
DEVICE_CODE_BITS = 160
TOKEN_BYTES = 20

_USER_CODE = re.compile(USER_CODE_PATTERN)


def new_device_code() -> str:
    """Return a new device code of 160 random bits."""
    return new_hex(DEVICE_CODE_BITS)


def new_user_code() -> str:
    """Return a new user code as the terminal shows it: eight random consonants, 34 bits."""
    letters = "".join(secrets.choice(CONSONANTS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def canonical(typed: str) -> str | None:
    """Return the user code that a person typed, in any case and with any blanks and hyphens; None if it is none."""
    letters = re.sub(r"[\s-]", "", typed).upper()
    return f"{letters[:4]}-{letters[4:]}" if _USER_CODE.fullmatch(letters) else None


def token_of(keys: Keys, key_version: int, device_digest: bytes, seller_id: int) -> str:
    """Return the device token of an approved pairing, the same every time. Raises `KeyMissing`."""
    derived = keys.derive(key_version, "device_token", device_digest, str(seller_id))
    return f"PDT-{derived[:TOKEN_BYTES].hex()}-{seller_id}"
