"""The checks that the demo inbox makes of the two signatures of a notification, each with the reason if it fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from paydesk.core.text.redaction import redacted
from paydesk.engine.webhooks.signatures import diagnosis
from paydesk.engine.webhooks.signatures.diagnosis import Verdict
from paydesk.engine.webhooks.signatures.mistakes import NamedSecret, Recorded

NO_SECRET = "No webhook subscription has this inbox as its URL, so there is no secret to check it with."  # noqa: S105
FAULT_CHARACTERS_MAX = 400


class Check(msgspec.Struct, frozen=True):
    """The check of one signature: `secret` is the name of the one that made it, `fault` why the signature is invalid.

    With a fault the secret is empty, unless only the time is wrong.
    """

    secret: str = ""
    fault: str = ""


class Checks(msgspec.Struct, frozen=True):
    """The checks of both signatures, and what was signed but is neither in the headers nor in the stored body."""

    data_id: str
    """`data.id` of the query."""
    body_bytes: int
    x_signature: Check
    standard: Check
    is_truncated: bool = False
    """True if only the start of the body is stored."""

    @property
    def fault(self) -> str:
        """Why the notification is not signed correctly; empty if both signatures are valid."""
        return self.x_signature.fault or self.standard.fault


def check(
    secrets: Sequence[NamedSecret], headers: Mapping[str, str], data_id: str, body: bytes, now_seconds: float
) -> Checks:
    """Check both signatures of a notification that arrived at `now_seconds` of the machine's clock."""
    if not secrets:
        return Checks(data_id, len(body), Check(fault=NO_SECRET), Check(fault=NO_SECRET))
    x_signature, standard = diagnosis.verify(Recorded(headers, body, data_id), secrets, now_seconds)
    return Checks(data_id, len(body), _check(x_signature), _check(standard))


def _check(verdict: Verdict) -> Check:
    # The reasons repeat values of the request.
    fault = str(redacted(" ".join(verdict.reasons)))
    return Check(verdict.secret, fault if len(fault) <= FAULT_CHARACTERS_MAX else fault[:FAULT_CHARACTERS_MAX] + "…")
