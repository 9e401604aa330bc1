"""Signatures of notifications: `X-Signature` and the headers of Standard Webhooks.

`X-Signature` covers the order's id, the request id and the time, but not the body; `webhook-signature` covers the body.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from standardwebhooks import Webhook, WebhookVerificationError

from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret, same

TOLERANCE_SECONDS_MAX = 300
PREFIX = "whsec_"
"""Every secret begins with it; base64 follows."""


def secret_of(keys: Keys, key_version: int, subscription_id: str, generation: int) -> Secret:
    """Derive a subscription's secret from the server key. It is not stored.

    Raises `KeyMissing` if this node lacks the key.
    """
    derived = keys.derive(key_version, "webhook", subscription_id, str(generation))
    return Secret(PREFIX + b64encode(derived).decode())


def manifest(data_id: str, request_id: str, seconds: int | str) -> str:
    """Return the text that `X-Signature` signs; `data_id` as in the query, in lower case."""
    return f"id:{data_id};request-id:{request_id};ts:{seconds};"


def x_signature(secret: Secret, *, data_id: str, request_id: str, seconds: int) -> str:
    """Return the value of `X-Signature`: one `ts` and one `v1`, since official validators read the last of several."""
    return f"ts={seconds},v1={_hex(secret, manifest(data_id, request_id, seconds))}"


def standard_headers(secrets: Sequence[Secret], *, message_id: str, seconds: int, body: str) -> dict[str, str]:
    """Return the three headers of Standard Webhooks, with one signature per secret, the primary secret first."""
    moment = datetime.fromtimestamp(seconds, UTC)
    signatures = [Webhook(secret.reveal()).sign(message_id, moment, body) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signatures),
    }


def verify_x_signature(secret: Secret, header: str, *, data_id: str, request_id: str, now_seconds: float) -> bool:
    """Return whether `header` is valid for this id and request, with a `ts` at most 5 minutes from now."""
    parts = dict(part.strip().partition("=")[::2] for part in header.split(","))
    moment, signature = parts.get("ts", ""), parts.get("v1", "")
    if not (moment.isascii() and moment.isdigit() and len(moment) <= 12):
        return False
    fresh = abs(now_seconds - int(moment)) <= TOLERANCE_SECONDS_MAX
    return same(signature, _hex(secret, manifest(data_id, request_id, moment))) and fresh


def verify_standard(secret: Secret, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether one of the signatures in `webhook-signature` is valid for this body now."""
    try:
        Webhook(secret.reveal()).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):
        return False
    return True


def _hex(secret: Secret, text: str) -> str:
    return hmac.new(secret.reveal().encode(), text.encode(), hashlib.sha256).hexdigest()
