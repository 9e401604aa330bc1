"""The demo receiver: what a notification's receiver must do, checked here as an application would check it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.keys import KeyMissing, Keys
from paydesk.core.redaction import redacted_answer
from paydesk.core.secrets import Secret
from paydesk.sandbox.store import InboxEntry, Signer
from paydesk.webhooks.schemas import CONNECT_TOPIC, TYPES
from paydesk.webhooks.signature import secret_of, verify_standard, verify_x_signature

PATH = "/demo/inbox"
BODY_CHARACTERS_MAX = 8_192
"""Longer bodies are cut: notifications are shorter, and up to 1,000 entries are shown in one answer."""
MASKED_CHARACTERS_MORE = 512
"""So much more of a body is masked before it is cut: the cut must not hide part of a secret."""
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
    header_text, body_text = _text(msgspec.json.encode(kept)), _text(body)
    if not valid:
        header_text, body_text = redacted_answer(header_text), _masked_beginning(body_text)
    return InboxEntry(received_ms, int(valid), header_text, body_text[:BODY_CHARACTERS_MAX])


def shown(entry: InboxEntry) -> dict[str, Any]:
    """An entry on the wire; of a body that is no notification only what can be told."""
    document: dict[str, Any] = {"received_date": rfc3339(entry.received_ms)}
    body = _parsed(entry.body)
    return document | {
        **(_about(body) if isinstance(body, dict) else {}),
        "signature_valid": bool(entry.signature_valid),
        "headers": _as_json(entry.headers, _parsed(entry.headers)),
        "body": _as_json(entry.body, body),
    }


def _parsed(text: str) -> Any:
    """Return the document, or `UNSET` for a text that is not JSON: masking may have made it invalid."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.UNSET


def _as_json(text: str, parsed: Any) -> msgspec.Raw | str:
    """Return JSON as it is, without the cost of writing it anew, and any other text as a string."""
    return text if parsed is msgspec.UNSET else msgspec.Raw(text.encode())


def _about(body: dict[str, Any]) -> dict[str, Any]:
    data = body["data"] if isinstance(body.get("data"), dict) else {}
    about = {"action": body.get("action")}
    if body.get("type") == TYPES[CONNECT_TOPIC]:
        about["user_id"] = body.get("user_id")
    else:
        about |= {"order_id": data.get("id"), "version": data.get("version")}
    return {name: value for name, value in about.items() if isinstance(value, str | int)}


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace").replace("\0", "\ufffd")


def _masked_beginning(text: str) -> str:
    read = text[: BODY_CHARACTERS_MAX + MASKED_CHARACTERS_MORE]
    masked = redacted_answer(read)
    # Masks are short: what was read last, perhaps the first part of a secret, may be within the limit.
    return masked[:-MASKED_CHARACTERS_MORE] if len(read) < len(text) else masked
