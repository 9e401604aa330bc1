"""Notifications that the command line sends itself: the same URL, headers and body as those of the service.

They have no subscription and no row: nothing is recorded, and no address is refused, because the person who runs the
command chose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paydesk.core.secrets import Secret
from paydesk.webhooks import request as requests
from paydesk.webhooks.addresses import Address, CheckedResolver
from paydesk.webhooks.request import Message, Request, data_id
from paydesk.webhooks.schemas import TOPIC


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification to send. `source_id` is the order's id, or the application's if it is about a consent."""

    event_id: str
    action: str
    seller_id: int
    source_id: str
    body: str
    topic: str = TOPIC


class AnyAddress(CheckedResolver):
    """A resolver that refuses no address."""

    def __init__(self) -> None:
        super().__init__(loopback_allowed=True, lookups_max=4)

    def check(self, host: str, addresses: Sequence[Address]) -> None:
        """Accept them all."""


def request(notice: Notice, url: str, secret: Secret, attempt: int, seconds: int) -> Request:
    """Return the request of one attempt, signed at `seconds`; `attempt` counts from 1."""
    message = Message(
        url=url,
        topic=notice.topic,
        delivery_id=f"{notice.event_id}.forwarded",
        event_id=notice.event_id,
        data_id=data_id(notice.topic, notice.seller_id, notice.source_id),
        attempt=attempt,
        body=notice.body,
    )
    return requests.request(message, [secret], seconds)
