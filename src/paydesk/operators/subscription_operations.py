"""The endpoints of operators about webhook subscriptions and their secrets."""

from __future__ import annotations

from paydesk.core.errors import IN_USE, PROPERTY_VALUE
from paydesk.core.ids import NUMBER_PATTERN, UUID_PATTERN
from paydesk.operators import errors, subscription_schemas, subscription_secrets, subscriptions
from paydesk.operators.rows import Resource, creating, listing

_SUBSCRIPTION = Resource(
    "subscriptions/{subscription_id}",
    "subscription",
    UUID_PATTERN,
    subscriptions.SubscriptionDocument,
    errors.SUBSCRIPTION_NOT_FOUND,
)
_SECRET = Resource(
    "subscriptions/{subscription_id}/secrets/{secret_id}",
    "subscription_secret",
    NUMBER_PATTERN,
    subscriptions.SubscriptionDocument,
    errors.SUBSCRIPTION_NOT_FOUND,
)

OPERATIONS = (
    listing("subscriptions", subscriptions.PAGES),
    creating(
        "subscriptions",
        subscriptions.create,
        subscription_schemas.SubscriptionRequest,
        subscriptions.NewSubscription,
        summary="Subscribe an application",
        description="The response contains the secret that signs the notifications; it is not shown again.",
        transaction="none",
        errors=(errors.APPLICATION_NOT_FOUND,),
    ),
    _SUBSCRIPTION.reading(
        subscriptions.get, "Get a subscription with the ids of its secrets", answer=subscriptions.CountedSubscription
    ),
    _SUBSCRIPTION.changing(
        subscriptions.change,
        subscription_schemas.SubscriptionChange,
        "Change a subscription's URL or actions",
        PROPERTY_VALUE,
        transaction="none",
    ),
    _SUBSCRIPTION.deleting(
        subscriptions.delete,
        "Delete a subscription",
        status=204,
        answer=None,
        description=(
            "Later events are not sent to it. Its pending deliveries become `withdrawn`; an attempt in progress ends"
            " first. The deliveries that have ended stay in the history."
        ),
    ),
    _SUBSCRIPTION.acting(
        "pause",
        subscriptions.pause,
        "Pause a subscription",
        description=(
            "Its deliveries stay `pending`, also those of later events, and are kept for 30 days. Attempts in progress"
            " end. Pausing a paused subscription has no effect."
        ),
    ),
    _SUBSCRIPTION.acting(
        "resume",
        subscriptions.resume,
        "Resume a paused subscription",
        description=(
            "Its pending deliveries are sent, in order per order. Resuming an active subscription has no effect."
        ),
    ),
    _SUBSCRIPTION.acting(
        "secrets",
        subscription_secrets.add,
        "Add a second secret to a subscription",
        name="operator_create_subscription_secret",
        status=201,
        answer=subscription_secrets.NewSubscriptionSecret,
        errors=(errors.TOO_MANY_SECRETS,),
        description=(
            "The response contains the secret, which is not shown again. From then on `webhook-signature` has a"
            " signature of each valid secret; `X-Signature` is made with the primary one, until another is promoted."
        ),
    ),
    _SECRET.acting(
        "promote",
        subscription_secrets.promote,
        "Make a secret the primary one",
        errors=(errors.SECRET_NOT_FOUND,),
        description="`X-Signature` is then made with it. Promoting the primary secret has no effect.",
    ),
    _SECRET.deleting(
        subscription_secrets.drop,
        "Drop a secret that is not the primary one",
        errors=(errors.SECRET_NOT_FOUND, IN_USE),
        description="Nothing is signed with it any more. The primary secret can't be dropped: promote another first.",
    ),
)
