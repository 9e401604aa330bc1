"""Diagnose a signature that is not valid: it is compared with what the usual mistakes would have signed.

The match with the fewest mistakes explains the difference.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paydesk.engine.webhooks.signatures.mistakes import (
    MILLISECONDS_FROM,
    Key,
    NamedSecret,
    Recorded,
    Variant,
    body_variants,
    decoded_keys,
    id_variants,
    message_id_variants,
    request_id_variants,
    text_keys,
    time_variants,
)
from paydesk.engine.webhooks.signatures.signature import TOLERANCE_SECONDS_MAX, manifest

MISTAKES_MAX = 2
UNEXPLAINED = "The secret, the body, webhook-id or webhook-timestamp is not the one that was signed."
UNEXPLAINED_WITH_ITS_KEY = (
    "The body, webhook-id or webhook-timestamp is not the one that was signed: X-Signature is valid, so the secret is"
    " right. Keep the raw body: parsed and encoded again, it has other bytes."
)
STANDARD_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The diagnosis of one signature: `reasons` say why it is not valid, `remarks` what else is worth knowing."""

    header: str
    is_valid: bool
    reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    signed: str = ""
    """The signed text, with the values received; without the body."""
    secret: str = ""
    """The name of the secret that made it, of whatever age; empty if none did."""


def verify(recorded: Recorded, secrets: Sequence[NamedSecret], now_seconds: float | None) -> tuple[Verdict, Verdict]:
    """Return the verdicts on `X-Signature` and on `webhook-signature`; without `now_seconds`, whatever their age."""
    standard = _standard(recorded, secrets, now_seconds)
    query = _x_signature(recorded, secrets, now_seconds, body_matches=bool(standard.secret))
    if query.secret and standard.reasons == (UNEXPLAINED,):
        standard = replace(standard, reasons=(UNEXPLAINED_WITH_ITS_KEY,))
    return query, standard


def _x_signature(
    recorded: Recorded, secrets: Sequence[NamedSecret], now_seconds: float | None, *, body_matches: bool
) -> Verdict:
    header = recorded.headers.get("x-signature", "").strip()
    if not header:
        return Verdict("X-Signature", False, ("The header X-Signature is missing.",))
    parts = parts_of(header)
    seconds, signature = parts.get("ts", ""), parts.get("v1", "")
    if not seconds or not signature:
        lacking = "ts" if not seconds else "v1"
        return Verdict("X-Signature", False, (f"The header has no {lacking}=: it must be ts=<seconds>,v1=<64 hex>.",))
    request_id = recorded.headers.get("x-request-id", "").strip()
    data_id = recorded.data_id or ""
    remarks: tuple[str, ...] = ()
    if recorded.data_id is None and not recorded.has_query:
        data_id = recorded.body_id.lower()
        remarks = (f"The query is not known; data.id={data_id} was taken from the body, in lower case.",)
    signed = manifest(data_id, request_id, seconds)
    match = _closest(
        lambda id_, request, ts, key: _same(_hmac(key, manifest(id_, request, ts)).hex(), signature),
        id_variants(recorded, data_id),
        request_id_variants(recorded, request_id),
        time_variants(seconds, "ts"),
        text_keys(secrets),
    )
    if match is not None:
        return _verdict("X-Signature", match, _age(seconds, now_seconds, "ts"), remarks, signed)
    if not request_id:
        reason = "The header X-Request-Id is missing, and it is part of what is signed."
    elif body_matches:
        reason = (
            "data.id, X-Request-Id or ts is not the one that was signed: webhook-signature is valid, so the secret is"
            " right. A proxy before the receiver may replace X-Request-Id. While a secret is rotated, X-Signature is"
            " made with the primary secret only."
        )
    else:
        reason = "The secret, data.id, X-Request-Id or ts is not the one that was signed."
    return Verdict("X-Signature", False, (reason,), remarks, signed)


def _standard(recorded: Recorded, secrets: Sequence[NamedSecret], now_seconds: float | None) -> Verdict:
    missing = [name for name in STANDARD_HEADERS if not recorded.headers.get(name, "").strip()]
    if missing:
        return Verdict("webhook-signature", False, tuple(f"The header {name} is missing." for name in missing))
    message_id, seconds, header = (recorded.headers[name].strip() for name in STANDARD_HEADERS)
    signatures = [text.partition(",")[2] for text in header.split() if text.startswith("v1,")]
    if not signatures:
        return Verdict("webhook-signature", False, ("The header has no signature of version v1: v1,<base64>.",))

    def matches(message_id: str, seconds: str, body: bytes, key: bytes) -> bool:
        digest = _hmac(key, b"%b.%b.%b" % (_raw(message_id), _raw(seconds), body))
        return any(_same(base64.b64encode(digest).decode(), signature) for signature in signatures)

    match = _closest(
        matches,
        message_id_variants(recorded, message_id),
        time_variants(seconds, "webhook-timestamp"),
        body_variants(recorded.body),
        decoded_keys(secrets),
    )
    signed = f"{message_id}.{seconds}.<body of {len(recorded.body)} bytes>"
    if match is None:
        return Verdict("webhook-signature", False, (UNEXPLAINED,), (), signed)
    verdict = _verdict("webhook-signature", match, _age(seconds, now_seconds, "webhook-timestamp"), (), signed)
    if verdict.secret and len(signatures) > 1:
        rotated = f"The header has {len(signatures)} signatures: the secret is being rotated."
        verdict = replace(verdict, remarks=(*verdict.remarks, rotated))
    return verdict


@dataclass(frozen=True, slots=True)
class _Match:
    mistakes: tuple[str, ...]
    name: str


def _verdict(header: str, match: _Match, age: tuple[str, ...], remarks: tuple[str, ...], signed: str) -> Verdict:
    """Return the verdict on a signature that a known secret made; `age`: why its time is refused."""
    if match.mistakes:
        return Verdict(header, False, match.mistakes, remarks, signed)
    return Verdict(header, not age, age, (*remarks, f"Signed with {match.name}."), signed, match.name)


def _closest(matches: Callable[..., bool], *fields: Sequence[Variant | Key]) -> _Match | None:
    """Return the match with the fewest mistakes, at most `MISTAKES_MAX`, or None. The last field are the keys."""
    for count in range(MISTAKES_MAX + 1):
        for chosen in itertools.product(*fields):
            mistakes = tuple(variant.mistake for variant in chosen if variant.mistake)
            if len(mistakes) == count and matches(*(variant.value for variant in chosen)):
                key = chosen[-1]
                assert isinstance(key, Key), "the last field are the keys"
                return _Match(mistakes, key.name)
    return None


def _age(text: str, now_seconds: float | None, name: str) -> tuple[str, ...]:
    """Return why a valid signature is refused for its time."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        return (f"{name} is {text!r}: it must be seconds since 1970.",)
    if int(text) >= MILLISECONDS_FROM:
        return (f"{name} is in milliseconds: it must be in seconds.",)
    if now_seconds is None:
        return ()
    difference = now_seconds - int(text)
    if abs(difference) <= TOLERANCE_SECONDS_MAX:
        return ()
    when = "old" if difference > 0 else "in the future"
    units = (("days", 86_400), ("hours", 3_600), ("minutes", 60))
    unit, seconds = next((name, length) for name, length in units if abs(difference) >= 2 * length)
    return (
        f"The signature matches, but its time is {abs(difference) // seconds:.0f} {unit} {when}: receivers should"
        f" accept at most {TOLERANCE_SECONDS_MAX // 60} minutes.",
    )


def parts_of(header: str) -> dict[str, str]:
    """Return the members of an `X-Signature` header, such as `ts` and `v1`; of several the last one."""
    pairs = (part.partition("=") for part in header.split(","))
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _hmac(key: bytes, text: str | bytes) -> bytes:
    return hmac.new(key, _raw(text), hashlib.sha256).digest()


def _raw(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(_raw(one), _raw(other))
