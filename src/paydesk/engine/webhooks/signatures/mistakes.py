"""The usual mistakes around signatures: what a part of the signed text, or the key, may have been instead.

The first variant of each part was received; the others are what a mistake would have made of it.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from paydesk.engine.webhooks.signatures.signature import PREFIX

MILLISECONDS_FROM = 10**11
"""A time from this number on is in milliseconds: as seconds it would be after the year 5000."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that a receiver got. Names of headers are in lower case; `data_id` is that of the query, or None."""

    headers: Mapping[str, str]
    body: bytes
    data_id: str | None
    has_query: bool = True

    @property
    def body_id(self) -> str:
        """The `data.id` in the body, or ""."""
        try:
            data_id = json.loads(self.body)["data"]["id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return ""
        return data_id if isinstance(data_id, str) and data_id.isascii() else ""


@dataclass(frozen=True, slots=True)
class NamedSecret:
    """A secret, and what it is called in messages."""

    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Variant:
    """A part of the signed text; `mistake` says what went wrong if this was signed."""

    value: str | bytes
    mistake: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """A key to sign with, and the name of its secret; `mistake` as in `Variant`."""

    value: bytes
    name: str
    mistake: str = ""


def text_keys(secrets: Sequence[NamedSecret]) -> list[Key]:
    """Return the keys of `X-Signature`: a secret as it is, or what is mistaken for it."""
    keys = []
    for secret in secrets:
        bare = secret.value.removeprefix(PREFIX)
        keys.append(Key(secret.value.encode(), secret.name))
        if bare == secret.value:
            whole = f"{secret.name} lacks {PREFIX} at its beginning, which belongs to the key of X-Signature."
            keys.append(Key((PREFIX + bare).encode(), secret.name, whole))
        else:
            without = (
                f"It was signed with {secret.name} without {PREFIX}: the key is the whole text, {PREFIX} included."
            )
            keys.append(Key(bare.encode(), secret.name, without))
        decoded = _decoded(bare)
        if decoded:
            mistake = f"It was signed with {secret.name} decoded from base64: the key is its text as it is."
            keys.append(Key(decoded, secret.name, mistake))
    return keys


def decoded_keys(secrets: Sequence[NamedSecret]) -> list[Key]:
    """Return the keys of `webhook-signature`: the decoded base64, or what is mistaken for it."""
    keys = []
    for secret in secrets:
        bare = secret.value.removeprefix(PREFIX)
        decoded = _decoded(bare)
        if decoded:
            keys.append(Key(decoded, secret.name))
        how = f"the key is the base64 after {PREFIX}, decoded."
        keys.append(Key(secret.value.encode(), secret.name, f"It was signed with {secret.name} as text: {how}"))
        if bare != secret.value:
            mistake = f"It was signed with {secret.name} without {PREFIX}, not decoded: {how}"
            keys.append(Key(bare.encode(), secret.name, mistake))
    return keys


def id_variants(recorded: Recorded, data_id: str) -> list[Variant]:
    """Return the `data.id`, and what may have been signed in its place."""
    lower = data_id.lower()
    variants = [Variant(data_id)]
    if lower != data_id:
        mistake = (
            f"data.id is {data_id}, but {lower} was signed: use data.id of the query, which is in lower case, not that"
            " of the body."
        )
        variants.append(Variant(lower, mistake))
    if data_id and data_id.upper() != data_id:
        variants.append(
            Variant(data_id.upper(), "data.id was signed in upper case: it must be signed as in the query.")
        )
    in_body = recorded.body_id.lower()
    if in_body and in_body != lower:
        what = f"is {data_id}, but that of the body was signed" if data_id else "is missing in the query"
        variants.append(Variant(in_body, f"data.id {what}: {in_body}."))
    if data_id:
        variants.append(Variant("", "It was signed without data.id."))
    return variants


def request_id_variants(recorded: Recorded, request_id: str) -> list[Variant]:
    """Return the request id, and what may have been signed in its place."""
    variants = [Variant(request_id)]
    message_id = recorded.headers.get("webhook-id", "")
    if message_id and message_id != request_id:
        variants.append(Variant(message_id, "webhook-id was signed in the place of X-Request-Id."))
    if request_id:
        variants.append(Variant("", "It was signed without X-Request-Id."))
    return variants


def message_id_variants(recorded: Recorded, message_id: str) -> list[Variant]:
    """Return the notification's id, and what may have been signed in its place."""
    variants = [Variant(message_id)]
    request_id = recorded.headers.get("x-request-id", "")
    if request_id and request_id != message_id:
        variants.append(Variant(request_id, "X-Request-Id was signed in the place of webhook-id."))
    return variants


def time_variants(text: str, name: str) -> list[Variant]:
    """Return the time, and the same in the other unit."""
    variants = [Variant(text)]
    if text.isascii() and text.isdigit():
        if int(text[:20]) >= MILLISECONDS_FROM:
            variants.append(Variant(text[:-3], f"{name} is in milliseconds, but was signed in seconds."))
        else:
            variants.append(Variant(f"{text}000", f"{name} is in seconds, but was signed in milliseconds."))
    return variants


def body_variants(body: bytes) -> list[Variant]:
    """Return the body, and what it may have been before it was changed on its way to the check."""
    mistakes = {body: ""}
    added = "The body has white space at its end that was not signed: verify the bytes as they were received."
    lacking = "The body lacks the newline at its end that was signed: verify the bytes as they were received."
    line_ends = "The body's line ends were changed: verify the bytes as they were received."
    changed = "The body was parsed and written again: verify the bytes as they were received, before parsing."
    mistakes.setdefault(body.rstrip(), added)
    mistakes.setdefault(body + b"\n", lacking)
    mistakes.setdefault(body.replace(b"\r\n", b"\n"), line_ends)
    with suppress(ValueError, RecursionError):
        document = json.loads(body)
        for is_ascii, separators in itertools.product((False, True), ((",", ":"), (", ", ": "))):
            # As libraries write it. Lone surrogates can't be encoded, so no signature has them.
            written = json.dumps(document, ensure_ascii=is_ascii, separators=separators)
            mistakes.setdefault(written.encode("utf-8", "replace"), changed)
    return [Variant(value, mistake) for value, mistake in mistakes.items()]


def _decoded(text: str) -> bytes:
    """Return the decoded base64, or b"" if it is invalid."""
    try:
        return base64.b64decode(text + "==", validate=False) if text else b""
    except (binascii.Error, ValueError):
        return b""
