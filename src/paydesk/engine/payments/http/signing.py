"""Signatures of requests and answers: HMAC-SHA256 with a secret that Paydesk and the switch share."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paydesk.core.secrets import Secret

HEADER = "Paydesk-Signature"
DIFFERENCE_SECONDS_MAX = 300
"""A signature is accepted while its time differs at most this much from the own clock."""
KEY_ID_PATTERN = "[A-Za-z0-9._-]{1,64}"
_FORM = re.compile(f"t=([0-9]{{1,12}}),k=({KEY_ID_PATTERN}),v1=([0-9a-f]{{64}})")

Verdict = Literal["valid", "unneeded", "absent", "wrong", "outdated"]
"""`unneeded`: there is no secret, only a client certificate. `outdated`: right, but with another time than the own."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The verdict on an answer's signature, and the seconds in it."""

    verdict: Verdict
    seconds: int | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether the answer is that of the switch."""
        return self.verdict in ("valid", "unneeded")


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs requests with the first secret, and accepts answers signed with any: there are two during a change."""

    key_id: str
    secrets: tuple[Secret, ...]

    def request(self, seconds: int, method: str, target: str, key: str, body: bytes) -> str:
        """Return the header of a request. `target` is the path with its query, `key` the idempotency key or empty."""
        return self._header(self.secrets[0], seconds, method, target, key, body)

    def answer(self, seconds: int, status: int, key: str, body: bytes) -> str:
        """Return the header of an answer to a request with this key."""
        return self._header(self.secrets[0], seconds, str(status), key, body)

    def check(self, headers: Sequence[str], status: int, key: str, body: bytes, now_seconds: int) -> Checked:
        """Return the verdict on an answer with these signatures."""
        if not self.secrets:
            return Checked("unneeded")
        if not headers:
            return Checked("absent")
        parts = _FORM.fullmatch(headers[0]) if len(headers) == 1 else None
        if parts is None:
            return Checked("wrong")
        seconds, signature = int(parts[1]), parts[3]
        expected = (_signature(secret, parts[1], str(status), key, _sha256(body)) for secret in self.secrets)
        if not any(hmac.compare_digest(signature, one) for one in expected):
            return Checked("wrong")
        is_current = abs(seconds - now_seconds) <= DIFFERENCE_SECONDS_MAX
        return Checked("valid" if is_current else "outdated", seconds)

    def _header(self, secret: Secret, seconds: int, *parts: str | bytes) -> str:
        *texts, body = parts
        signature = _signature(secret, str(seconds), *map(str, texts), _sha256(body))
        return f"t={seconds},k={self.key_id},v1={signature}"


def _sha256(body: str | bytes) -> str:
    assert isinstance(body, bytes), "the last part is the body"
    return hashlib.sha256(body).hexdigest()


def _signature(secret: Secret, *parts: str) -> str:
    return hmac.new(secret.reveal().encode(), "\n".join(("v1", *parts)).encode(), "sha256").hexdigest()
