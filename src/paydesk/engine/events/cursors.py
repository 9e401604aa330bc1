"""Cursors: positions in a feed, opaque to clients and valid for one feed only."""

from __future__ import annotations

import base64

from paydesk.engine.events.store import Feed

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
        number = int(base64.urlsafe_b64decode(f"{text}==").decode().rpartition(".")[2])
    except ValueError:
        return None
    # Other spellings of the same cursor, and of the number, are refused.
    return number if number >= 0 and encode(feed, number) == text else None
