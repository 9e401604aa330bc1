"""The endpoints of operators about deliveries: their list, one with its attempts, resends, replays and checks."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operators import deliveries, delivery_checks, errors, sent_elsewhere
from paydesk.operators.noun import Noun, listing
from paydesk.operators.subscriptions.operations import REPLAY
from paydesk.orders.errors import ORDER_NOT_FOUND

_DELIVERY = Noun(
    "deliveries/{delivery_id}",
    "delivery",
    deliveries.ID_PATTERN,
    deliveries.DeliveryDocument,
    errors.DELIVERY_NOT_FOUND,
)

OPERATIONS = (
    listing("deliveries", deliveries.PAGES, ORDER_NOT_FOUND),
    REPLAY,
    _DELIVERY.reading(
        deliveries.get,
        summary="Get a delivery with the notification and all attempts",
        answer=deliveries.InspectedDelivery,
        description=(
            "Attempts are kept until 30 days after the delivery's end. Values in answers that may be card data or"
            " secrets are masked."
        ),
    ),
    _DELIVERY.acting(
        "resend",
        deliveries.resend,
        summary="Send a notification again",
        role="resend",
        status=202,
        description=(
            "Requests one attempt at once, outside the order of versions and the retry schedule, in any status. It has"
            " the same ids and body and a new signature. A success makes the delivery `delivered`; a failure changes"
            " no status. An attempt in progress ends first. Further requests before the attempt begins have no effect."
        ),
        errors=(errors.SUBSCRIPTION_ENDED, errors.SUBSCRIPTION_PAUSED),
    ),
    _DELIVERY.acting(
        "send-to",
        sent_elsewhere.send_to,
        summary="Send a notification once to another URL",
        role="resend",
        name="operator_send_delivery_to",
        body=sent_elsewhere.SendElsewhere,
        answer=sent_elsewhere.SentElsewhere,
        description=(
            "Sends the same notification once, at once, with the same ids and body and a new signature by the"
            " subscription's secrets, also if the subscription is paused; its fault has no effect. Returns what the"
            " receiver answered. It is no attempt: nothing of the delivery changes."
        ),
        transaction="none",
        development=True,
        errors=(errors.SUBSCRIPTION_ENDED, PROPERTY_VALUE),
    ),
    _DELIVERY.acting(
        "verify",
        delivery_checks.verify,
        summary="Verify the signatures of a notification",
        answer=delivery_checks.CheckedDelivery,
        body=delivery_checks.DeliveryCheck,
        transaction="heavy",
        role="every",
        description=(
            "Send what a receiver got: the answer says whether both signatures are valid, if not which usual mistake"
            " explains it, and which parts differ from what was sent. Without headers and body, what was sent is"
            " explained. Any age of a signature is accepted. Changes nothing."
        ),
        errors=(PROPERTY_VALUE,),
    ),
)
