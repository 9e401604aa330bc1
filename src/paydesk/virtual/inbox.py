"""The demo receiver: what a notification's receiver must do, checked here as an application would check it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from paydesk.clock import rfc3339
from paydesk.keys import KeyMissing, Keys
from paydesk.redaction import redacted_answer
from paydesk.secrets import Secret
from paydesk.virtual.store import InboxEntry, Signer
from paydesk.webhooks.schemas import CONNECT_TOPIC, TYPES
from paydesk.webhooks.signature import secret_of, verify_standard, verify_x_signature

PATH = "/demo/inbox"
BODY_CHARACTERS_MAX = 8_192
"""Longer bodies are cut: notifications are shorter, and up to 1,000 entries are shown in one answer."""
_UNSHOWN_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


def secrets_of(keys: Keys, signers: Iterable[Signer]) -> list[Secret]:
    """The secrets of all subscriptions that send here, as far as this node has their keys."""
    secrets = []
    for signer in signers:
        if urlsplit(signer.url).path == PATH:
            try:
                secrets.append(secret_of(keys, signer.key_version, signer.subscription_id, signer.secret_generation))
            except KeyMissing:
                continue
    return secrets


def is_signed(
    secrets: Iterable[Secret], headers: Mapping[str, str], data_id: str, body: bytes, now_seconds: float
) -> bool:
    """Whether one of the secrets made both signatures: `X-Signature` and that of Standard Webhooks."""
    return any(
        verify_x_signature(
            secret,
            headers.get("x-signature", ""),
            data_id=data_id,
            request_id=headers.get("x-request-id", ""),
            now_seconds=now_seconds,
        )
        and verify_standard(secret, headers, body)
        for secret in secrets
    )


def entry_of(headers: Mapping[str, str], body: bytes, *, received_ms: int, valid: bool) -> InboxEntry:
    """Return the notification as it is kept: as text that any database takes, without credentials.

    What is not signed may come from anywhere, and is masked.
    """
    kept = {name: value for name, value in headers.items() if name not in _UNSHOWN_HEADERS}
    return InboxEntry(
        received_ms,
        int(valid),
        _storable(msgspec.json.encode(kept), is_ours=valid),
        _storable(body, is_ours=valid)[:BODY_CHARACTERS_MAX],
    )


def shown(entry: InboxEntry) -> dict[str, Any]:
    """An entry on the wire; of a body that is no notification only what can be told."""
    document: dict[str, Any] = {"received_date": rfc3339(entry.received_ms)}
    body = _parsed(entry.body)
    return document | {
        **(_about(body) if isinstance(body, dict) else {}),
        "signature_valid": bool(entry.signature_valid),
        "headers": _as_json(entry.headers),
        "body": _as_json(entry.body),
    }


def _parsed(text: str) -> Any:
    """Return the document, or None for a text that is no JSON: a masked one may be none either."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _as_json(text: str) -> msgspec.Raw | str:
    """Return JSON as it is, without the cost of writing it anew, and any other text as a string."""
    return text if _parsed(text) is None else msgspec.Raw(text.encode())


def _about(body: dict[str, Any]) -> dict[str, Any]:
    data = body["data"] if isinstance(body.get("data"), dict) else {}
    about = {"action": body.get("action")}
    if body.get("type") == TYPES[CONNECT_TOPIC]:
        about["user_id"] = body.get("user_id")
    else:
        about |= {"order_id": data.get("id"), "version": data.get("version")}
    return {name: value for name, value in about.items() if isinstance(value, str | int)}


def _storable(raw: bytes, *, is_ours: bool) -> str:
    text = raw.decode(errors="replace").replace("\0", "\ufffd")
    return text if is_ours else redacted_answer(text)
