"""Cursors: positions in a feed, opaque to clients and valid for one feed only."""

from __future__ import annotations

import base64
import binascii

from paydesk.events.store import Feed

CHARACTERS_MAX = 200
_VERSION = "1"


def encode(feed: Feed, number: int) -> str:
    """Return the cursor after the event with this number; 0 is the beginning of the feed."""
    text = ".".join((_VERSION, *map(str, feed.key), str(number)))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(text: str, feed: Feed) -> int | None:
    """Return the event number of the feed's cursor; None if the cursor is malformed or another feed's."""
    if len(text) > CHARACTERS_MAX:
        return None
    try:
        decoded = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    number = decoded.rpartition(".")[2]
    if not (number.isascii() and number.isdigit()) or encode(feed, int(number)) != text:
        return None
    return int(number)
