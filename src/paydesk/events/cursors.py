"""Cursors: a place in a feed as its readers carry it. Opaque to them, and good for the one feed alone."""

from __future__ import annotations

import base64
import binascii

from paydesk.events.store import Feed

CHARACTERS_MAX = 200
_VERSION = "1"


def cursor(feed: Feed, number: int) -> str:
    """The place behind the event of this number; 0 is before the first."""
    text = ".".join((_VERSION, *map(str, feed.key), str(number)))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def number_of(text: str, feed: Feed) -> int | None:
    """The number that the cursor of this feed stands behind; None where it is none, or another feed's."""
    if len(text) > CHARACTERS_MAX:
        return None
    try:
        decoded = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    number = decoded.rpartition(".")[2]
    if not (number.isascii() and number.isdigit()) or cursor(feed, int(number)) != text:
        return None
    return int(number)
