"""What a receiver got, compared with what was sent in one attempt, part by part. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from paydesk.engine.webhooks.signatures.mistakes import Recorded

SIGNED_HEADERS = ("X-Signature", "X-Request-Id", "webhook-id", "webhook-timestamp", "webhook-signature")
"""The headers that are signatures, or that are signed."""
AROUND_CHARACTERS = 24
"""Of two bodies, this much is shown before and after the place where they begin to differ."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part that is not the one that was sent. None: it is missing."""

    part: str
    sent: str | None
    received: str | None


def differences(sent: Recorded, received: Recorded) -> list[Difference]:
    """Return the signatures, and the signed parts, that differ. `data.id` is compared if the receiver's URL is known.

    Of bodies the text around the first difference is returned.
    """
    return [*_headers(sent.headers, received.headers), *_data_id(sent, received), *_body(sent.body, received.body)]


def _headers(sent: Mapping[str, str], received: Mapping[str, str]) -> Iterator[Difference]:
    for name in SIGNED_HEADERS:
        before, after = sent.get(name.lower()), received.get(name.lower())
        if before != (after.strip() if after is not None else None):
            yield Difference(name, before, after)


def _data_id(sent: Recorded, received: Recorded) -> Iterator[Difference]:
    if received.has_query and sent.data_id != received.data_id:
        yield Difference("data.id", sent.data_id, received.data_id)


def _body(sent: bytes, received: bytes) -> Iterator[Difference]:
    if sent == received:
        return
    before, after = sent.decode("utf-8", "replace"), received.decode("utf-8", "replace")
    pairs = zip(before, after, strict=False)
    place = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))
    yield Difference(f"body, from character {place + 1} on", _around(before, place), _around(after, place))


def _around(text: str, place: int) -> str:
    first, last = max(place - AROUND_CHARACTERS, 0), place + AROUND_CHARACTERS
    return ("…" if first else "") + text[first:last] + ("…" if last < len(text) else "")
