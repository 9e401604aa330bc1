"""The demo receiver of notifications. It verifies them as an application should."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import jiter
import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.keys import KeyMissing, Keys
from paydesk.core.text.redaction import redacted_body
from paydesk.engine.oauth.clients import authentication
from paydesk.engine.webhooks.schemas import CONNECT_TOPIC, TYPES
from paydesk.engine.webhooks.signatures.mistakes import NamedSecret
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.storage.database import Transaction
from paydesk_dev.inbox import store
from paydesk_dev.inbox.checks import Checks
from paydesk_dev.inbox.store import InboxEntry
from paydesk_dev.schemas import Received

PATH = "/demo/inbox"
BODY_CHARACTERS_MAX = 8_192
"""Longer bodies are truncated: notifications are shorter, and one answer has up to 1,000 entries."""
MASKED_CHARACTERS_MORE = 512
"""Masking covers this much more than the limit: truncation must not split a secret and so hide it from masking."""
FILTERED_CHARACTERS_MAX = 100
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


async def secrets_of(tx: Transaction, keys: Keys, body: bytes) -> list[NamedSecret]:
    """Return the valid secrets of the subscriptions to this inbox whose keys this node has.

    Those of the application that the body names, if it has any: there may be thousands of applications.
    """
    derived, application_id = [], _application_id(parsed(_text(body)))
    chosen = [await subscriptions.get(tx, one) for one in await store.subscriptions_of(tx, application_id)]
    for subscription in chosen or await subscriptions.listed(tx, "", sys.maxsize):
        if subscription is not None and urlsplit(subscription.url).path == PATH:
            for secret in await subscriptions.secrets(tx, subscription.subscription_id):
                primary = "primary " if secret.generation == subscription.secret_generation else ""
                name = f"{primary}secret {secret.generation} of subscription {subscription.subscription_id}"
                with contextlib.suppress(KeyMissing):
                    derived.append(NamedSecret(name, secret.derive(keys).reveal()))
    return derived


def entry_of(headers: Mapping[str, str], body: bytes, *, received_ms: int, checks: Checks) -> InboxEntry:
    """Return the notification to store: valid text without credentials.

    Unsigned content can come from any sender, so it is masked.
    """
    stored = {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
    header_text, body_text = _text(msgspec.json.encode(stored)), _text(body)
    document = parsed(body_text)
    about = _subject(document)
    texts = [str(about.get("action", "")), str(about.get("order_id", "")), checks.data_id]
    if checks.fault:
        header_text, body_text = redacted_body(header_text), _masked_start(body_text, BODY_CHARACTERS_MAX)
        texts = [_masked_start(text, FILTERED_CHARACTERS_MAX) for text in texts]
    action, order_id, data_id = map(filtered, texts)
    checks = msgspec.structs.replace(checks, data_id=data_id, is_truncated=len(_text(body)) > BODY_CHARACTERS_MAX)
    return InboxEntry(
        received_ms,
        int(not checks.fault),
        header_text,
        body_text[:BODY_CHARACTERS_MAX],
        checks.fault,
        action,
        order_id.upper(),
        msgspec.json.encode(checks).decode(),
        _application_id(document),
    )


def filtered(text: str) -> str:
    """Return a value as it is stored for filters, and as a filter must be compared with it."""
    return _text(text.encode(errors="replace"))[:FILTERED_CHARACTERS_MAX]


def received(entry: InboxEntry) -> Received:
    """Return the entry for the answer, with the fields that its body has."""
    body = parsed(entry.body)
    return Received(
        received_date=rfc3339(entry.received_ms),
        **_subject(body),
        signature_valid=bool(entry.signature_valid),
        headers=_raw(entry.headers, parsed(entry.headers)),
        body=_raw(entry.body, body),
    )


def parsed(text: str) -> Any:
    """Return the document, or `UNSET` if the text is not JSON, for example because of masking.

    msgspec would take 100 times as long for numbers such as 5e-324.
    """
    try:
        return jiter.from_json(text.encode(), allow_inf_nan=False)
    except ValueError:
        return msgspec.UNSET


def _raw(text: str, document: Any) -> msgspec.Raw | str:
    """Return JSON unchanged, without encoding it again, and any other text as a string."""
    return text if document is msgspec.UNSET else msgspec.Raw(text.encode())


def _application_id(body: Any) -> int:
    """Return the application that a body names, 0 if it names none."""
    named = authentication.number(str(body.get("application_id", ""))) if isinstance(body, dict) else 0
    return max(named, 0)


def _subject(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        return {}
    data = body["data"] if isinstance(body.get("data"), dict) else {}
    fields = {"action": body.get("action")}
    if body.get("type") == TYPES[CONNECT_TOPIC]:
        fields["user_id"] = body.get("user_id")
    else:
        fields |= {"order_id": data.get("id"), "version": data.get("version")}
    return {name: value for name, value in fields.items() if isinstance(value, str | int)}


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace").replace("\0", "\ufffd")


def _masked_start(text: str, characters_max: int) -> str:
    start = text[: characters_max + MASKED_CHARACTERS_MORE]
    masked = redacted_body(start)
    # Masks shorten the text, so its end, perhaps the first part of a secret, may be within the limit.
    return masked[:-MASKED_CHARACTERS_MORE] if len(start) < len(text) else masked
