"""The response of the event feed."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from paydesk.core.response import Response, encoded
from paydesk.engine.orders.presentation import Event

EVENTS_MAX = 100


StoredEvent = Annotated[msgspec.Raw, encoded(Event), Meta(description="The body of the webhook of the same event.")]


class EventPage(Response, frozen=True):
    """Events in order, and the cursor after the last event."""

    data: Annotated[list[StoredEvent], Meta(max_length=EVENTS_MAX)]
    next: Annotated[str, Meta(description="Does not expire until the events after it are no longer kept.")]
