"""The refusals of the feed, each declared once."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

EVENTS_NO_LONGER_KEPT = ErrorKind(
    "events_no_longer_kept",
    410,
    "The events after this cursor are no longer kept; begin without `after`, and read the orders that you wait for.",
)
