"""Subscriptions: the URL to which an application's notifications go, by topic and actions."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import msgspec

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks import urls
from paydesk.engine.webhooks.addresses import AddressRefused, CheckedResolver
from paydesk.engine.webhooks.schemas import ACTIONS_OF, EARLIER_TOPIC, OPERATORS_TOPIC, TOPIC, TOPIC_OF
from paydesk.engine.webhooks.signatures import signature
from paydesk.platform import operator_events
from paydesk.platform.storage.database import Transaction

CREATE = """
INSERT INTO subscriptions (subscription_id, application_id, live, topic, url, actions, secret_generation, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""

ADD_GENERATION = """
INSERT INTO subscription_secrets (subscription_id, generation, key_version, created_ms) VALUES ($1, $2, $3, $4)
"""

EVERY_TOPIC: Mapping[str, Sequence[str]] = {
    **ACTIONS_OF,
    OPERATORS_TOPIC: (
        *("attention", *(f"attention.{kind}" for kind in get_args(operator_events.AttentionKind))),
        *("event", *(f"event.{kind}" for kind in get_args(operator_events.Kind))),
    ),
}
"""The actions of all topics: of operators all that needs a person, all events, or kinds of these."""

FIRST_GENERATION = 1
EVERY_APPLICATION = -1
"""Selects the subscriptions of all applications."""

_COLUMNS = f"""subscription_id, application_id, live, {TOPIC_OF.format("")}, url, actions, secret_generation,
       created_ms, paused_ms, paused_by, failing_since_ms"""

LISTED = f"""
SELECT {_COLUMNS} FROM subscriptions WHERE subscription_id > $1 AND deleted_ms IS NULL
 ORDER BY subscription_id LIMIT $2
"""

GET = f"SELECT {_COLUMNS} FROM subscriptions WHERE subscription_id = $1 AND deleted_ms IS NULL"

LOCK = f"{GET} FOR UPDATE"

# A new URL has not failed yet: what waits for a retry is sent to it at once, on the same schedule.
# `actions_ms` changes only if the actions do.
CHANGE = """
UPDATE subscriptions
   SET actions_ms = CASE WHEN actions = $3 THEN actions_ms ELSE $4 END,
       failing_since_ms = CASE WHEN url = $2 THEN failing_since_ms END,
       failed_ms = CASE WHEN url = $2 THEN failed_ms END,
       forward_ms = CASE WHEN url = $2 OR failing_since_ms IS NULL OR forward_ms = 0 THEN forward_ms ELSE 1 END,
       url = $2, actions = $3
 WHERE subscription_id = $1 AND deleted_ms IS NULL
"""

DELETE = "UPDATE subscriptions SET deleted_ms = $2 WHERE subscription_id = $1 AND deleted_ms IS NULL"

SECRETS = """
SELECT subscription_id, generation, key_version, created_ms FROM subscription_secrets
 WHERE subscription_id = $1 AND dropped_ms IS NULL ORDER BY generation
"""

SECRETS_BETWEEN = """
SELECT subscription_id, generation, key_version, created_ms FROM subscription_secrets
 WHERE subscription_id BETWEEN $1 AND $2 AND dropped_ms IS NULL ORDER BY subscription_id, generation
"""

# Dropped ones too, the newest first.
LAST_SECRETS = """
SELECT subscription_id, generation, key_version, created_ms, dropped_ms FROM subscription_secrets
 WHERE subscription_id = $1 ORDER BY generation DESC LIMIT $2
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One row of `subscriptions`, with the topic `operators` if it is for them.

    `secret_generation` is that of its primary secret.
    """

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
    failing_since_ms: int | None = None

    @property
    def action_names(self) -> list[str]:
        """The subscribed actions; an empty list means all."""
        names: list[str] = msgspec.json.decode(self.actions)
        return names


@dataclass(frozen=True, slots=True)
class SubscriptionSecret:
    """A secret of a subscription: what it is derived from. Nothing is signed with it after `dropped_ms`."""

    subscription_id: str
    generation: int
    key_version: int
    created_ms: int
    dropped_ms: int | None = None

    def derive(self, keys: Keys) -> Secret:
        """Return the secret. Raises `KeyMissing` if this node lacks the key."""
        return signature.secret_of(keys, self.key_version, self.subscription_id, self.generation)


@dataclass(frozen=True, slots=True)
class _UrlFaults:
    """The faults of a URL, as details of a refusal. `refused`: its host has an address that is not public."""

    details: Sequence[str]
    refused: AddressRefused | None = None


async def refuse_invalid(
    *,
    topic: str,
    url: str | None,
    actions: Sequence[str],
    ports: Collection[int],
    loopback_allowed: bool,
    private_networks: Collection[str] = (),
) -> None:
    """Raise `property_value` with all faults of a subscription request. Without a URL none is checked.

    Resolves the URL's host, so call it before the transaction. The refusal's cause is an `AddressRefused` if the host
    has an address that is not public.
    """
    of_url = _UrlFaults([]) if url is None else await _url_faults(url, ports, loopback_allowed, private_networks)
    details = [*of_url.details]
    if topic == EARLIER_TOPIC:
        details.insert(0, f"'$.topic' - {EARLIER_TOPIC} is no longer supported; use {TOPIC}")
    elif topic not in EVERY_TOPIC:
        details.insert(0, f"'$.topic' - must be {' or '.join(ACTIONS_OF)}")
    # The actions of an invalid topic are checked as those of `orders`.
    valid = EVERY_TOPIC.get(topic, EVERY_TOPIC[TOPIC])
    details += [
        f"'$.actions[{index}]' - must be one of {', '.join(valid)}"
        for index, action in enumerate(actions)
        if action not in valid
    ]
    if details:
        raise PROPERTY_VALUE.with_reason("invalid subscription", *details) from of_url.refused


async def refuse_invalid_url(
    url: str, *, ports: Collection[int], loopback_allowed: bool, private_networks: Collection[str] = ()
) -> None:
    """Raise `property_value` unless notifications may be sent to `url`; the rules are those of a subscription's URL.

    Resolves the URL's host; the refusal's cause is as in `refuse_invalid`.
    """
    of_url = await _url_faults(url, ports, loopback_allowed, private_networks)
    if of_url.details:
        raise PROPERTY_VALUE.with_reason("invalid URL", *of_url.details) from of_url.refused


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
        actions=_encoded(topic, actions),
        secret_generation=FIRST_GENERATION,
        created_ms=now_ms,
    )
    await tx.run(
        CREATE,
        subscription.subscription_id,
        application_id,
        int(live),
        TOPIC if topic == OPERATORS_TOPIC else topic,
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


async def get(tx: Transaction, subscription_id: str) -> Subscription | None:
    """Return the subscription, or None if it is unknown or deleted."""
    row = await tx.one(GET, subscription_id)
    return Subscription(*row) if row else None


async def lock(tx: Transaction, subscription_id: str) -> Subscription | None:
    """Return the subscription, locked until the commit, or None if it is unknown or deleted."""
    row = await tx.one(LOCK, subscription_id)
    return Subscription(*row) if row else None


async def change(
    tx: Transaction, before: Subscription, *, url: str | None, actions: Sequence[str] | None, now_ms: int
) -> Subscription:
    """Set what is not None; return the changed subscription, which the caller has locked.

    Attempts that begin after the commit use the new URL, retries included. New actions apply to later events.
    """
    new_url = before.url if url is None else url
    new_actions = before.actions if actions is None else _encoded(before.topic, actions)
    await tx.run(CHANGE, before.subscription_id, new_url, new_actions, now_ms)
    if new_url != before.url:
        tx.notify("deliveries")
    after = await get(tx, before.subscription_id)
    assert after is not None, "the row is locked until the commit"
    return after


async def delete(tx: Transaction, subscription_id: str, now_ms: int) -> None:
    """Delete the subscription: later events have no delivery to it, and the worker withdraws its pending ones."""
    await tx.run(DELETE, subscription_id, now_ms)
    tx.notify("deliveries")


async def secrets(tx: Transaction, subscription_id: str) -> list[SubscriptionSecret]:
    """Return the subscription's one or two valid secrets, the older one first."""
    return [SubscriptionSecret(*row) for row in await tx.all(SECRETS, subscription_id)]


async def last_secrets(tx: Transaction, subscription_id: str, limit: int) -> list[SubscriptionSecret]:
    """Return the subscription's last secrets, also those that were dropped, the newest first."""
    return [SubscriptionSecret(*row) for row in await tx.all(LAST_SECRETS, subscription_id, limit)]


async def secrets_between(tx: Transaction, first: str, last: str) -> list[SubscriptionSecret]:
    """Return the valid secrets of all subscriptions with ids from `first` to `last`, by subscription."""
    return [SubscriptionSecret(*row) for row in await tx.all(SECRETS_BETWEEN, first, last)]


def _encoded(topic: str, actions: Sequence[str]) -> str:
    """Return the actions as they are stored: each once, in the order of the topic."""
    return msgspec.json.encode([action for action in EVERY_TOPIC[topic] if action in actions]).decode()


async def _url_faults(
    url: str,
    ports: Collection[int],
    loopback_allowed: bool,  # noqa: FBT001 - private
    private_networks: Collection[str],
) -> _UrlFaults:
    faults = urls.faults(url, ports=ports, loopback_allowed=loopback_allowed)
    if faults:
        return _UrlFaults([f"'$.url' - {fault}" for fault in faults])
    resolver = CheckedResolver(loopback_allowed=loopback_allowed, private_networks=private_networks)
    try:
        fault = await urls.address_fault(url, resolver)
    except AddressRefused as refused:
        further = f", or to addresses in {', '.join(private_networks)}" if private_networks else ""
        further += ", or to this machine, such as 127.0.0.1" if loopback_allowed else ""
        return _UrlFaults([f"'$.url' - must resolve to public addresses only{further}"], refused)
    finally:
        await resolver.close()
    return _UrlFaults([f"'$.url' - {fault}"] if fault else [])
