"""A cache of recently authenticated clients. It only admits: a miss leads to a look-up, never to a refusal."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import msgspec

from paydesk.core.cache import LookupCache
from paydesk.core.secrets import digest
from paydesk.core.signals import Signals

if TYPE_CHECKING:
    from paydesk.oauth.clients.application import Application

ENTRIES_MAX = 1_000


class _Entry(msgspec.Struct, frozen=True):
    """An application and the digest of the secret that it authenticated with; the secret is valid to `expires_ms`."""

    application: Application
    secret_digest: bytes
    expires_ms: int | None


class AuthenticationCache:
    """The applications that authenticated on this node within `cache_seconds`, each with the secret last used."""

    def __init__(self, signals: Signals, cache_seconds: float) -> None:
        self._entries: LookupCache[str, _Entry] = LookupCache(cache_seconds, ENTRIES_MAX, signals)
        self._entries.clear_on("applications")

    @property
    def changes(self) -> int:
        """The number of changes of applications: a row that was read before a change is not stored after it."""
        return self._entries.changes

    def find(self, client_id: str, client_secret: str, now_ms: int) -> Application | None:
        """Return the application if these credentials were valid within `cache_seconds`, else None."""
        entry = self._entries.get(client_id)
        if entry is None or not hmac.compare_digest(digest(client_secret), entry.secret_digest):
            return None
        return entry.application if entry.expires_ms is None or now_ms < entry.expires_ms else None

    def store(
        self, client_id: str, application: Application, secret_digest: bytes, expires_ms: int | None, *, changes: int
    ) -> None:
        """Store valid credentials, unless the application is suspended or has changed since `changes` was read."""
        if application.suspended_ms is None:
            self._entries.store(client_id, _Entry(application, secret_digest, expires_ms), changes=changes)
