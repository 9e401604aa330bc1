"""Errors of the event feed."""

from __future__ import annotations

from paydesk.core.errors import ErrorKind

EVENTS_NO_LONGER_KEPT = ErrorKind(
    "events_no_longer_kept",
    410,
    "The events after this cursor are no longer kept. Start again without `after`, and read each order that you still"
    " track.",
    advice="Start again without `after`, and read the orders that you still need.",
)
