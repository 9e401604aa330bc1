"""The signatures of a notification explained: of an attempt as it was sent, or of what a receiver got.

The secrets stay here: an operator sends headers and body, and gets verdicts.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Meta
from pydantic import Field

from paydesk.core.errors import PROPERTY_VALUE, Refusal
from paydesk.core.keys import KeyMissing
from paydesk.core.model import Model
from paydesk.core.response import Closed
from paydesk.core.text.card_numbers import is_uuid
from paydesk.core.text.redaction import redacted
from paydesk.engine.webhooks.signatures import comparison, diagnosis
from paydesk.engine.webhooks.signatures.diagnosis import Verdict
from paydesk.engine.webhooks.signatures.mistakes import NamedSecret, Recorded
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.engine.webhooks.subscriptions.store import SubscriptionSecret
from paydesk.operators.deliveries.handlers import ATTEMPTS, notification, of_path
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Row

SECRETS_MAX = 4
"""Maximum of the subscription's last secrets that are tried, dropped ones included."""
_SIGNATURE = re.compile("ts=[0-9]{1,20},v1=[0-9a-f]{64}")
_UUID = re.compile("([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_REQUEST = 3
"""The column of the request in `ATTEMPTS`."""

Header = Annotated[str, Field(max_length=8000)]


_Headers = Annotated[
    dict[str, Header],
    Field(max_length=100, description="As the receiver got them.", examples=[{"X-Signature": "ts=1,v1=0a1b2c"}]),
]
_Body = Annotated[
    str, Field(max_length=60_000, description="The body as the receiver got it, byte for byte.", examples=["e30="])
]
_Url = Annotated[
    str, Field(max_length=4000, description="The URL or the query that the receiver got.", examples=["/hook?data.id=x"])
]
_Attempt = Annotated[
    int, Field(ge=1, le=10**9, description="By default the one of the received time, or the last one.")
]


class DeliveryCheck(Model):
    """`POST /operator/v1/deliveries/{delivery_id}/verify`. Without headers and body: those of the attempt."""

    headers: _Headers | None = None
    body_base64: _Body | None = None
    url: _Url | None = None
    attempt: _Attempt | None = None


class SignatureVerdict(Closed, frozen=True):
    """The verdict on one signature."""

    header: Literal["X-Signature", "webhook-signature"]
    valid: bool
    reasons: Annotated[list[str], Meta(description="Why it is not valid.")]
    remarks: list[str]
    signed: Annotated[str, Meta(description="The signed text, with the values received; without the body.")]
    secret_id: Annotated[str, Meta(description="The secret that made it.")] | None = None


class PartDifference(Closed, frozen=True):
    """A part that was received differently from what was sent."""

    part: str
    sent: str | None = None
    received: str | None = None


class CheckedDelivery(Closed, frozen=True):
    """The verdicts on both signatures, and what differs from what was sent in the attempt."""

    valid: bool
    signatures: list[SignatureVerdict]
    differences: list[PartDifference]
    attempt: Annotated[int, Meta(description="The attempt that was compared.")] | None = None


async def verify(call: Call) -> Answer:
    """Verify the signatures of a notification: what a receiver got, or what was sent. Changes nothing."""
    body: DeliveryCheck = call.body
    delivery = await of_path(call.tx, call.path)
    notified = (await notification(call.tx, delivery)).encode()
    number, sent = _sent(await call.tx.all(ATTEMPTS, delivery.seller_id, delivery.id), notified, body)
    secrets = await subscriptions.last_secrets(call.tx, delivery.subscription_id, SECRETS_MAX)
    # What was not given is as it was sent.
    content = b"" if sent is None else sent.body
    if body.body_base64 is not None:
        try:
            content = base64.b64decode(body.body_base64, validate=True)
        except ValueError:
            raise _refused("body_base64", "must be base64") from None
    if body.headers is not None:
        received = _recorded(body.headers, content, body.url)
    elif sent is not None:
        received = replace(sent, body=content)
    else:
        raise _refused("headers", "must be given: no attempt was recorded with its request")
    named = []
    for secret in secrets:
        with contextlib.suppress(KeyMissing):  # This node lacks the server key.
            named.append(NamedSecret(f"secret {secret.generation}", secret.derive(call.keys).reveal()))
    is_sent = body.headers is None
    verdicts = [_verdict(one, secrets, is_sent=is_sent) for one in diagnosis.verify(received, named, None)]
    differences = [] if sent is None else comparison.differences(sent, received)
    shown = [PartDifference(one.part, _part(one.sent), _part(one.received)) for one in differences]
    return Answer(200, CheckedDelivery(all(one.valid for one in verdicts), verdicts, shown, number))


def _sent(rows: Sequence[Row], content: bytes, body: DeliveryCheck) -> tuple[int | None, Recorded | None]:
    """Return the number and the request of the attempt to compare with, or None if none has a request.

    By default it is the last one that was signed at the time in the received headers, or else the last one.
    """
    requests: dict[int, dict[str, Any]] = {row[0]: msgspec.json.decode(row[_REQUEST]) for row in rows if row[_REQUEST]}
    if body.attempt is not None and body.attempt not in requests:
        raise _refused("attempt", "must be the number of an attempt in the history that has a request")
    if not requests:
        return None, None
    moment = _moment(body.headers or {})
    matching = [number for number, request in requests.items() if moment and _moment(request["headers"]) == moment]
    number = body.attempt or max(matching or requests)
    return number, _recorded(requests[number]["headers"], content, requests[number]["url"])


def _moment(headers: Mapping[str, str]) -> str:
    """Return the time of a signature, or an empty text."""
    lower = {name.strip().lower(): value for name, value in headers.items()}
    return lower.get("webhook-timestamp", "").strip() or diagnosis.parts_of(lower.get("x-signature", "")).get("ts", "")


def _recorded(headers: dict[str, str], body: bytes, url: str | None) -> Recorded:
    lower = {name.strip().lower(): value for name, value in headers.items()}
    if url is None:
        return Recorded(lower, body, None, has_query=False)
    try:
        query = urlsplit(url).query if "?" in url or "://" in url or url.startswith("/") else url
    except ValueError:
        raise _refused("url", "must be a URL, a path with a query, or a query") from None
    values = parse_qs(query, keep_blank_values=True).get("data.id")
    return Recorded(lower, body, values[-1] if values else None)


def _verdict(verdict: Verdict, secrets: Sequence[SubscriptionSecret], *, is_sent: bool) -> SignatureVerdict:
    """Return the verdict; a receiver must not accept a signature that a dropped secret made."""
    secret_id = verdict.secret.removeprefix("secret ") or None
    dropped = {str(secret.generation) for secret in secrets if secret.dropped_ms is not None}
    reasons = list(verdict.reasons)
    if secret_id in dropped and not is_sent:
        reasons.append(f"It was made with secret {secret_id}, which was dropped since: nothing is signed with it.")
    return SignatureVerdict(
        header="X-Signature" if verdict.header == "X-Signature" else "webhook-signature",
        valid=not reasons,
        reasons=[_plain(reason) for reason in reasons],
        remarks=[_plain(remark) for remark in verdict.remarks],
        signed=_plain(verdict.signed),
        secret_id=secret_id,
    )


def _plain(text: str) -> str:
    """Return the text without secrets. A UUID in it is no card number, whatever its digits."""
    return "".join(part if is_uuid(part) else str(redacted(part)) for part in _UUID.split(text))


def _part(text: str | None) -> str | None:
    """Return a part of a request without secrets; headers and bodies may contain any text. A signature is no secret."""
    return text if text is None or _SIGNATURE.fullmatch(text) else _plain(text)


def _refused(name: str, rule: str) -> Refusal:
    return PROPERTY_VALUE.with_reason(f"{name} cannot be checked", f"'$.{name}' - {rule}")
