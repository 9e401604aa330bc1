"""Webhook faults, in development: what goes wrong with the notifications of a subscription, set and cleared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.console.actions import Done, Field, act
from paydesk.console.reasons import Document
from paydesk.console.request import ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.console.webhook_subscriptions import about
from paydesk.operation import Answer
from paydesk.webhooks.faults import DELAY_SECONDS_DEFAULT, DELAYING, FaultKind

SENTENCES: Mapping[FaultKind, str] = {
    "late": "Late: sent after a delay; newer ones of the same order wait too.",
    "twice": "Twice: sent again right after the first was accepted.",
    "out_of_order": "Out of order: held back until a newer one of its order was delivered.",
    "before_answer": "Before the answer: order.created arrives before the response that creates the order.",
    "bad_signature": "Bad signature: both signatures of the first attempt are not valid.",
    "old_timestamp": "Old timestamp: the first attempt is signed with a time 10 minutes ago.",
    "drop": "Drop: not sent, as if it was lost; it can be sent again.",
}
"""What each kind of fault does to a notification."""
_NUMBERS = ("every", "delay_seconds", "seed")


def sentence_of(subscription: Document) -> str:
    """Return what the subscription's fault does; empty if it has none."""
    fault = subscription.get("fault")
    if fault is None:
        return ""
    which = "each notification" if fault["every"] == 1 else f"one of every {fault['every']} notifications"
    delay = f" The delay is {fault['delay_seconds']} s." if "delay_seconds" in fault else ""
    kind: FaultKind = fault["kind"]
    return f"A fault disturbs {which}. {SENTENCES[kind]}{delay}"


@screen
async def set_fault(request: ConsoleRequest) -> Answer:
    """Set or replace the fault of a subscription."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = about(
        subscription,
        "Set a fault",
        "The service disturbs notifications of this subscription until you clear the fault, so that you can test the"
        " receiver. It replaces an earlier fault.",
        submit="Set the fault",
        repeatable=True,
        fields=(
            Field("kind", "What goes wrong", "select", options=list(SENTENCES.items()), noun="fault"),
            Field("every", "One of every", "number", value="1", noun="number", hint="1 disturbs each notification."),
            Field(
                "delay_seconds",
                "Delay in seconds",
                "number",
                value=str(DELAY_SECONDS_DEFAULT),
                required=False,
                hint="Used by late and out of order only.",
            ),
            Field(
                "seed",
                "Seed",
                "number",
                required=False,
                hint="Selects which one of each group is disturbed, the same in each run. Empty: the last one.",
            ),
        ),
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body: dict[str, Any] = {"kind": sent["kind"]}
        for name in _NUMBERS:
            if sent.get(name) and (name != "delay_seconds" or sent["kind"] in DELAYING):
                body[name] = _number(sent[name])
        await request.api.put("subscriptions/{}/fault", subscription["id"], body=body)
        return Done("The fault is set. It stays until you clear it.")

    return await act(request, action, work)


@screen
async def clear_fault(request: ConsoleRequest) -> Answer:
    """Clear the fault of a subscription."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = about(
        subscription,
        "Clear the fault",
        "Notifications are sent as usual again, also those that the fault held back.",
        repeatable=True,
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("subscriptions/{}/fault", subscription["id"])
        return Done("The fault is cleared.")

    return await act(request, action, work)


def _number(text: str) -> int | str:
    """Return the number, or the text as it is, which the operation refuses."""
    return int(text) if text.removeprefix("-").isdecimal() and len(text) <= 17 else text


_ONE = "/webhooks/subscriptions/{subscription_id}"
OPERATIONS = (
    *form(f"{_ONE}/fault", "fault_set", "Set the fault of a subscription", set_fault, development=True),
    *form(f"{_ONE}/clear-fault", "fault_clear", "Clear the fault of a subscription", clear_fault, development=True),
)
