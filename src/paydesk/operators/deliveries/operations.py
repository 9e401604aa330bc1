"""What operators do about deliveries: their list, one with its attempts, resends, replays and checks."""

from __future__ import annotations

from dataclasses import replace

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.text.sentences import First, When
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.operators import errors
from paydesk.operators.deliveries import checks, fields, handlers, replays
from paydesk.operators.noun import ROWS, Noun
from paydesk.operators.subscriptions.operations import SUBSCRIPTION
from paydesk.operators.words import Action, Column, Words

DELIVERY = Noun(
    "deliveries/{delivery_id}",
    "delivery",
    handlers.ID_PATTERN,
    handlers.DeliveryDocument,
    errors.DELIVERY_NOT_FOUND,
    title="notification",
    key="id",
    page="/webhooks/deliveries/{delivery_id}",
)
_RESEND = Words(
    "Send {action} again",
    says=(
        "The same notification is sent once more to {url}, at once, with a new signature.",
        "Receivers recognize it by its id and should not act on it twice.",
    ),
    done="The notification is being sent again. Its answer appears below within seconds.",
    did="Sent again",
    submit="Send it again",
    command=None,
)

LIST = DELIVERY.listing(
    handlers.PAGES,
    ORDER_NOT_FOUND,
    words=Words(
        "Deliveries",
        says="Of notifications, newest first: what was sent where, and with which outcome.",
        columns=(
            Column("action", "Notification", "delivery", at=3),
            Column("status", "Status", "delivery_status", at=2),
            Column("order_id", "Order", "delivery_order", at=7),
            Column("url", "To", "delivery_to", style="wide", at=4),
            Column("next_date", "Next", "time", at=9),
            Column("created_date", "Created", "time", style="r", at=6),
            Column("id", at=1),
            Column("attempts", at=5),
            Column("version", at=8),
            Column("client_id", at=10),
        ),
        examples=(
            "--order ORD01J67CQQH5904WDBVZEM4JMEP3",
            "--status exhausted --since 2026-01-31",
            "--failed",
        ),
    ),
)
_REPLAY = ROWS.post(
    "deliveries/replay",
    "operator_replay_deliveries",
    replays.replay,
    body=fields.ReplayRequest,
    answer=replays.Replayed,
    role="resend",
    status=202,
    description="Makes the exhausted and superseded deliveries of a subscription or an order pending again; `count` is"
    " their number. Their schedule starts anew. Versions of an order are sent in ascending order, after newer ones"
    " may have been delivered already: compare `version`. Deliveries to a paused subscription wait until it is"
    " resumed; those that have ended because of a withdrawal or a deletion are left out. A replay that was"
    " interrupted can be repeated.",
    transaction="none",
    errors=(ORDER_NOT_FOUND, errors.SUBSCRIPTION_NOT_FOUND, errors.SUBSCRIPTION_ENDED),
    action=Action(
        SUBSCRIPTION,
        "replay",
        Words(
            "Send failed notifications again",
            says=(
                "Notifications that were given up, or replaced by newer ones, become pending again and are sent in"
                " order.",
                "The receiver may have newer versions of the orders already, so it must compare `version`.",
                When("status", "The subscription is paused: they are sent when it is resumed.", ("paused",)),
            ),
            done=First(
                When("answer.count", "One notification is pending again.", (1,)),
                When(
                    "answer.count",
                    "{answer[count]} notifications are pending again.",
                    otherwise="No notification was given up or replaced by a newer one since then, so nothing is sent"
                    " again.",
                ),
            ),
            did="Sent notifications again of",
            audit="deliveries.replay",
            command="webhooks replay",
            submit="Send them again",
            fields=("since",),
            sends=lambda body, subscription: {"subscription_id": subscription["id"], **body},
            examples=(
                "--subscription 5f0c3ad1-8f1e-4f0b-9d5c-2b7a90c1e4d6 --since 2026-01-31",
                "--order ORD01J67CQQH5904WDBVZEM4JMEP3",
            ),
        ),
    ),
)

OPERATIONS = (
    LIST,
    _REPLAY,
    DELIVERY.reading(
        handlers.get,
        answer=handlers.InspectedDelivery,
        description="Attempts are kept until 30 days after the delivery's end. Values in answers that may be card data"
        " or secrets are masked.",
    ),
    DELIVERY.acting(
        "resend",
        handlers.resend,
        role="resend",
        status=202,
        description="Requests one attempt at once, outside the order of versions and the retry schedule, in any"
        " status. It has the same ids and body and a new signature. A success makes the delivery `delivered`; a"
        " failure changes no status. An attempt in progress ends first. Further requests before the attempt begins"
        " have no effect.",
        errors=(errors.SUBSCRIPTION_ENDED, errors.SUBSCRIPTION_PAUSED),
        words=replace(
            _RESEND,
            forms=(replace(_RESEND, form="/orders/{order_id}/resend/{delivery_id}", back="/orders/{order_id}"),),
        ),
    ),
    DELIVERY.acting(
        "verify",
        checks.verify,
        answer=checks.CheckedDelivery,
        body=checks.DeliveryCheck,
        transaction="heavy",
        role="every",
        description="Send what a receiver got: the answer says whether both signatures are valid, if not which usual"
        " mistake explains it, and which parts differ from what was sent. Without headers and body, what was sent"
        " is explained. Any age of a signature is accepted. Changes nothing.",
        errors=(PROPERTY_VALUE,),
    ),
)
