"""Tokens, codes and public keys: their formats, and how tokens are derived from the server key.

Only `new_code`, `new_public_key` and `new_family_id` are random. The tokens of a family can be derived again and
are not stored.
"""

from __future__ import annotations

import re
import secrets
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from paydesk.core import ids
from paydesk.core.keys import KeyMissing, Keys
from paydesk.core.secrets import digest, new_hex
from paydesk.engine.oauth.scopes import OFFLINE_ACCESS, includes

ACCESS_TOKEN_PATTERN = r"^(APP_USR|TEST)-[0-9]{1,18}-[0-9]{6}-[0-9a-f]{32}-[0-9]{1,15}$"
REFRESH_TOKEN_PATTERN = r"^TG-[0-9a-f]{40}-[0-9]{1,15}$"

HOUR_MS = 3_600_000

_ACCESS_TOKEN = re.compile(ACCESS_TOKEN_PATTERN)
_REFRESH_TOKEN = re.compile(REFRESH_TOKEN_PATTERN)


class TokenFamily(msgspec.Struct, frozen=True):
    """All tokens issued from one code: seller, application, live or test, and the granted scope."""

    seller_id: int
    family_id: bytes
    application_id: int
    live: bool
    scope: str


class Generation(msgspec.Struct, frozen=True):
    """The stored part of a generation, from which its tokens are derived; scope and times are the access token's."""

    number: int
    key_version: int
    scope: str
    created_ms: int
    expires_ms: int
    digest: bytes | None = None
    """The digest of its access token, if that was issued before."""


class Lifetimes(msgspec.Struct, frozen=True):
    """The lifetimes of tokens from their creation."""

    access_token_seconds: int
    refresh_token_seconds: int


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """The tokens of one generation; without `offline_access` there is no refresh token."""

    family: TokenFamily
    generation: Generation
    access_token: str
    refresh_token: str | None


def derive(keys: Keys, family: TokenFamily, generation: Generation) -> Pair:
    """Return the tokens of a generation, the same every time. Raises `KeyMissing`, also if the key differs."""
    version, seller_id, application_id = generation.key_version, family.seller_id, str(family.application_id)
    mode = "live" if family.live else "test"
    parts = (application_id, mode, family.family_id, str(generation.number))
    secret = keys.derive(version, "access_token", *parts)[:16].hex()
    hour = _month_day_hour(generation.created_ms // HOUR_MS)
    access_token = f"{prefix(live=family.live)}-{application_id}-{hour}-{secret}-{seller_id}"
    if generation.digest is not None and generation.digest != digest(access_token):
        raise KeyMissing(
            version, f"this node's server key of version {version} is not the one that the token was derived from"
        )
    refresh_token = None
    if includes(family.scope, OFFLINE_ACCESS):
        refresh_token = f"TG-{keys.derive(version, 'refresh_token', *parts)[:20].hex()}-{seller_id}"
    return Pair(family, generation, access_token, refresh_token)


@lru_cache(16)
def _month_day_hour(hours: int) -> str:
    return f"{datetime.fromtimestamp(hours * 3600, UTC):%m%d%H}"


def seller_of_access_token(text: str) -> int | None:
    """Return the seller in an access token, or None if it is malformed. It selects the rows to search."""
    return ids.seller_of(text) if _ACCESS_TOKEN.fullmatch(text) else None


def seller_of_code(text: str) -> int | None:
    """Return the seller in a refresh token or code, which have the same format, or None if it is malformed."""
    return ids.seller_of(text) if _REFRESH_TOKEN.fullmatch(text) else None


def new_code(seller_id: int) -> str:
    """Return a new authorization code with 160 random bits (RFC 6749 section 10.10)."""
    return f"TG-{new_hex(160)}-{seller_id}"


def code_of(keys: Keys, key_version: int, seller_id: int, request_token: str) -> str:
    """Return the code derived from the server key and the token of a consent request. Raises `KeyMissing`."""
    return f"TG-{keys.derive(key_version, 'code', request_token)[:20].hex()}-{seller_id}"


def new_public_key(*, live: bool) -> str:
    """Return a new public key of an application, for live or test mode."""
    return f"{prefix(live=live)}-{uuid.uuid4()}"


def new_family_id() -> bytes:
    """Return a random family id of 128 bits."""
    return secrets.token_bytes(16)


def prefix(*, live: bool) -> str:
    """Return the prefix of access tokens and public keys in live or test mode."""
    return "APP_USR" if live else "TEST"
