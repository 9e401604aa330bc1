"""Notifications that the command line sends itself: the same URL, headers and body as those of the service.

They have no subscription and no row: nothing is recorded, and no address is refused, because the person who runs the
command chose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paydesk.engine.webhooks.addresses import Address, CheckedResolver
from paydesk.engine.webhooks.delivery.send import Message
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.engine.webhooks.schemas import TOPIC

TIMEOUT_SECONDS = 22.0
"""Time that the service waits for an answer by default."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification to send. `source_id` is the order's id, or the application's if it is about a consent."""

    event_id: str
    action: str
    seller_id: int
    source_id: str
    body: str
    topic: str = TOPIC

    def message(self, url: str, attempt: int) -> Message:
        """Return the notification as one attempt sends it to `url`; `attempt` counts from 1."""
        return Message(
            delivery_id=f"{self.event_id}.forwarded",
            url=url,
            topic=self.topic,
            seller_id=self.seller_id,
            source_id=self.source_id,
            attempt=attempt,
            body=self.body,
        )


class AnyAddress(CheckedResolver):
    """A resolver that refuses no address."""

    def __init__(self) -> None:
        super().__init__(loopback_allowed=True, lookups_max=4)

    def check(self, host: str, addresses: Sequence[Address]) -> None:
        """Accept them all."""


def sender() -> Sender:
    """Return a sender to any address."""
    return Sender(AnyAddress(), timeout_seconds=TIMEOUT_SECONDS)
