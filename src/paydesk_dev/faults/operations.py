"""Webhook faults, in development only: an operator sets what goes wrong with a subscription's notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.ids import UUID_PATTERN
from paydesk.core.model import Model
from paydesk.engine.webhooks.schemas import TOPIC
from paydesk.operators import audit
from paydesk.operators.errors import SUBSCRIPTION_NOT_FOUND
from paydesk.operators.noun import Noun
from paydesk.operators.subscriptions import handlers as subscriptions
from paydesk.operators.words import Shown, Words
from paydesk.platform.operation import Answer, Call
from paydesk_dev.faults import kinds as faults
from paydesk_dev.faults import store as fault_store
from paydesk_dev.faults.kinds import DELAY_SECONDS_DEFAULT, DELAY_SECONDS_MAX, DELAYING, EVERY_MAX, Fault, FaultKind

SEED_MAX = 2**53 - 1
"""The largest integer that all JSON libraries read exactly."""


SENTENCES: Mapping[str, str] = {
    "late": "Late: sent after a delay; newer ones of the same order wait too.",
    "twice": "Twice: sent again right after the first was accepted.",
    "out_of_order": "Out of order: held back until a newer one of its order was delivered.",
    "before_answer": "Before the answer: order.created arrives before the response that creates the order.",
    "bad_signature": "Bad signature: both signatures of the first attempt are not valid.",
    "old_timestamp": "Old timestamp: the first attempt is signed with a time 10 minutes ago.",
    "drop": "Drop: not sent, as if it was lost; it can be sent again.",
}
"""What each kind of fault does to a notification."""


class FaultRequest(Model):
    """`PUT /operator/v1/subscriptions/{subscription_id}/fault`."""

    kind: Annotated[FaultKind, Shown("What goes wrong", noun="fault", labels=SENTENCES)] = Field(examples=["late"])
    every: Annotated[
        int,
        Field(ge=1, le=EVERY_MAX),
        Shown("One of every", "1 disturbs each notification.", noun="number"),
    ] = Field(1, description="3 affects every third notification, 1 each.")
    delay_seconds: (
        Annotated[
            int,
            Field(ge=0, le=DELAY_SECONDS_MAX),
            Shown(
                "Delay in seconds",
                "Used by late and out of order only.",
                value=lambda _: str(DELAY_SECONDS_DEFAULT),
                only=("kind", DELAYING),
            ),
        ]
        | None
    ) = Field(
        None,
        description=(
            f"How long `late` and `out_of_order` hold a notification back, {DELAY_SECONDS_DEFAULT} s by default; other"
            " kinds ignore it."
        ),
    )
    seed: (
        Annotated[
            int,
            Field(ge=-SEED_MAX, le=SEED_MAX),
            Shown("Seed", "Selects which one of each group is disturbed, the same in each run. Empty: the last one."),
        ]
        | None
    ) = Field(
        None,
        description="Chooses which one of each `every` is affected, the same in each run. By default the last one is.",
    )


async def set_fault(call: Call) -> Answer:
    """Set the fault of a subscription. It replaces an earlier one, and notifications are counted from 1 again."""
    body: FaultRequest = call.body
    before = await subscriptions.SUBSCRIPTION.locked(call)
    if body.kind == "before_answer" and before.topic != TOPIC:
        raise PROPERTY_VALUE.with_reason(
            "not about orders", f"'$.kind' - must not be before_answer: the subscription's topic is not {TOPIC}"
        )
    fault = faults.new_fault(body.kind, every=body.every, delay_seconds=body.delay_seconds, seed=body.seed)
    earlier = await fault_store.fault_of(call.tx, before.subscription_id)
    await _change(call, "subscriptions.set_fault", before.subscription_id, earlier, fault)
    return Answer(200, fault)


async def clear_fault(call: Call) -> Answer:
    """Clear the fault of a subscription: without one nothing changes."""
    subscription_id = (await subscriptions.SUBSCRIPTION.locked(call)).subscription_id
    earlier = await fault_store.fault_of(call.tx, subscription_id)
    if earlier is not None:
        await _change(call, "subscriptions.clear_fault", subscription_id, earlier, None)
    return Answer(204)


async def _change(call: Call, action: str, subscription_id: str, before: Fault | None, after: Fault | None) -> None:
    await fault_store.set_fault(call.tx, subscription_id, after)
    await audit.record(call, call.tx, action, subscription_id, before=before, after=after)


_PAGE = "/webhooks/subscriptions/{subscription_id}"
_FAULT = Noun(
    "subscriptions/{subscription_id}/fault",
    "fault",
    UUID_PATTERN,
    Fault,
    SUBSCRIPTION_NOT_FOUND,
    title="subscription",
    page=_PAGE,
    pages=_PAGE,
    read="subscriptions/{subscription_id}",
)

OPERATIONS = (
    _FAULT.setting(
        set_fault,
        FaultRequest,
        example={"kind": "late", "every": 3, "delay_seconds": 30, "seed": 7},
        development=True,
        errors=(PROPERTY_VALUE,),
        words=Words(
            "Set a fault",
            says="The service disturbs notifications of this subscription until you clear the fault, so that you can"
            " test the receiver. It replaces an earlier fault.",
            done="The fault is set. It stays until you clear it.",
            did="Set a fault of",
            audit="subscriptions.set_fault",
            submit="Set the fault",
            form="fault",
            command=None,
            repeatable=True,
        ),
        description=(
            "The service then disturbs one of each `every` notifications. `late` sends it later; `twice` sends it two"
            " times; `out_of_order` holds it back until a newer one of its order is delivered; `before_answer` sends"
            " `order.created` before the response that creates the order; `bad_signature` and `old_timestamp` make its"
            " first attempt invalid; `drop` does not send it. Replaces an earlier fault and counts from 1 again."
        ),
    ),
    _FAULT.deleting(
        clear_fault,
        name="operator_clear_fault",
        development=True,
        words=Words(
            "Clear the fault",
            says="Notifications are sent as usual again, also those that the fault held back.",
            done="The fault is cleared.",
            did="Cleared the fault of",
            audit="subscriptions.clear_fault",
            form="clear-fault",
            command=None,
            repeatable=True,
        ),
        description="Notifications that were held back are sent. Without a fault nothing changes.",
    ),
)
