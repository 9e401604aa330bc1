"""The credential of Prometheus: one token, which a setting names."""

from __future__ import annotations

from hmac import compare_digest

from paydesk.core.errors import UNAUTHORIZED
from paydesk.core.secrets import digest
from paydesk.platform.operation import Caller
from paydesk.platform.process.node import StartRefused
from paydesk.platform.secret_source import SecretRefused, secret_of

NEEDED = "the service has no token for it: set metrics_token to file:PATH or env:NAME, and restart"


class ScrapeToken:
    """Recognizes the token; of it the process keeps a digest alone. In development none is needed."""

    def __init__(self, reference: str | None, *, development: bool) -> None:
        """Read the token. Raises `StartRefused`."""
        try:
            self._digest = b"" if reference is None else digest(secret_of(reference, "metrics_token").reveal())
        except SecretRefused as refused:
            raise StartRefused(f"metrics_token cannot be used: {refused}.") from None
        self._is_open = development and reference is None

    async def caller(self, token: str | None, _now_ms: int) -> Caller:
        """Return who reads the metrics. Raises `UNAUTHORIZED`."""
        if not self._digest and not self._is_open:
            raise UNAUTHORIZED.with_reason("no metrics_token", NEEDED)
        if self._digest and token is None:
            raise UNAUTHORIZED.with_reason("no token", message="authorization value not present")
        sent = digest(token or "")
        if self._digest and not compare_digest(sent, self._digest):
            raise UNAUTHORIZED.with_reason("another metrics_token")
        return Caller(seller_id=0, token_digest=sent)
