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
INSERT INTO subscriptions (subscription_id, application_id, live, topic, url, actions, secret_generation, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""

ADD_GENERATION = """
INSERT INTO subscription_secrets (subscription_id, generation, key_version, created_ms) VALUES ($1, $2, $3, $4)
"""

FIRST_GENERATION = 1

_COLUMNS = """subscription_id, application_id, live, topic, url, actions, secret_generation, created_ms, paused_ms,
       paused_by, fault"""

LISTED = f"""
SELECT {_COLUMNS} FROM subscriptions WHERE subscription_id > $1 AND deleted_ms IS NULL
 ORDER BY subscription_id LIMIT $2
"""

SECRETS = """
SELECT subscription_id, generation, key_version, created_ms FROM subscription_secrets
 WHERE subscription_id = $1 AND dropped_ms IS NULL ORDER BY generation
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One row of `subscriptions`. `secret_generation` is that of its primary secret. `fault` is JSON."""

    subscription_id: str
    application_id: int
    live: int
    topic: str
    url: str
    actions: str
    secret_generation: int
    created_ms: int
    paused_ms: int | None = None
    paused_by: str | None = None
    fault: str | None = None

    @property
    def action_names(self) -> list[str]:
        """The subscribed actions; an empty list means all."""
        names: list[str] = msgspec.json.decode(self.actions)
        return names


@dataclass(frozen=True, slots=True)
class SubscriptionSecret:
    """A valid secret of a subscription: what it is derived from."""

    subscription_id: str
    generation: int
    key_version: int
    created_ms: int

    def derive(self, keys: Keys) -> Secret:
        """Return the secret. Raises `KeyMissing` if this node lacks the key."""
        return signature.secret_of(keys, self.key_version, self.subscription_id, self.generation)


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
        secret_generation=FIRST_GENERATION,
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
        FIRST_GENERATION,
        now_ms,
    )
    await tx.run(ADD_GENERATION, subscription.subscription_id, FIRST_GENERATION, keys.active, now_ms)
    first = SubscriptionSecret(subscription.subscription_id, FIRST_GENERATION, keys.active, now_ms)
    return subscription, first.derive(keys)


async def listed(tx: Transaction, after: str, limit: int) -> list[Subscription]:
    """Return up to `limit` subscriptions with ids after `after`, in order of id."""
    return [Subscription(*row) for row in await tx.all(LISTED, after, limit)]


async def secrets(tx: Transaction, subscription_id: str) -> list[SubscriptionSecret]:
    """Return the subscription's one or two valid secrets, the older one first."""
    return [SubscriptionSecret(*row) for row in await tx.all(SECRETS, subscription_id)]


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
