"""The rows of an application and of its client secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

OnReplay = Literal["revoke", "refuse"]


class Application(msgspec.Struct, frozen=True):
    """An application. `scopes`, in alphabetical order, are the most it may request, and the default of a request."""

    application_id: int
    name: str
    redirect_uris: tuple[str, ...]
    scopes: str
    pkce_required: bool
    on_replay: OnReplay
    public_key_live: str
    public_key_test: str
    suspended_ms: int | None
    created_ms: int

    def public_key(self, *, live: bool) -> str:
        """Return the public key for live or test mode."""
        return self.public_key_live if live else self.public_key_test


@dataclass(frozen=True, slots=True)
class ApplicationSecret:
    """The metadata of a client secret; the secret itself is not stored."""

    secret_id: str
    created_ms: int
    expires_ms: int | None
