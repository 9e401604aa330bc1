"""The response of the event feed."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from paydesk.core.response import JsonObject, Response, encoded
from paydesk.engine.webhooks.schemas import Notification

EVENTS_MAX = 100


class Event(Notification, frozen=True):
    """The body of a notification about an order."""

    id: Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
    type: Literal["order"]
    user_id: str
    data: JsonObject


StoredEvent = Annotated[msgspec.Raw, encoded(Event), Meta(description="The body of the webhook of the same event.")]


class EventPage(Response, frozen=True):
    """Events in order, and the cursor after the last event."""

    data: Annotated[list[StoredEvent], Meta(max_length=EVENTS_MAX)]
    next: Annotated[str, Meta(description="Does not expire until the events after it are no longer kept.")]
