"""The demo receiver of notifications. It verifies them as an application should."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.keys import KeyMissing, Keys
from paydesk.core.redaction import redacted_answer
from paydesk.core.secrets import Secret
from paydesk.sandbox.schemas import Received
from paydesk.sandbox.store import InboxEntry
from paydesk.storage.database import Transaction
from paydesk.webhooks import subscriptions
from paydesk.webhooks.schemas import CONNECT_TOPIC, TYPES
from paydesk.webhooks.signature import TOLERANCE_SECONDS_MAX, verify_standard, verify_x_signature

PATH = "/demo/inbox"
BODY_CHARACTERS_MAX = 8_192
"""Longer bodies are truncated: notifications are shorter, and one answer has up to 1,000 entries."""
MASKED_CHARACTERS_MORE = 512
"""Masking covers this much more than the limit: truncation must not split a secret and so hide it from masking."""
_SIGNED_HEADERS = ("x-signature", "webhook-id", "webhook-timestamp", "webhook-signature")
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


async def secrets_of(tx: Transaction, keys: Keys) -> list[Secret]:
    """Return the valid secrets of the subscriptions to this inbox whose keys this node has."""
    derived = []
    for found in await subscriptions.listed(tx, "", sys.maxsize):
        if urlsplit(found.url).path == PATH:
            for secret in await subscriptions.secrets(tx, found.subscription_id):
                with contextlib.suppress(KeyMissing):
                    derived.append(secret.derive(keys))
    return derived


def signature_fault(
    secrets: Sequence[Secret], headers: Mapping[str, str], data_id: str, body: bytes, now_seconds: float
) -> str:
    """Return why the notification is not signed correctly, in a sentence; empty if one secret made both signatures."""
    if not secrets:
        return "No webhook subscription has this inbox as its URL, so there is no secret to check it with."
    missing = [name for name in _SIGNED_HEADERS if not headers.get(name)]
    if missing:
        return f"It has no header {missing[0]}."
    request_id = headers.get("x-request-id", "")
    matching = [
        secret
        for secret in secrets
        if verify_x_signature(
            secret, headers["x-signature"], data_id=data_id, request_id=request_id, now_seconds=now_seconds
        )
    ]
    if any(verify_standard(secret, headers, body) for secret in matching):
        return ""
    if _is_old(headers, now_seconds):
        return f"Its time is more than {TOLERANCE_SECONDS_MAX // 60} minutes from now: it may be a repeated request."
    if not matching:
        return "X-Signature does not match: the secret, data.id, X-Request-Id or the time in it differs."
    return "webhook-signature does not match: the body, webhook-id or the time in it differs."


def _is_old(headers: Mapping[str, str], now_seconds: float) -> bool:
    times = re.findall(r"ts=([0-9]{1,12})(?![0-9])", headers["x-signature"], re.ASCII)
    times += re.findall(r"^[0-9]{1,12}$", headers["webhook-timestamp"], re.ASCII)
    return any(abs(now_seconds - int(moment)) > TOLERANCE_SECONDS_MAX for moment in times)


def entry_of(headers: Mapping[str, str], body: bytes, *, received_ms: int, fault: str) -> InboxEntry:
    """Return the notification to store: valid text without credentials; `fault` is that of its signature.

    Unsigned content can come from any sender, so it is masked.
    """
    stored = {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
    header_text, body_text = _text(msgspec.json.encode(stored)), _text(body)
    if fault:
        header_text, body_text = redacted_answer(header_text), _masked_start(body_text)
    return InboxEntry(received_ms, int(not fault), header_text, body_text[:BODY_CHARACTERS_MAX], fault)


def subject_of(body: bytes) -> str:
    """Return the id of the order that the notification is about; empty if the body names none."""
    document = _parsed(_text(body)[:BODY_CHARACTERS_MAX])
    subject = _subject(document).get("order_id") if isinstance(document, dict) else None
    return subject if isinstance(subject, str) else ""


def received(entry: InboxEntry) -> Received:
    """Return the entry for the answer, with the fields that its body has."""
    body = _parsed(entry.body)
    return Received(
        received_date=rfc3339(entry.received_ms),
        **(_subject(body) if isinstance(body, dict) else {}),
        signature_valid=bool(entry.signature_valid),
        headers=_raw(entry.headers, _parsed(entry.headers)),
        body=_raw(entry.body, body),
    )


def _parsed(text: str) -> Any:
    """Return the document, or `UNSET` if the text is not JSON, for example because of masking."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.UNSET


def _raw(text: str, parsed: Any) -> msgspec.Raw | str:
    """Return JSON unchanged, without encoding it again, and any other text as a string."""
    return text if parsed is msgspec.UNSET else msgspec.Raw(text.encode())


def _subject(body: dict[str, Any]) -> dict[str, Any]:
    data = body["data"] if isinstance(body.get("data"), dict) else {}
    fields = {"action": body.get("action")}
    if body.get("type") == TYPES[CONNECT_TOPIC]:
        fields["user_id"] = body.get("user_id")
    else:
        fields |= {"order_id": data.get("id"), "version": data.get("version")}
    return {name: value for name, value in fields.items() if isinstance(value, str | int)}


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace").replace("\0", "\ufffd")


def _masked_start(text: str) -> str:
    start = text[: BODY_CHARACTERS_MAX + MASKED_CHARACTERS_MORE]
    masked = redacted_answer(start)
    # Masks shorten the text, so its end, perhaps the first part of a secret, may be within the limit.
    return masked[:-MASKED_CHARACTERS_MORE] if len(start) < len(text) else masked
