"""Webhook subscriptions: create, list, change, pause, resume and delete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from msgspec import Meta

from paydesk.core.errors import Refusal
from paydesk.core.ids import UUID
from paydesk.core.response import Closed, Time
from paydesk.engine.oauth.clients import applications
from paydesk.engine.webhooks.addresses import AddressRefused
from paydesk.engine.webhooks.schemas import OPERATORS, OPERATORS_TOPIC
from paydesk.engine.webhooks.subscriptions import backlog, pausing
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.engine.webhooks.subscriptions.pausing import PausedBy
from paydesk.engine.webhooks.subscriptions.store import EVERY_APPLICATION, Subscription, SubscriptionSecret
from paydesk.operators import audit, lists
from paydesk.operators.errors import APPLICATION_NOT_FOUND, SUBSCRIPTION_NOT_FOUND
from paydesk.operators.subject import Subject
from paydesk.operators.subscriptions import store
from paydesk.operators.subscriptions.fields import OperatorSubscriptionRequest, SubscriptionChange, SubscriptionRequest
from paydesk.operators.words import Shown
from paydesk.platform import roles
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Transaction

OF_APPLICATION = replace(
    lists.OF_APPLICATION,
    name="client_id",
    description="Only subscriptions of this application.",
    rule="must be a whole number",
)
_SORT = Query(
    "sort",
    {"enum": ["id", "urgency"], "default": "id"},
    "By id, or by `urgency`: those that were paused after failures, those that are failing or have exhausted"
    " deliveries, those that an operator paused, and the others; each by id.",
    shown=Shown("Order", help="id, or urgency: first those that are paused after failures, or are failing."),
)
_BY_URGENCY = (0, "")
"""The key before all others in the order of urgency."""


class SubscriptionSecretDocument(Closed, frozen=True):
    """The id and date of a valid secret; `X-Signature` is made with the primary one."""

    id: str
    is_primary: bool
    created_date: Time


class SubscriptionDocument(Closed, frozen=True, kw_only=True):
    """A subscription with the ids of its secrets; an empty list of actions means all."""

    id: str
    client_id: Annotated[str, Meta(description="Absent if it is for operators.")] | None = None
    topic: str
    live_mode: bool
    url: str
    actions: list[str]
    status: Literal["active", "paused"]
    paused_date: Time | None = None
    paused_by: PausedBy | None = None
    failing_since_date: Time | None = None
    created_date: Time
    secrets: list[SubscriptionSecretDocument]


class CountedSubscription(SubscriptionDocument, frozen=True, kw_only=True):
    """A subscription with the numbers of its deliveries, at most 1,000 of each; a number that is missing is 0."""

    pending: Annotated[int, Meta(description="How many of its deliveries are `pending`; 1000: that many or more.")] = 0
    exhausted: Annotated[int, Meta(description="How many are `exhausted`; 1000: that many or more.")] = 0


class NewSubscription(SubscriptionDocument, frozen=True, kw_only=True):
    """A new subscription with the secret that signs its notifications."""

    secret: str


async def create(call: Call) -> Answer:
    """Subscribe an application. The host name is resolved before the transaction begins."""
    body: SubscriptionRequest = call.body
    # No topic that an application can have: it is refused like an unknown one.
    topic = "" if body.topic == OPERATORS_TOPIC else body.topic
    return await _create(call, body.client_id, topic, live=body.live_mode)


async def create_for_operators(call: Call) -> Answer:
    """Subscribe operators to what needs a person and to operator events."""
    return await _create(call, OPERATORS, OPERATORS_TOPIC, live=True)


async def _create(call: Call, application_id: int, topic: str, *, live: bool) -> Answer:
    body: SubscriptionRequest | OperatorSubscriptionRequest = call.body
    actions = body.actions or []
    await _refuse_invalid(call, application_id, topic=topic, url=body.url, actions=actions)
    now_ms = call.clock.now_ms()  # Resolving the name took time, and the subscription gets no earlier events.

    async def work(tx: Transaction) -> NewSubscription:
        if topic != OPERATORS_TOPIC and await applications.lock_shared(tx, application_id) is None:
            raise APPLICATION_NOT_FOUND.with_reason("unknown application")
        subscription, secret = await subscriptions.create(
            tx,
            call.keys,
            application_id=application_id,
            topic=topic,
            live=live,
            url=body.url,
            actions=actions,
            now_ms=now_ms,
        )
        document = await present(tx, subscription)
        await audit.record(call, tx, "subscriptions.create", subscription.subscription_id, after=document)
        return NewSubscription.of(document, secret=secret.reveal())

    return Answer(201, await call.database.write(work))


async def get(call: Call) -> Answer:
    """Get a subscription with the ids of its secrets."""
    subscription = await subscriptions.get(call.tx, call.path.lower())
    if subscription is None:
        raise unknown()
    document = await present(call.tx, subscription)
    ((_, pending, exhausted),) = await backlog.counted(call.tx, document.id, document.id)
    return Answer(200, CountedSubscription.of(document, pending=pending, exhausted=exhausted))


async def change(call: Call) -> Answer:
    """Change a subscription's URL or actions. A host name is resolved before the transaction begins."""
    body: SubscriptionChange = call.body
    found = await call.database.read(lambda tx: subscriptions.get(tx, call.path.lower()))
    if found is None:
        raise unknown()
    await _refuse_invalid(call, found.application_id, topic=found.topic, url=body.url, actions=body.actions or [])
    now_ms = call.clock.now_ms()

    async def work(tx: Transaction) -> Answer:
        return await SUBSCRIPTION.change(
            call,
            "subscriptions.change",
            lambda one: subscriptions.change(tx, one, url=body.url, actions=body.actions, now_ms=now_ms),
            tx,
        )

    return await call.database.write(work)


async def pause(call: Call) -> Answer:
    """Pause a subscription: its deliveries stay pending."""
    return await SUBSCRIPTION.change(
        call, "subscriptions.pause", lambda one: pausing.pause(call.tx, one.subscription_id, "operator", call.now_ms)
    )


async def resume(call: Call) -> Answer:
    """Resume a paused subscription: its pending deliveries are sent, in order per order."""
    return await SUBSCRIPTION.change(
        call, "subscriptions.resume", lambda one: pausing.resume(call.tx, one.subscription_id)
    )


async def delete(call: Call) -> Answer:
    """Delete a subscription. Its pending deliveries are withdrawn; the history of the others stays."""
    return await SUBSCRIPTION.delete(
        call, "subscriptions.delete", lambda one: subscriptions.delete(call.tx, one.subscription_id, call.now_ms)
    )


async def present(tx: Transaction, subscription: Subscription) -> SubscriptionDocument:
    """Return the document of a subscription."""
    return _document(subscription, await subscriptions.secrets(tx, subscription.subscription_id))


def unknown() -> Refusal:
    """Return the refusal of an unknown or deleted subscription."""
    return SUBSCRIPTION_NOT_FOUND.with_reason("unknown or deleted subscription")


async def _refuse_invalid(
    call: Call, application_id: int, *, topic: str, url: str | None, actions: Sequence[str]
) -> None:
    """Raise `property_value` with all faults; a host at an address that is not public is also an operator event."""
    try:
        await subscriptions.refuse_invalid(
            topic=topic,
            url=url,
            actions=actions,
            ports=call.settings.webhook_ports,
            loopback_allowed=call.shared.development,
            private_networks=call.settings.webhook_private_networks,
        )
    except Refusal as refusal:
        if isinstance(refusal.__cause__, AddressRefused):
            subject = OPERATORS_TOPIC if application_id == OPERATORS else str(application_id)
            call.alert = refusal.__cause__.event(
                subject, application_id, operator_id=call.caller.operator_id, address=call.address
            )
        raise


async def _list(call: Call, filters: Filters) -> Answer:
    """Return a page of the subscriptions, each with the ids of its secrets."""
    by_urgency = filters.get("sort") == "urgency"
    sql, first = (store.BY_URGENCY, _BY_URGENCY) if by_urgency else (store.BY_ID, ("",))
    application_id = int(filters.get(OF_APPLICATION.name, EVERY_APPLICATION))
    answer = await lists.page(call, filters, sql, first, store.listed, application_id)
    found: list[tuple[Subscription, int, int]] = answer.body.data
    secrets = defaultdict[str, list[SubscriptionSecret]](list)
    if found:
        ids = sorted(one.subscription_id for one, _, _ in found)
        for secret in await subscriptions.secrets_between(call.tx, ids[0], ids[-1]):
            secrets[secret.subscription_id].append(secret)
    documents = [
        CountedSubscription.of(_document(one, secrets[one.subscription_id]), pending=pending, exhausted=exhausted)
        for one, pending, exhausted in found
    ]
    return Answer(200, lists.Page(documents, answer.body.next))


def _document(subscription: Subscription, secrets: Sequence[SubscriptionSecret]) -> SubscriptionDocument:
    return SubscriptionDocument.of(
        subscription,
        id=subscription.subscription_id,
        client_id=None if subscription.topic == OPERATORS_TOPIC else str(subscription.application_id),
        live_mode=bool(subscription.live),
        actions=subscription.action_names,
        status="active" if subscription.paused_ms is None else "paused",
        secrets=[
            SubscriptionSecretDocument.of(
                secret, id=str(secret.generation), is_primary=secret.generation == subscription.secret_generation
            )
            for secret in secrets
        ],
    )


PAGES = lists.Pages(lists.Page[CountedSubscription], _list, (OF_APPLICATION, _SORT, *lists.paging(("",))), "By id.")


async def _lock(tx: Transaction, call: Call) -> Subscription | None:
    sent_id = call.paths[0]
    found = await subscriptions.lock(tx, sent_id.lower()) if UUID.fullmatch(sent_id) else None
    if found is not None and found.topic == OPERATORS_TOPIC:
        roles.check(call.caller.role, "owner")
    return found


SUBSCRIPTION: Subject[Subscription] = Subject(
    lock=_lock,
    read=lambda tx, one: subscriptions.get(tx, one.subscription_id),
    show=present,
    id_of=lambda one: one.subscription_id,
    unknown=unknown,
)
