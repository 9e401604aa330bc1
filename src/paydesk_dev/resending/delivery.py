"""`POST /operator/v1/deliveries/{delivery_id}/send-to`, in development only: sends a notification once to another URL.

It is no attempt of the delivery: nothing of the delivery or its subscription changes.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from pydantic import Field

from paydesk.core.errors import Refusal
from paydesk.core.model import Model
from paydesk.core.response import Closed
from paydesk.core.text.redaction import redacted_url
from paydesk.engine.webhooks.addresses import AddressRefused
from paydesk.engine.webhooks.delivery.send import Message, send
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.engine.webhooks.delivery.store import Target
from paydesk.engine.webhooks.signatures import signature
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.operators import audit
from paydesk.operators.deliveries import handlers as deliveries
from paydesk.operators.deliveries.handlers import AttemptResponse, DeliveryDocument
from paydesk.operators.subscriptions.fields import Url
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Transaction


class SendElsewhere(Model):
    """`POST /operator/v1/deliveries/{delivery_id}/send-to`."""

    url: Url = Field(
        description="Where to send it, by the rules of a subscription's URL.",
        examples=["http://127.0.0.1:3000/webhooks"],
    )


class SentElsewhere(Closed, frozen=True, kw_only=True):
    """The result of sending a notification to another URL: an answer, or an error."""

    url: Annotated[str, Meta(description="With the values of parameters masked whose names are those of secrets.")]
    duration_ms: int
    answer: AttemptResponse | None = None
    error: str | None = None


async def send_to(call: Call) -> Answer:
    """Send a notification once to another URL; return what its receiver answered.

    The role `support` may, `viewer` may not. Raises `DELIVERY_NOT_FOUND`, `SUBSCRIPTION_ENDED`, `PROPERTY_VALUE`.
    """
    body: SendElsewhere = call.body
    delivery, target, notification = await call.database.read(lambda tx: _find(tx, call.path))
    try:
        await subscriptions.refuse_invalid_url(
            body.url,
            ports=call.settings.webhook_ports,
            loopback_allowed=call.shared.development,
            private_networks=call.settings.webhook_private_networks,
        )
    except Refusal as refusal:
        if isinstance(refusal.__cause__, AddressRefused):
            _alert(call, refusal.__cause__, delivery, target)
        raise
    secrets = signature.secrets_of(call.keys, delivery.subscription_id, target.secrets)
    message = Message(
        delivery_id=delivery.id,
        url=body.url,
        topic=delivery.topic,
        seller_id=delivery.seller_id,
        source_id=delivery.order_id or delivery.client_id or "",
        attempt=delivery.attempts + 1,
        body=notification,
    )
    shown = redacted_url(body.url)
    await call.database.write(
        lambda tx: audit.record(call, tx, "deliveries.send_to", delivery.id, after={"url": shown})
    )
    async with Sender.of(call.settings, loopback_allowed=call.shared.development) as sender:
        sent = await send(sender, message, secrets, call.shared.wall.now_ms() // 1000)
    outcome = sent.outcome
    if outcome.refused is not None:
        # The host's address has changed since it was checked.
        _alert(call, outcome.refused, delivery, target)
    answer = None if outcome.status is None else AttemptResponse(outcome.status, outcome.body)
    return Answer(200, SentElsewhere(url=shown, duration_ms=sent.milliseconds, answer=answer, error=outcome.error))


async def _find(tx: Transaction, path: str) -> tuple[DeliveryDocument, Target, str]:
    """Return the delivery, its target and the notification's body."""
    delivery = await deliveries.of_path(tx, path)
    return delivery, await deliveries.target_of(tx, delivery), await deliveries.notification(tx, delivery)


def _alert(call: Call, refused: AddressRefused, delivery: DeliveryDocument, target: Target) -> None:
    call.alert = refused.event(
        delivery.subscription_id,
        target.application_id,
        operator_id=call.caller.operator_id,
        address=call.address,
    )
