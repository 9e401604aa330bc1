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
from paydesk.webhooks.request import Request
from paydesk.webhooks.schemas import TOPIC
from paydesk.webhooks.store import Claimed, Target


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
    target = Target(
        secrets=(),
        url=url,
        application_id=0,
        topic=notice.topic,
        ended=0,
        paused_ms=None,
        failing_since_ms=None,
        failed_ms=None,
        fault=None,
    )
    claimed = Claimed(
        target=target,
        claimed_ms=seconds * 1000,
        seller_id=notice.seller_id,
        delivery_id=f"{notice.event_id}.forwarded",
        subscription_id="forwarded",
        order_id=notice.source_id,
        attempt=attempt,
        uncounted=0,
        body=notice.body,
    )
    return requests.request(claimed, [secret], seconds)
