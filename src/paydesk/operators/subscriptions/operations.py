"""The operations and words of webhook subscriptions and their secrets."""

from __future__ import annotations

from paydesk.core.errors import IN_USE, PROPERTY_VALUE
from paydesk.core.ids import NUMBER_PATTERN, UUID_PATTERN
from paydesk.core.text.sentences import When
from paydesk.engine.webhooks.schemas import OPERATORS_TOPIC
from paydesk.operators import errors
from paydesk.operators.noun import ROWS, Noun
from paydesk.operators.subscriptions import fields, handlers, secrets
from paydesk.operators.words import Action, Column, Once, Words

_EXAMPLE = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"
_PAGE = "/webhooks/subscriptions/{subscription_id}"
SUBSCRIPTION = Noun(
    "subscriptions/{subscription_id}",
    "subscription",
    UUID_PATTERN,
    handlers.SubscriptionDocument,
    errors.SUBSCRIPTION_NOT_FOUND,
    key="id",
    page=_PAGE,
    pages="/webhooks",
    example=_EXAMPLE,
    argument={"subscription_id": "Its id, see `paydesk subscriptions list`."},
    generic={"url": "its URL"},
)
_SECRET = Noun(
    "subscriptions/{subscription_id}/secrets/{secret_id}",
    "subscription_secret",
    NUMBER_PATTERN,
    handlers.SubscriptionDocument,
    errors.SUBSCRIPTION_NOT_FOUND,
    title="subscription",
    page=_PAGE,
    pages=_PAGE,
    forms=f"{_PAGE}/secrets/{{secret_id}}",
    read="subscriptions/{subscription_id}",
    argument={
        **SUBSCRIPTION.argument,
        "secret_id": "The secret, see `secrets` of `paydesk subscriptions show ID`.",
    },
)

LIST = SUBSCRIPTION.listing(
    handlers.PAGES,
    words=Words(
        "Subscriptions",
        says="By id or by urgency.",
        columns=(
            Column("url", "To", "subscription", style="to", at=3),
            Column("status", "State", "subscription_state", at=2),
            Column("client_id", "Application", "subscription_application", at=7),
            Column("topic", "Topic", "subscription_topic", at=4),
            Column("pending", "Not delivered", "subscription_counts"),
            Column("id", at=1),
            Column("live_mode", at=5),
            Column("actions", at=6),
            Column("created_date", at=8),
        ),
        examples=("", "--sort urgency", "--client-id 3676047501096810 --json"),
    ),
)
OPERATIONS = (
    LIST,
    SUBSCRIPTION.creating(
        handlers.create,
        fields.SubscriptionRequest,
        handlers.NewSubscription,
        description="The response contains the secret that signs the notifications; it is not shown again.",
        transaction="none",
        errors=(errors.APPLICATION_NOT_FOUND,),
        words=Words(
            "Create a subscription",
            says=(
                "Later events of the application are sent to this URL. The secret that signs them is shown once.",
                "Without actions, all actions are sent.",
            ),
            done="The subscription is created. The receiver verifies the signatures of its notifications with this"
            " secret:",
            form="create",
            submit="Create the subscription",
            once=Once("secret", "Secret"),
            fields=("client_id", "url", "topic", "live_mode", "actions"),
            sends=fields.of_topic,
            examples=(
                "--url http://127.0.0.1:3000/webhooks",
                "--client-id 3676047501096810 --url https://shop.example/webhooks --live --action order.processed"
                " --action order.failed",
                "--topic mp-connect --url https://shop.example/webhooks",
            ),
        ),
    ),
    ROWS.post(
        "subscriptions/operators",
        "operator_create_operator_subscription",
        handlers.create_for_operators,
        body=fields.OperatorSubscriptionRequest,
        answer=handlers.NewSubscription,
        status=201,
        role="owner",
        errors=(PROPERTY_VALUE,),
        transaction="none",
        description="For owners only, and so are changes of it. The response contains the secret that signs the"
        " notifications; it is not shown again.",
        action=Action(
            SUBSCRIPTION,
            "create",
            Words(
                "Notify operators",
                says=(
                    "What needs a person is sent to this URL when it appears and when it is gone, and each operator"
                    " event once. The secret that signs them is shown once.",
                    "What is open already is not sent. Without a choice, both are sent. The command can choose single"
                    " kinds.",
                ),
                done="The subscription is created. The receiver verifies the signatures of its notifications with this"
                " secret:",
                did="Added",
                form="notify-operators",
                command="subscriptions notify-operators",
                submit="Create the subscription",
                once=Once("secret", "Secret"),
                facts=lambda names: {"topic": OPERATORS_TOPIC, **names},
                examples=(
                    "--url https://ops.example/paydesk",
                    "--url https://ops.example/paydesk --action attention --action event.owner_added",
                ),
            ),
        ),
    ),
    SUBSCRIPTION.reading(
        handlers.get,
        answer=handlers.CountedSubscription,
        words=Words("Show the subscription"),
    ),
    SUBSCRIPTION.changing(
        handlers.change,
        fields.SubscriptionChange,
        errors=(PROPERTY_VALUE,),
        transaction="none",
        words=Words(
            "Change the subscription",
            says=(
                "A new URL applies to every attempt from now on, also of pending notifications. Other actions apply to"
                " later events. The secrets stay.",
                "Without actions, all actions are sent.",
            ),
            done="The subscription is changed.",
            repeatable=True,
            examples=(
                f"{_EXAMPLE} --url https://shop.example/webhooks",
                f"{_EXAMPLE} --action order.processed --action order.failed",
                f"{_EXAMPLE} --all-actions",
            ),
        ),
    ),
    SUBSCRIPTION.deleting(
        handlers.delete,
        description="Later events are not sent to it. Its pending deliveries become `withdrawn`; an attempt in"
        " progress ends first. The deliveries that have ended stay in the history.",
        words=Words(
            "Delete the subscription",
            says=(
                "Nothing more is sent to {url}, and its secrets become invalid.",
                "Its pending notifications are withdrawn. Ended ones stay in the history.",
                "This cannot be undone. To stop for a while, pause it instead.",
            ),
            done="The subscription is deleted. Its pending notifications are withdrawn.",
            danger=True,
            repeatable=True,
        ),
    ),
    SUBSCRIPTION.acting(
        "pause",
        handlers.pause,
        description="Its deliveries stay `pending`, also those of later events, and are kept for 30 days. Attempts in"
        " progress end. Pausing a paused subscription has no effect.",
        words=Words(
            "Pause the subscription",
            says=(
                "Nothing is sent until it is resumed. Its notifications stay pending and are kept for 30 days.",
                "Attempts in progress end first.",
            ),
            done="The subscription is paused. Its notifications are kept for 30 days.",
            next="Resume it with `paydesk subscriptions resume {subscription_id}`.",
            repeatable=True,
        ),
    ),
    SUBSCRIPTION.acting(
        "resume",
        handlers.resume,
        description="Its pending deliveries are sent, in order per order. Resuming an active subscription has no"
        " effect.",
        words=Words(
            "Resume the subscription",
            says="Its pending notifications are sent now, those of each order in sequence; new ones are sent at once.",
            done="The subscription is resumed. Its pending notifications are being sent.",
            repeatable=True,
        ),
    ),
    SUBSCRIPTION.acting(
        "secrets",
        secrets.add,
        name="operator_create_subscription_secret",
        status=201,
        answer=secrets.NewSubscriptionSecret,
        errors=(errors.TOO_MANY_SECRETS,),
        description="The response contains the secret, which is not shown again. From then on `webhook-signature` has"
        " a signature of each valid secret; `X-Signature` is made with the primary one, until another is promoted.",
        words=Words(
            "Rotate the secret",
            says=(
                "A second secret is created and shown once.",
                "From then on webhook-signature has a signature of each secret. X-Signature is still made with the"
                " first one, until you make the second one primary.",
                "Give the receiver the new secret, make it primary, then drop the old one.",
            ),
            done="Secret {answer[id]} is added. Give it to the receiver, then make it primary. A receiver that verifies"
            " X-Signature must accept both secrets until then.",
            next=(
                "Then `paydesk subscriptions promote {subscription_id} {answer[id]}`: X-Signature is made with the new"
                " secret.",
                "At the end `paydesk subscriptions drop {subscription_id} SECRET_ID`, with the id of the old one:"
                " it no longer signs anything.",
            ),
            did="Added a secret to",
            audit="subscriptions.secrets.add",
            form="rotate",
            command="subscriptions rotate",
            submit="Add a second secret",
            once=Once("secret", "Secret {answer[id]}"),
            examples=(_EXAMPLE, f"{_EXAMPLE} --json"),
        ),
    ),
    _SECRET.acting(
        "promote",
        secrets.promote,
        errors=(errors.SECRET_NOT_FOUND,),
        description="`X-Signature` is then made with it. Promoting the primary secret has no effect.",
        words=Words(
            "Make secret {secret_id} primary",
            says="X-Signature is made with secret {secret_id} from now on. The receiver must have it already.",
            done=(
                "Secret {secret_id} is the primary one.",
                When(
                    "answer.secrets.1",
                    "When notifications arrive, drop the other one.",
                    otherwise="It is the only valid secret.",
                ),
            ),
            next=When(
                "answer.secrets.1",
                "`paydesk subscriptions show {subscription_id}` shows the id of the other one,"
                " `paydesk subscriptions drop {subscription_id} SECRET_ID` drops it.",
            ),
            did="Made another secret primary of",
            audit="subscriptions.secrets.promote",
            command="subscriptions promote",
            repeatable=True,
            examples=(f"{_EXAMPLE} 2",),
        ),
    ),
    _SECRET.deleting(
        secrets.drop,
        answer=handlers.SubscriptionDocument,
        errors=(errors.SECRET_NOT_FOUND, IN_USE),
        description="It no longer signs anything. The primary secret can't be dropped: promote another first.",
        words=Words(
            "Drop secret {secret_id}",
            says=(
                "Secret {secret_id} no longer signs anything. A receiver that has only this one refuses notifications.",
                "This cannot be undone.",
            ),
            done="Secret {secret_id} is dropped. Remove it at the receiver.",
            did="Dropped a secret of",
            audit="subscriptions.secrets.drop",
            form="drop",
            command="subscriptions drop",
            danger=True,
            examples=(f"{_EXAMPLE} 1",),
        ),
    ),
)
