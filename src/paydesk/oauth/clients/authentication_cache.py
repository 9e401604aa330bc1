"""A cache of recently authenticated clients. It only admits: a miss leads to a look-up, never to a refusal."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import msgspec
from cachetools import TTLCache

from paydesk.core.secrets import digest
from paydesk.core.signals import EVERYTHING, Signals

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
        self._entries: TTLCache[str, _Entry] = TTLCache(ENTRIES_MAX, cache_seconds)
        self.changes = 0
        """Counts the changes of applications: a row that was read before a change is not stored after it."""
        signals.listen("applications", self._clear)
        signals.listen(EVERYTHING, self._clear)

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
        if application.suspended_ms is None and changes == self.changes:
            self._entries[client_id] = _Entry(application, secret_digest, expires_ms)

    def _clear(self, _topic: str) -> None:
        self.changes += 1
        self._entries.clear()
