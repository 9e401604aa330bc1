"""Faults of a subscription for operators: the field of its document, its form, and the operations that are retired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Never

from msgspec import Meta

from paydesk.console.actions import ActionForm, Done, act
from paydesk.console.api import Document
from paydesk.console.field import Field
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import environment, form, screen
from paydesk.core.errors import GONE
from paydesk.core.faults import ANY_REQUEST
from paydesk.core.ids import UUID_PATTERN
from paydesk.core.response import Closed
from paydesk.operators.subscriptions.handlers import SubscriptionDocument
from paydesk.operators.subscriptions.repairs import Repairs
from paydesk.operators.webhooks.page import SECTION
from paydesk.platform.operation import Answer, Call
from paydesk.platform.rows import Rows
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Transaction
from paydesk_dev.extras import Extra
from paydesk_dev.faults.active import Faults
from paydesk_dev.faults.webhooks import DROPPED

SENTENCES: Mapping[str, str] = {
    "late": "Late: sent after a delay; newer ones of the same order wait too.",
    "twice": "Twice: sent again right after the first was accepted.",
    "out_of_order": "Out of order: held back until a newer one of its order was delivered.",
    "before_answer": "Before the answer: order.created arrives before the response that creates the order.",
    "bad_signature": "Bad signature: both signatures of the first attempt are not valid.",
    "old_timestamp": "Old timestamp: the first attempt is signed with a time 10 minutes ago.",
    "forged": "Forged: an unsigned one says that the order is paid; the real one follows.",
    "reset": "Reset: not sent, as if it was lost; it can be sent again.",
}
"""What each kind does to a notification."""
REPAIR = "Clear the fault that is set for the subscription"


class SubscriptionFault(Closed, frozen=True):
    """The oldest fault of the subscription alone, such as its page sets; a test's own faults match more."""

    id: str
    kind: str
    every: int
    line: Annotated[str, Meta(description="The fault in one line, as `paydesk faults` has it.")]


def _oldest(faults: Faults, document: SubscriptionDocument) -> SubscriptionFault | None:
    for active in faults:
        fault = active.fault
        if fault.edge == "webhook" and fault.match == {"subscription": document.id} and not active.is_spent:
            return SubscriptionFault(active.id, fault.kind, fault.every, fault.line)
    return None


async def _faults_of(
    shared: Shared, _: Transaction, documents: Sequence[SubscriptionDocument]
) -> Mapping[str, SubscriptionFault]:
    """Return the faults by their subscriptions."""
    oldest = {one.id: _oldest(shared.objects[Faults], one) for one in documents}
    return {subscription_id: fault for subscription_id, fault in oldest.items() if fault is not None}


FAULT = Extra(SubscriptionDocument, "fault", SubscriptionFault | None, _faults_of)


def repairs(faults: Faults) -> Repairs:
    """Return how notifications are repaired that faults of the process have disturbed."""

    async def of_subscriptions(_: Transaction) -> Mapping[str, str]:
        named = (one.fault.match.get("subscription", "") for one in faults if not one.is_spent)
        return dict.fromkeys(filter(None, named), REPAIR)

    return Repairs(of_subscriptions, {DROPPED: "Clear the fault of its subscription"})


async def _gone(_: Call) -> Never:
    """Refuse a request of an earlier version: faults of webhooks are faults like others."""
    how = "POST /dev/faults with the edge webhook and match.subscription, or `paydesk faults add webhook`"
    raise GONE.with_reason("webhook faults", message=f"This operation is retired. Use {how}.")


_RETIRED = Rows(
    "operator",
    "/operator/v1/subscriptions/{subscription_id}/fault",
    development=True,
    transaction="none",
    errors=(GONE,),
)
RETIRED = (
    _RETIRED.put("", "operator_set_fault", _gone, status=204, raw_body=True),
    _RETIRED.delete("", "operator_clear_fault", _gone, status=204),
)


@screen
async def set_fault(request: ConsoleRequest) -> Answer:
    """Set a fault of a subscription: its notifications are disturbed until it is cleared."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = ActionForm(
        title="Set a fault",
        says=(
            "The service disturbs notifications of this subscription until you clear the fault, so that you can test"
            " the receiver. It replaces the fault that its page shows.",
        ),
        submit="Set the fault",
        back=_page(subscription["id"]),
        section=SECTION,
        fields=(
            Field("kind", "What goes wrong", "select", "late", options=tuple(SENTENCES.items()), noun="fault"),
            Field("every", "One of every", "number", "1", hint="1 disturbs each notification.", noun="number"),
            Field("delay", "Delay in seconds", "number", "10", hint="Used by late and out of order only."),
        ),
        repeatable=True,
    )

    async def work(sent: Mapping[str, str]) -> Done:
        body: dict[str, Any] = {"edge": "webhook", "request": ANY_REQUEST, "kind": sent["kind"], "times": 0}
        body |= {"every": _number(sent["every"]), "match": {"subscription": subscription["id"]}}
        if sent["kind"] in ("late", "out_of_order"):
            body["delay"] = _number(sent["delay"])
        await request.api.post("/dev/faults", body=body)
        if "fault" in subscription:
            await request.api.delete("/dev/faults/{}", subscription["fault"]["id"])
        return Done("The fault is set. It stays until you clear it.")

    return await act(request, action, work)


@screen
async def clear_fault(request: ConsoleRequest) -> Answer:
    """Clear the fault of a subscription: what it holds back is sent."""
    subscription = await request.api.get("subscriptions/{}", request.path)
    action = ActionForm(
        title="Clear the fault",
        says=("Notifications are sent as usual again, also those that the fault held back.",),
        back=_page(subscription["id"]),
        section=SECTION,
        repeatable=True,
        impossible="" if "fault" in subscription else "The subscription has no fault.",
    )

    async def work(_: Mapping[str, str]) -> Done:
        await request.api.delete("/dev/faults/{}", subscription["fault"]["id"])
        return Done("The fault is cleared.")

    return await act(request, action, work)


def _number(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() else text


def _page(subscription_id: str) -> str:
    return f"{PATH}/webhooks/subscriptions/{subscription_id}"


def _sentence(subscription: Document) -> str:
    """Return what the subscription's fault does; empty if it has none."""
    fault = subscription.get("fault")
    if fault is None:
        return ""
    which = "each notification" if fault["every"] == 1 else f"one of every {fault['every']} notifications"
    return f"A fault disturbs {which}. {SENTENCES.get(fault['kind'], '')} ({fault['line']})"


def _addition(macro: str, request: ConsoleRequest, subscription: Document) -> str:
    macros: Any = environment().get_template("faults/console.html").module
    page, sentence = _page(subscription["id"]), _sentence(subscription)
    addition: str = getattr(macros, macro)(request, subscription, page, sentence)
    return addition


ADDITIONS: dict[str, Callable[[ConsoleRequest, Document], str]] = {
    f"subscription.{macro}": partial(_addition, macro) for macro in ("acts", "notice", "state")
}
"""Each macro of the template at its place."""
FORMS = (
    *form("/webhooks/subscriptions/{subscription_id}/fault", set_fault, path_pattern=UUID_PATTERN, development=True),
    *form(
        "/webhooks/subscriptions/{subscription_id}/clear-fault",
        clear_fault,
        path_pattern=UUID_PATTERN,
        development=True,
    ),
)
