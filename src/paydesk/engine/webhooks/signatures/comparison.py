"""Compare what a receiver got with what was sent in one attempt, part by part. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.engine.webhooks.signatures.mistakes import Recorded

SIGNED_HEADERS = ("X-Signature", "X-Request-Id", "webhook-id", "webhook-timestamp", "webhook-signature")
"""The headers that are signatures, or that are signed."""
AROUND_CHARACTERS = 24
"""Length of the text shown before and after the place where two bodies begin to differ."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part that differs from what was sent. None: it is missing."""

    part: str
    sent: str | None
    received: str | None


def differences(sent: Recorded, received: Recorded) -> list[Difference]:
    """Return the signatures, and the signed parts, that differ. `data.id` is compared if the receiver's URL is known.

    Bodies are represented by the text around their first difference.
    """
    different = []
    for name in SIGNED_HEADERS:
        before, after = sent.headers.get(name.lower()), received.headers.get(name.lower())
        if before != (after.strip() if after is not None else None):
            different.append(Difference(name, before, after))
    if received.has_query and sent.data_id != received.data_id:
        different.append(Difference("data.id", sent.data_id, received.data_id))
    if sent.body != received.body:
        old, new = sent.body.decode("utf-8", "replace"), received.body.decode("utf-8", "replace")
        pairs = enumerate(zip(old, new, strict=False))
        at = next((index for index, (one, other) in pairs if one != other), min(len(old), len(new)))
        different.append(Difference(f"body, from character {at + 1} on", _around(old, at), _around(new, at)))
    return different


def _around(text: str, place: int) -> str:
    first, last = max(place - AROUND_CHARACTERS, 0), place + AROUND_CHARACTERS
    return ("…" if first else "") + text[first:last] + ("…" if last < len(text) else "")
