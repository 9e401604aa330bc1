"""A received notification as the page of the demo inbox shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from paydesk.console import statuses
from paydesk.console.statuses import Look
from paydesk.engine.webhooks.signatures.diagnosis import STANDARD_HEADERS, parts_of
from paydesk.engine.webhooks.signatures.signature import manifest
from paydesk.platform.web.html import indented
from paydesk_dev.inbox import receiver as inbox
from paydesk_dev.inbox.checks import Check, Checks
from paydesk_dev.inbox.store import InboxEntry

BODY_START_CHARACTERS = 60
"""Of the text that `webhook-signature` signs, the page shows this much of the body."""
TEXT_CHARACTERS_MAX = 60


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """The check of one signature: the headers that it reads, the text that is signed, the secret, the fault."""

    headers: Sequence[tuple[str, str]]
    text: str
    secret: str
    fault: str


@dataclass(frozen=True, slots=True)
class ShownNotification:
    """A notification; texts are empty where it has none. `fault`: why its signature is not valid."""

    received: datetime
    action: str
    order_id: str
    version: str
    seller: str
    status: str
    status_detail: str
    look: Look
    attempt: str
    fault: str
    headers: Sequence[tuple[str, str]]
    body: str
    body_bytes: int
    is_truncated: bool
    x_signature: ShownCheck | None
    standard: ShownCheck | None

    @classmethod
    def of(cls, entry: InboxEntry) -> ShownNotification:
        """Return the entry with what its body, its headers and its checks say."""
        found = inbox.received(entry)
        body, headers = _object(entry.body), _texts(_object(entry.headers))
        data = body["data"] if isinstance(body.get("data"), dict) else {}
        status = _text(data.get("status"))
        checks = msgspec.json.decode(entry.checks, type=Checks) if entry.checks else None
        size = checks.body_bytes if checks is not None else len(entry.body.encode())
        return cls(
            received=datetime.fromtimestamp(entry.received_ms / 1000, UTC),
            action=_text(found.action or entry.action),
            order_id=_text(found.order_id or entry.order_id),
            version=_text(found.version),
            seller=_text(found.user_id),
            status=status,
            status_detail=_text(data.get("status_detail")),
            look=statuses.ORDERS.get(status, statuses.OTHER),
            attempt=_attempt(headers.get("x-retry", "")),
            fault="" if entry.signature_valid else entry.signature_fault or "The reason was not stored.",
            headers=sorted(headers.items()),
            body=indented(entry.body),
            body_bytes=size,
            is_truncated=checks is not None and checks.is_truncated,
            x_signature=_x_signature(headers, checks) if checks is not None else None,
            standard=_standard(headers, checks, entry.body) if checks is not None else None,
        )


def _x_signature(headers: Mapping[str, str], checks: Checks) -> ShownCheck:
    signature, request_id = headers.get("x-signature", ""), headers.get("x-request-id", "")
    text = manifest(checks.data_id, request_id, parts_of(signature).get("ts", "")) if signature else ""
    return _shown((("X-Signature", signature), ("X-Request-Id", request_id)), text, checks.x_signature)


def _standard(headers: Mapping[str, str], checks: Checks, body: str) -> ShownCheck:
    identity, moment, _ = sent = [headers.get(name, "") for name in STANDARD_HEADERS]
    start = body[:BODY_START_CHARACTERS] + ("…" if len(body) > BODY_START_CHARACTERS else "")
    return _shown(
        tuple(zip(STANDARD_HEADERS, sent, strict=True)),
        f"{identity}.{moment}.{start}" if moment else "",
        checks.standard,
    )


def _shown(headers: Sequence[tuple[str, str]], text: str, check: Check) -> ShownCheck:
    return ShownCheck(headers, text, check.secret, check.fault)


def _attempt(retries: str) -> str:
    """Return the number of the attempt, which is one more than `X-Retry`; empty if that is not a number."""
    return str(int(retries) + 1) if retries.isascii() and retries.isdigit() and len(retries) <= 6 else ""


def _object(text: str) -> dict[str, Any]:
    document = inbox.parsed(text)
    return document if isinstance(document, dict) else {}


def _texts(document: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in document.items()}


def _text(value: object) -> str:
    """Return a text or a number of a body that any sender may have made, shortened; empty for anything else."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return ""
    text = str(value)
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "…"
