"""The request of one attempt: its URL and signed headers, how they are stored, and what the log shows of the URL."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from paydesk import __version__
from paydesk.core.secrets import Secret
from paydesk.webhooks import signature, urls
from paydesk.webhooks.schemas import CONNECT_TOPIC, TYPES

if TYPE_CHECKING:
    from yarl import URL


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


@dataclass(frozen=True, slots=True)
class Message:
    """A notification as one attempt sends it. `data_id` is that of the query; `attempt` counts from 1."""

    url: str
    topic: str
    delivery_id: str
    event_id: str
    data_id: str
    attempt: int
    body: str

    @classmethod
    def of(
        cls, delivery_id: str, *, url: str, topic: str, seller_id: int, source_id: str, attempt: int, body: str
    ) -> Message:
        """Return the notification of a delivery; `source_id` is the order's id, or the application's."""
        return cls(
            url=url,
            topic=topic,
            delivery_id=delivery_id,
            event_id=delivery_id.partition(".")[0],
            data_id=data_id(topic, seller_id, source_id),
            attempt=attempt,
            body=body,
        )


def data_id(topic: str, seller_id: int, source_id: str) -> str:
    """Return `data.id` of the query: the order's id in lower case, or of a consent the seller's."""
    return str(seller_id) if topic == CONNECT_TOPIC else source_id.lower()


def request(message: Message, secrets: Sequence[Secret], seconds: int) -> Request:
    """Return the request of one attempt, signed at `seconds` of the machine's clock.

    `X-Signature` has the signature of the first secret, the primary one; `webhook-signature` those of all.
    """
    request_id = str(uuid.uuid5(uuid.NAMESPACE_URL, message.delivery_id))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Paydesk/{__version__}",
        "Accept-Encoding": "identity",
        "X-Request-Id": request_id,
        "X-Retry": str(message.attempt - 1),
        "X-Signature": signature.x_signature(
            secrets[0], data_id=message.data_id, request_id=request_id, seconds=seconds
        ),
        **signature.standard_headers(secrets, message_id=message.event_id, seconds=seconds, body=message.body),
    }
    return Request(urls.with_parameters(message.url, message.data_id, TYPES[message.topic]), headers)
