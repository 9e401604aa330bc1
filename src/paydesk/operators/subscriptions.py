"""Webhook subscriptions. The secret is in the response that creates one, and is not shown again."""

from __future__ import annotations

from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.errors import Refusal
from paydesk.oauth.clients import applications
from paydesk.operation import Answer, Call
from paydesk.operators import audit, lists
from paydesk.operators.errors import APPLICATION_NOT_FOUND
from paydesk.operators.schemas import SubscriptionRequest
from paydesk.storage.database import Transaction
from paydesk.webhooks import subscriptions
from paydesk.webhooks.addresses import AddressRefused
from paydesk.webhooks.subscriptions import Subscription


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

    async def work(tx: Transaction) -> dict[str, Any]:
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
        return {**document, "secret": secret.reveal()}

    return Answer(201, await call.database.write(work))


async def find_all(call: Call) -> Answer:
    """List the subscriptions."""
    return await lists.page(call.tx, call, subscriptions.LISTED, ("",), lambda row: _present(Subscription(*row)))


def _present(subscription: Subscription) -> dict[str, Any]:
    """Return the subscription without its secret; an empty list of actions means all."""
    return {
        "id": subscription.subscription_id,
        "client_id": str(subscription.application_id),
        "topic": subscription.topic,
        "live_mode": bool(subscription.live),
        "url": subscription.url,
        "actions": subscription.action_names,
        "created_date": rfc3339(subscription.created_ms),
    }
