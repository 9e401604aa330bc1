"""Sends a notification once: the request is built from what was recorded, signed, sent within limits, and measured.

The worker, operators and the command line send by this; each decides what a sending means for its delivery.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from paydesk import __version__
from paydesk.core import runtime, trace
from paydesk.core.metrics import Counter, Histogram
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks import urls
from paydesk.engine.webhooks.delivery.sending import Outcome, Sender
from paydesk.engine.webhooks.schemas import CONNECT_TOPIC, TYPES
from paydesk.engine.webhooks.signatures import signature

if TYPE_CHECKING:
    from yarl import URL

ATTEMPTS = Counter(
    "paydesk_webhook_attempts_total", "Attempts to deliver a notification, by what came of them.", "topic", "outcome"
)
DURATION = Histogram(
    "paydesk_webhook_attempt_duration_seconds", "From the begin of an attempt to the end of its answer, or its failure."
).of()


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a receiver, without its body, which is the event's."""

    url: URL
    headers: dict[str, str]

    def stored(self, **more: bool) -> str:
        """Return the request as `attempts.request` has it: JSON with the members `url` and `headers`, and `more`."""
        return msgspec.json.encode({"url": str(self.url), "headers": self.headers, **more}).decode()

    @property
    def address(self) -> str:
        """The URL without userinfo, query and fragment: these may contain the receiver's credentials."""
        return str(self.url.with_user(None).with_query(None).with_fragment(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A notification as one attempt sends it: `attempt` counts from 1.

    `source_id` is the order's id, or the application's if it is about a consent.
    """

    delivery_id: str
    url: str
    topic: str
    seller_id: int
    source_id: str
    attempt: int
    body: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that was sent, and what came of it."""

    request: Request
    outcome: Outcome
    milliseconds: int


async def send(sender: Sender, message: Message, secrets: Sequence[Secret], seconds: int) -> Sent:
    """Send the notification once, signed at `seconds` of the machine's clock."""
    began = runtime.monotonic()
    signed = request(message, secrets, seconds)
    outcome = await sender.send(signed.url, signed.headers, message.body.encode())
    seconds_taken = runtime.monotonic() - began
    ATTEMPTS.add(message.topic, outcome.kind)
    DURATION.add(seconds_taken)
    return Sent(signed, outcome, round(seconds_taken * 1000))


def request_id_of(delivery_id: str) -> str:
    """Return the `X-Request-Id` of each attempt of a delivery."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, delivery_id))


def request(message: Message, secrets: Sequence[Secret], seconds: int) -> Request:
    """Return the request of one attempt, signed at `seconds` of the machine's clock.

    `X-Signature` has the signature of the first secret, the primary one; `webhook-signature` those of all.
    """
    request_id = request_id_of(message.delivery_id)
    # In the query an order's id is in lower case; of a consent it is the seller's.
    data_id = str(message.seller_id) if message.topic == CONNECT_TOPIC else message.source_id.lower()
    event_id = message.delivery_id.partition(".")[0]
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Paydesk/{__version__}",
        **trace.headers(),
        "Accept-Encoding": "identity",
        "X-Request-Id": request_id,
        "X-Retry": str(message.attempt - 1),
        "X-Signature": signature.x_signature(secrets[0], data_id=data_id, request_id=request_id, seconds=seconds),
        **signature.standard_headers(secrets, message_id=event_id, seconds=seconds, body=message.body),
    }
    return Request(urls.with_parameters(message.url, data_id, TYPES[message.topic]), headers)
