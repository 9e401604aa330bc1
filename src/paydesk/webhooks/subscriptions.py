"""Subscriptions: the URL to which an application's notifications go, by topic and actions."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret
from paydesk.storage.database import Transaction
from paydesk.webhooks import signature, urls
from paydesk.webhooks.addresses import AddressRefused, CheckedResolver
from paydesk.webhooks.schemas import ACTIONS_OF, EARLIER_TOPIC, TOPIC

CREATE = """
INSERT INTO subscriptions (subscription_id, application_id, live, topic, url, actions, secret_generation, key_version,
                           created_ms)
VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8)
"""

_COLUMNS = "subscription_id, application_id, live, topic, url, actions, secret_generation, key_version, created_ms"

LISTED = f"""
SELECT {_COLUMNS} FROM subscriptions WHERE subscription_id > $1 AND deleted_ms IS NULL
 ORDER BY subscription_id LIMIT $2
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One row of `subscriptions`. Its secret is derived, see `signature.secret_of`."""

    subscription_id: str
    application_id: int
    live: int
    topic: str
    url: str
    actions: str
    secret_generation: int
    key_version: int
    created_ms: int

    @property
    def action_names(self) -> list[str]:
        """The subscribed actions; an empty list means all."""
        names: list[str] = msgspec.json.decode(self.actions)
        return names


async def refuse_invalid(
    *, topic: str, url: str, actions: Sequence[str], ports: Collection[int], loopback_allowed: bool
) -> None:
    """Raise `property_value` with all faults of a subscription request.

    Resolves the URL's host, so call it before the transaction. The refusal's cause is an `AddressRefused` if the host
    has an address that is not public.
    """
    refused: AddressRefused | None = None
    try:
        url_faults = await _url_faults(url, ports, loopback_allowed)
    except AddressRefused as error:
        refused, url_faults = error, ["must resolve to public addresses only"]
    details = [*_topic_faults(topic), *(f"'$.url' - {fault}" for fault in url_faults)]
    # The actions of an invalid topic are checked as those of `orders`.
    valid = ACTIONS_OF.get(topic, ACTIONS_OF[TOPIC])
    details += [
        f"'$.actions[{index}]' - must be one of {', '.join(valid)}"
        for index, action in enumerate(actions)
        if action not in valid
    ]
    if details:
        raise PROPERTY_VALUE.with_reason("invalid subscription", *details) from refused


async def create(
    tx: Transaction,
    keys: Keys,
    *,
    application_id: int,
    live: bool,
    url: str,
    actions: Sequence[str],
    now_ms: int,
    topic: str = TOPIC,
) -> tuple[Subscription, Secret]:
    """Insert a subscription and return it with its secret. Empty `actions` mean all.

    Subscriptions to `mp-connect` get live and test events whatever `live` is, because a consent covers both.
    """
    subscription = Subscription(
        subscription_id=str(uuid.uuid4()),
        application_id=application_id,
        live=int(live),
        topic=topic,
        url=url,
        actions=msgspec.json.encode([action for action in ACTIONS_OF[topic] if action in actions]).decode(),
        secret_generation=1,
        key_version=keys.active,
        created_ms=now_ms,
    )
    await tx.run(
        CREATE,
        subscription.subscription_id,
        application_id,
        int(live),
        topic,
        url,
        subscription.actions,
        keys.active,
        now_ms,
    )
    return subscription, signature.secret_of(keys, keys.active, subscription.subscription_id, 1)


async def listed(tx: Transaction, after: str, limit: int) -> list[Subscription]:
    """Return up to `limit` subscriptions with ids after `after`, in order of id."""
    return [Subscription(*row) for row in await tx.all(LISTED, after, limit)]


def _topic_faults(topic: str) -> list[str]:
    if topic in ACTIONS_OF:
        return []
    if topic == EARLIER_TOPIC:
        return [f"'$.topic' - {EARLIER_TOPIC} is no longer supported; use {TOPIC}"]
    return [f"'$.topic' - must be {' or '.join(ACTIONS_OF)}"]


async def _url_faults(url: str, ports: Collection[int], loopback_allowed: bool) -> list[str]:  # noqa: FBT001 - private
    faults = urls.faults(url, ports=ports, loopback_allowed=loopback_allowed)
    if faults:
        return faults
    resolver = CheckedResolver(loopback_allowed=loopback_allowed)
    try:
        fault = await urls.address_fault(url, resolver)
    finally:
        await resolver.close()
    return [fault] if fault else []
