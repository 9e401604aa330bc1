"""Subscriptions: which application hears of its orders, or of its sellers, where, and of which actions."""

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
from paydesk.webhooks.errors import SUBSCRIPTION_NOT_FOUND
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

DELETE = "UPDATE subscriptions SET deleted_ms = $2 WHERE subscription_id = $1 AND deleted_ms IS NULL"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One application's address for notifications. Its secret is derived, see `signature.secret_of`."""

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
        """The actions that it wants; an empty list means all."""
        names: list[str] = msgspec.json.decode(self.actions)
        return names


async def refuse_unfit(
    *, topic: str, url: str, actions: Sequence[str], ports: Collection[int], loopback_allowed: bool
) -> None:
    """Raise a refusal that names everything wrong with a subscription request.

    Looks the URL's host up, so it belongs before the unit of work, not within it. The refusal's cause is an
    `AddressRefused` where the host has an address that is not public.
    """
    refused: AddressRefused | None = None
    try:
        url_faults = await _url_faults(url, ports, loopback_allowed)
    except AddressRefused as error:
        refused, url_faults = error, ["must lead to public addresses only"]
    details = [*_topic_faults(topic), *(f"'$.url' - {fault}" for fault in url_faults)]
    # Where the topic is none of ours the earlier one's successor is meant.
    named = ACTIONS_OF.get(topic, ACTIONS_OF[TOPIC])
    details += [
        f"'$.actions[{index}]' - must be one of {', '.join(named)}"
        for index, action in enumerate(actions)
        if action not in named
    ]
    if details:
        raise PROPERTY_VALUE.with_reason("unfit subscription", *details) from refused


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
    """Subscribe an application; its secret is told here and never again. `actions` empty: all of them.

    Of `mp-connect` all of an application's subscriptions hear, `live` or not: a consent is neither.
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
    tx.notify("subscriptions")
    return subscription, signature.secret_of(keys, keys.active, subscription.subscription_id, 1)


async def listed(tx: Transaction, after: str, limit: int) -> list[Subscription]:
    """Subscriptions that are not deleted, by id, from behind `after` on."""
    return [Subscription(*row) for row in await tx.all(LISTED, after, limit)]


async def delete(tx: Transaction, subscription_id: str, now_ms: int) -> None:
    """End a subscription; what is still open for it is not sent any more."""
    if not await tx.run(DELETE, subscription_id, now_ms):
        raise SUBSCRIPTION_NOT_FOUND.with_reason("unknown or deleted subscription")
    tx.notify("subscriptions")


def _topic_faults(topic: str) -> list[str]:
    if topic in ACTIONS_OF:
        return []
    if topic == EARLIER_TOPIC:
        return [f"'$.topic' - {EARLIER_TOPIC} is no longer sent, its successor is {TOPIC}"]
    return [f"'$.topic' - must be {' or '.join(ACTIONS_OF)}"]


async def _url_faults(url: str, ports: Collection[int], loopback_allowed: bool) -> list[str]:  # noqa: FBT001 - private
    found = urls.faults(url, ports=ports, loopback_allowed=loopback_allowed)
    if found:
        return found
    resolver = CheckedResolver(loopback_allowed=loopback_allowed)
    try:
        fault = await urls.address_fault(url, resolver)
    finally:
        await resolver.close()
    return [fault] if fault else []
