"""Webhook subscriptions. The secret is in the response that creates one, and is not shown again."""

from __future__ import annotations

from paydesk import audit
from paydesk.core.errors import Refusal
from paydesk.core.response import Closed, Time
from paydesk.oauth.clients import applications
from paydesk.operation import Answer, Call
from paydesk.operators.errors import APPLICATION_NOT_FOUND
from paydesk.operators.lists import pages
from paydesk.operators.schemas import SubscriptionRequest
from paydesk.storage.database import Transaction
from paydesk.webhooks import faults, subscriptions
from paydesk.webhooks.addresses import AddressRefused
from paydesk.webhooks.faults import Fault
from paydesk.webhooks.subscriptions import Subscription


class SubscriptionDocument(Closed, frozen=True, kw_only=True):
    """A subscription without its secret; an empty list of actions means all."""

    id: str
    client_id: str
    topic: str
    live_mode: bool
    url: str
    actions: list[str]
    created_date: Time
    fault: Fault | None = None
    """What goes wrong with its notifications, in development."""


class NewSubscription(SubscriptionDocument, frozen=True, kw_only=True):
    """A new subscription with the secret that signs its notifications."""

    secret: str


async def create(call: Call) -> Answer:
    """Subscribe an application. The host name is resolved before the transaction begins."""
    audit.require_change(call)
    body: SubscriptionRequest = call.body
    actions = body.actions or []
    try:
        await subscriptions.refuse_invalid(
            topic=body.topic,
            url=body.url,
            actions=actions,
            ports=call.settings.webhook_ports,
            loopback_allowed=call.shared.development,
        )
    except Refusal as refusal:
        if isinstance(refusal.__cause__, AddressRefused):
            call.alert = refusal.__cause__.event(
                str(body.client_id), body.client_id, operator_id=call.caller.operator_id, address=call.address
            )
        raise

    async def work(tx: Transaction) -> NewSubscription:
        if await applications.get(tx, body.client_id) is None:
            raise APPLICATION_NOT_FOUND.with_reason("unknown application")
        subscription, secret = await subscriptions.create(
            tx,
            call.keys,
            application_id=body.client_id,
            topic=body.topic,
            live=body.live_mode,
            url=body.url,
            actions=actions,
            now_ms=call.now_ms,
        )
        document = _present(subscription)
        await audit.record(call, tx, "subscriptions.create", subscription.subscription_id, after=document)
        return NewSubscription.of(document, secret=secret.reveal())

    return Answer(201, await call.database.write(work))


def _present(subscription: Subscription) -> SubscriptionDocument:
    return SubscriptionDocument.of(
        subscription,
        id=subscription.subscription_id,
        client_id=str(subscription.application_id),
        live_mode=bool(subscription.live),
        actions=subscription.action_names,
        fault=None if subscription.fault is None else faults.parse(subscription.fault),
    )


PAGES = pages(SubscriptionDocument, subscriptions.LISTED, lambda row: _present(Subscription(*row)), ("",))
