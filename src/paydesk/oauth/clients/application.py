"""The rows of an application and of its client secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

OnReplay = Literal["revoke", "refuse"]


class Application(msgspec.Struct, frozen=True):
    """An application. `scopes` is what it asks for where an authorization doesn't say, in alphabetical order."""

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
        """The public key of one of the two modes."""
        return self.public_key_live if live else self.public_key_test


@dataclass(frozen=True, slots=True)
class ApplicationSecret:
    """What is known of a client secret: everything but the secret."""

    secret_id: str
    created_ms: int
    expires_ms: int | None
