"""The checks that the demo inbox makes of the two signatures of a notification, each with the reason if it fails."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from paydesk.core.secrets import Secret, same
from paydesk.webhooks.signature import TOLERANCE_SECONDS_MAX, verify_standard, verify_x_signature

X_SIGNATURE, STANDARD = ("x-signature",), ("webhook-id", "webhook-timestamp", "webhook-signature")
"""The headers that each signature requires. Without `X-Request-Id` that part of the signed text is empty."""
NO_SECRET = "No webhook subscription has this inbox as its URL, so there is no secret to check it with."  # noqa: S105
TOLERANCE_MINUTES = TOLERANCE_SECONDS_MAX // 60
_SECONDS = re.compile("[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class InboxSecret:
    """A valid secret of a subscription to this inbox, and its name on the page."""

    name: str
    secret: Secret


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
    """Whether only the start of the body is stored."""

    @property
    def fault(self) -> str:
        """Why the notification is not signed correctly; empty if one secret made both signatures."""
        return self.x_signature.fault or self.standard.fault


def check(
    secrets: Sequence[InboxSecret], headers: Mapping[str, str], data_id: str, body: bytes, now_seconds: float
) -> Checks:
    """Check both signatures of a notification that arrived at `now_seconds` of the machine's clock."""
    x_signature = _check_x_signature(secrets, headers, data_id, now_seconds)
    # Both must be of one secret, so the second is checked with the one that made the first.
    made_first = [one for one in secrets if one.name == x_signature.secret]
    standard = _check_standard(made_first or secrets, headers, body, now_seconds)
    if made_first and standard.fault and not _check_standard(secrets, headers, body, now_seconds).fault:
        standard = Check(fault="webhook-signature is of another secret than X-Signature.")
    return Checks(data_id, len(body), x_signature, standard)


def time_of(x_signature: str) -> str:
    """Return the `ts` of an `X-Signature` header, empty if it has none."""
    return dict(part.strip().partition("=")[::2] for part in x_signature.split(",")).get("ts", "")


def _check_x_signature(
    secrets: Sequence[InboxSecret], headers: Mapping[str, str], data_id: str, now_seconds: float
) -> Check:
    header, request_id = headers.get("x-signature", ""), headers.get("x-request-id", "")
    seconds = _seconds(time_of(header))

    def is_made_by(secret: Secret) -> bool:
        return verify_x_signature(secret, header, data_id=data_id, request_id=request_id, now_seconds=seconds or 0)

    malformed = "" if seconds is not None else "X-Signature is not of the form ts=<seconds>,v1=<signature>."
    return _check(
        secrets,
        _missing(headers, X_SIGNATURE) or malformed,
        is_made_by,
        "X-Signature does not match: the secret, data.id, X-Request-Id or the time in it differs.",
        (seconds or 0, now_seconds),
    )


def _check_standard(
    secrets: Sequence[InboxSecret], headers: Mapping[str, str], body: bytes, now_seconds: float
) -> Check:
    sent = headers.get("webhook-timestamp", "")
    seconds = _seconds(sent)
    text = f"{headers.get('webhook-id', '')}.{sent}.".encode() + body

    def is_made_by(secret: Secret) -> bool:
        if not _is_old(seconds or 0, now_seconds):
            return verify_standard(secret, headers, body)
        # The library refuses the time first, which would hide whether the signature is correct.
        key = base64.b64decode(secret.reveal().removeprefix("whsec_"))
        made = "v1," + base64.b64encode(hmac.digest(key, text, hashlib.sha256)).decode()
        return any(same(signature, made) for signature in headers["webhook-signature"].split())

    malformed = "" if seconds is not None else "webhook-timestamp is not a number of seconds."
    return _check(
        secrets,
        _missing(headers, STANDARD) or malformed,
        is_made_by,
        "webhook-signature does not match: the secret, the body, webhook-id or the time in it differs.",
        (seconds or 0, now_seconds),
    )


def _check(
    secrets: Sequence[InboxSecret],
    malformed: str,
    is_made_by: Callable[[Secret], bool],
    mismatch: str,
    times: tuple[int, float],
) -> Check:
    if not secrets:
        return Check(fault=NO_SECRET)
    if malformed:
        return Check(fault=malformed)
    made = next((one.name for one in secrets if is_made_by(one.secret)), "")
    if _is_old(*times):
        correct = "The signature is correct, but its" if made else "Its"
        return Check(
            made,
            f"{correct} time is more than {TOLERANCE_MINUTES} minutes from now: it may be a repeated request.",
        )
    return Check(made) if made else Check(fault=mismatch)


def _is_old(seconds: int, now_seconds: float) -> bool:
    return abs(now_seconds - seconds) > TOLERANCE_SECONDS_MAX


def _missing(headers: Mapping[str, str], names: Sequence[str]) -> str:
    missing = next((name for name in names if not headers.get(name)), "")
    return f"It has no header {missing}." if missing else ""


def _seconds(text: str) -> int | None:
    return int(text) if _SECONDS.fullmatch(text) else None
