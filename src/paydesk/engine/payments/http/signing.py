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
class Signer:
    """Signs requests with the first secret, and accepts answers signed with any: there are two during a change."""

    key_id: str
    secrets: tuple[Secret, ...]

    def sign(self, seconds: int, *parts: str, body: bytes) -> str:
        """Return the header of a message.

        The parts of a request are its method, its path with the query, and its idempotency key or ""; those of an
        answer its status, and the key of its request.
        """
        return f"t={seconds},k={self.key_id},v1={_signature(self.secrets[0], str(seconds), *parts, body=body)}"

    def check(self, headers: Sequence[str], *parts: str, body: bytes, now_seconds: int) -> tuple[Verdict, int | None]:
        """Return the verdict on a message with these signatures, and the seconds in it if its form is right."""
        if not self.secrets:
            return "unneeded", None
        if not headers:
            return "absent", None
        form = _FORM.fullmatch(headers[0]) if len(headers) == 1 else None
        if form is None:
            return "wrong", None
        expected = (_signature(secret, form[1], *parts, body=body) for secret in self.secrets)
        if not any(hmac.compare_digest(form[3], signature) for signature in expected):
            return "wrong", None
        seconds = int(form[1])
        return "valid" if abs(seconds - now_seconds) <= DIFFERENCE_SECONDS_MAX else "outdated", seconds


def _signature(secret: Secret, *parts: str, body: bytes) -> str:
    lines = "\n".join(("v1", *parts, hashlib.sha256(body).hexdigest()))
    return hmac.new(secret.reveal().encode(), lines.encode(), "sha256").hexdigest()
