"""Clients that have proven who they are: remembered for a few seconds, to be let in again and never to be refused."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import msgspec

from paydesk.core.cache import Cache
from paydesk.core.secrets import digest
from paydesk.core.signals import EVERYTHING, Signals

if TYPE_CHECKING:
    from paydesk.oauth.clients.application import Application

ENTRIES_MAX = 1_000


class _Proof(msgspec.Struct, frozen=True):
    """The application, and the digest of the secret that was right, until when."""

    application: Application
    secret_digest: bytes
    expires_ms: int | None


class AuthenticationCache:
    """The applications that showed a good secret to this node, each with the last one."""

    def __init__(self, signals: Signals, cache_seconds: float) -> None:
        self._cache: Cache[str, _Proof] = Cache(cache_seconds, ENTRIES_MAX)
        self.changes = 0
        """A number that grows whenever an application changes; what was read before is not remembered then."""
        signals.listen("applications", self._forget)
        signals.listen(EVERYTHING, self._forget)

    def find(self, client_id: str, client_secret: str, now_ms: int) -> Application | None:
        """The application where these very credentials were good a moment ago; None says nothing about them."""
        proof = self._cache.get(client_id)
        if proof is None or not hmac.compare_digest(digest(client_secret), proof.secret_digest):
            return None
        return proof.application if proof.expires_ms is None or now_ms < proof.expires_ms else None

    def remember(
        self, client_id: str, application: Application, secret_digest: bytes, expires_ms: int | None, *, changes: int
    ) -> None:
        """Remember a good secret of an application, unless it is suspended or was changed since `changes` was read."""
        if application.suspended_ms is None and changes == self.changes:
            self._cache.put(client_id, _Proof(application, secret_digest, expires_ms))

    def _forget(self, _topic: str) -> None:
        self.changes += 1
        self._cache.clear()
