"""A received notification as the page of the demo inbox shows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from paydesk.console import statuses
from paydesk.engine.webhooks.signatures.diagnosis import STANDARD_HEADERS, parts_of
from paydesk.engine.webhooks.signatures.signature import manifest
from paydesk.platform.web.html import indented
from paydesk_dev.inbox import receiver as inbox
from paydesk_dev.inbox.checks import Checks
from paydesk_dev.inbox.store import InboxEntry

BODY_START_CHARACTERS = 60
"""The part of the body that the page shows in the text that `webhook-signature` signs."""
TEXT_CHARACTERS_MAX = 60


def shown(entry: InboxEntry) -> dict[str, Any]:
    """Return a notification with the values of its body, its headers and its checks.

    Texts are empty where it has none. `fault`: why its signature is not valid.
    """
    fields = inbox.received(entry)
    body, headers = _object(entry.body), {name: str(value) for name, value in _object(entry.headers).items()}
    data = body["data"] if isinstance(body.get("data"), dict) else {}
    status, retries = _text(data.get("status")), headers.get("x-retry", "")
    is_number = retries.isascii() and retries.isdigit() and len(retries) <= 6
    checks = msgspec.json.decode(entry.checks, type=Checks) if entry.checks else None
    x_signature, standard = _signatures(headers, checks, entry.body) if checks is not None else (None, None)
    return {
        "received": datetime.fromtimestamp(entry.received_ms / 1000, UTC),
        "action": _text(fields.action or entry.action),
        "order_id": _text(fields.order_id or entry.order_id),
        "version": _text(fields.version),
        "seller": _text(fields.user_id),
        "status": status,
        "status_detail": _text(data.get("status_detail")),
        "look": statuses.ORDERS.get(status, statuses.OTHER),
        "attempt": str(int(retries) + 1) if is_number else "",
        "fault": "" if entry.signature_valid else entry.signature_fault or "The reason was not stored.",
        "headers": sorted(headers.items()),
        "body": indented(entry.body),
        "body_bytes": checks.body_bytes if checks is not None else len(entry.body.encode()),
        "is_truncated": checks is not None and checks.is_truncated,
        "x_signature": x_signature,
        "standard": standard,
    }


def _signatures(headers: Mapping[str, str], checks: Checks, body: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the check of each signature: the headers that it reads, the text that is signed, the secret, the fault."""
    signature, request_id = headers.get("x-signature", ""), headers.get("x-request-id", "")
    text = manifest(checks.data_id, request_id, parts_of(signature).get("ts", "")) if signature else ""
    identity, moment, _ = sent = [headers.get(name, "") for name in STANDARD_HEADERS]
    start = body[:BODY_START_CHARACTERS] + ("…" if len(body) > BODY_START_CHARACTERS else "")
    return (
        {
            "headers": (("X-Signature", signature), ("X-Request-Id", request_id)),
            "text": text,
            **msgspec.structs.asdict(checks.x_signature),
        },
        {
            "headers": tuple(zip(STANDARD_HEADERS, sent, strict=True)),
            "text": f"{identity}.{moment}.{start}" if moment else "",
            **msgspec.structs.asdict(checks.standard),
        },
    )


def _object(text: str) -> dict[str, Any]:
    document = inbox.parsed(text)
    return document if isinstance(document, dict) else {}


def _text(value: object) -> str:
    """Return a text or a number of a body that any sender may have made, shortened; empty for anything else."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return ""
    text = str(value)
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "…"
