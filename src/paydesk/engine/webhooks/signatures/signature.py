"""Signatures of notifications: `X-Signature` and the headers of Standard Webhooks.

`X-Signature` covers the order's id, the request id and the time, but not the body; `webhook-signature` covers the body.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime

from standardwebhooks import Webhook

from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret

TOLERANCE_SECONDS_MAX = 300
PREFIX = "whsec_"
"""Every secret begins with it; base64 follows."""


def secret_of(keys: Keys, key_version: int, subscription_id: str, generation: int) -> Secret:
    """Derive a subscription's secret from the server key. It is not stored.

    Raises `KeyMissing` if this node lacks the key.
    """
    derived = keys.derive(key_version, "webhook", subscription_id, str(generation))
    return Secret(PREFIX + b64encode(derived).decode())


def secrets_of(keys: Keys, subscription_id: str, valid: Sequence[tuple[int, int]]) -> list[Secret]:
    """Return the secrets of a subscription; `valid` has the generation and the key version of each.

    Raises `KeyMissing` if this node lacks a key.
    """
    return [secret_of(keys, key_version, subscription_id, generation) for generation, key_version in valid]


def manifest(data_id: str, request_id: str, seconds: int | str) -> str:
    """Return the text that `X-Signature` signs; `data_id` as in the query, in lower case.

    An empty part is left out, as official validators do.
    """
    parts = (("id", data_id), ("request-id", request_id), ("ts", seconds))
    return "".join(f"{name}:{value};" for name, value in parts if value != "")


def x_signature(secret: Secret, *, data_id: str, request_id: str, seconds: int) -> str:
    """Return the value of `X-Signature`: one `ts` and one `v1`, since official validators read the last of several."""
    signed = manifest(data_id, request_id, seconds).encode()
    return f"ts={seconds},v1={hmac.new(secret.reveal().encode(), signed, hashlib.sha256).hexdigest()}"


def standard_headers(secrets: Sequence[Secret], *, message_id: str, seconds: int, body: str) -> dict[str, str]:
    """Return the three headers of Standard Webhooks, with one signature per secret, the primary secret first."""
    moment = datetime.fromtimestamp(seconds, UTC)
    signatures = [Webhook(secret.reveal()).sign(message_id, moment, body) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signatures),
    }
