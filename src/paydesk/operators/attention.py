"""What needs a person: each item has a message that says what is wrong since when, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.money import spelled
from paydesk.core.redaction import redacted_url
from paydesk.core.response import Closed, Time
from paydesk.operation import Answer, Call, Operation
from paydesk.operators import attention_store as store
from paydesk.operators.attention_store import (
    DELIVERIES_MAX,
    SlowRefund,
    StuckAction,
    StuckOrder,
    TroubledSubscription,
    UnconfirmedReversal,
)
from paydesk.operators.noun import BASE
from paydesk.operators.orders.waiting import periods_of
from paydesk.orders import status
from paydesk.payments.acquirer import Acquirers
from paydesk.payments.slot import Periods, wait_of
from paydesk.terminals.presence import presence_of
from paydesk.terminals.print_action import CREATED
from paydesk.webhooks.failing import PAUSED_AFTER_MS

Kind = Literal[
    "outcome_unknown",
    "reversal_unconfirmed",
    "refund_slow",
    "order_stuck",
    "cancel_unanswered",
    "subscription_paused",
    "deliveries_exhausted",
    "subscription_failing",
    "print_stuck",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The most urgent first: money, then terminals, then notifications."""

SLOW_MS = 180_000
"""A refund or reversal that takes longer than this needs a person."""
PRINTING_MS = 60_000
"""A print action that its terminal has not fetched or printed for this long is stuck."""
EXHAUSTED_MS = 7 * 24 * 3_600_000
"""Deliveries that were exhausted longer ago are not reported."""


class AttentionItem(Closed, frozen=True, kw_only=True):
    """Something that needs a person."""

    kind: Kind
    subject: Annotated[str, Meta(description="The id of what it is about.")]
    since_date: Time
    message: Annotated[str, Meta(description="What is wrong, and since when.")]
    do: Annotated[str, Meta(description="What to do about it.")]
    live_mode: bool
    order_id: str | None = None
    terminal_id: str | None = None
    count: Annotated[int, Meta(description="The number of deliveries, at most 1,000.")] | None = None
    resolvable_date: (
        Annotated[Time, Meta(description="From then on, an operator can set the order's unknown outcome.")] | None
    ) = None


class AttentionDocument(Closed, frozen=True):
    """What needs a person, the most urgent first, and of one kind the oldest first."""

    data: list[AttentionItem]


async def find_all(call: Call) -> Answer:
    """Return what needs a person; an empty list if nothing does."""
    tx, now_ms, periods = call.tx, call.now_ms, periods_of(call.settings)
    items: list[AttentionItem] = []
    silence_ms = periods.cancel_silence_seconds * 1000 // 2
    for stuck in await store.orders(tx, now_ms - silence_ms):
        has_acquirer = call.shared.objects[Acquirers].of(live=bool(stuck.order.live)) is not None
        items.append(_order(stuck, periods, now_ms, has_acquirer=has_acquirer))
    items += map(_reversal, await store.reversals(tx, now_ms - SLOW_MS))
    items += map(_refund, await store.refunds(tx, now_ms - SLOW_MS))
    for subscription in await store.subscriptions(tx, now_ms - EXHAUSTED_MS):
        items += _subscription(subscription)
    items += map(_action, await store.actions(tx, now_ms - PRINTING_MS))
    items.sort(key=lambda item: (KINDS.index(item.kind), item.since_date))
    return Answer(200, AttentionDocument(items))


def _order(stuck: StuckOrder, periods: Periods, now_ms: int, *, has_acquirer: bool) -> AttentionItem:
    order, is_offline = stuck.order, presence_of(stuck.age_ms) == "offline"
    wait = wait_of(order, stuck.inquiry, periods, has_acquirer=has_acquirer)
    amount, resolvable = f"{spelled(order.amount, order.currency)} {order.currency}", None
    if order.state == status.CHECK_ON_TERMINAL:
        since, kind = rfc3339(order.updated_ms), "outcome_unknown"
        message = f"The outcome of a payment of {amount} is unknown since {since}: the card may have been charged."
        resolvable_ms = wait.resolvable_ms or order.updated_ms
        resolvable = rfc3339(resolvable_ms)
        if resolvable_ms <= now_ms:
            do = "Look the payment up at the acquirer, then resolve the order. Do not charge the buyer before that."
        elif has_acquirer:
            do = (
                "Wait: the acquirer is being asked. If it does not know the outcome, you can resolve the order from"
                f" {resolvable}."
            )
        else:
            do = f"Look the payment up at the acquirer; you can resolve the order from {resolvable}."
    elif is_offline:
        since, kind = rfc3339(_silent_since_ms(stuck)), "order_stuck"
        silence = f"has been offline since {since}" if stuck.last_seen_ms is not None else "has never been online"
        message = f"An order of {amount} waits for {order.terminal_id}, which {silence}."
        do = (
            "Check the terminal's power and network, or release the terminal, which cancels the order."
            if wait.can_release
            else "Check the terminal's power and network: the card may have been charged, and only it knows the result."
        )
    else:
        since, kind = rfc3339(order.cancel_requested_ms or order.updated_ms), "cancel_unanswered"
        message = f"{order.terminal_id} has not answered the request to cancel an order of {amount} since {since}."
        do = (
            "Look at the terminal, or release it, which cancels the order."
            if wait.can_release
            else "Look at the terminal: authorization was permitted, so the cancel request has no effect."
        )
    return AttentionItem(
        kind=kind,  # type: ignore[arg-type]  # one of the literals above
        subject=order.order_id,
        since_date=since,
        message=message,
        do=do,
        live_mode=bool(order.live),
        order_id=order.order_id,
        terminal_id=order.terminal_id,
        resolvable_date=resolvable,
    )


def _silent_since_ms(stuck: StuckOrder) -> int:
    """Return when the terminal was last seen; when the order was created, if the terminal was never online."""
    return max(stuck.last_seen_ms or 0, 0) or stuck.order.created_ms


def _refund(refund: SlowRefund) -> AttentionItem:
    since, currency = rfc3339(refund.created_ms), refund.currency or ""
    amount = f"{spelled(refund.amount, currency)} {currency}".rstrip()
    return AttentionItem(
        kind="refund_slow",
        subject=refund.refund_id,
        since_date=since,
        message=f"The acquirer has not confirmed a refund of {amount} since {since}.",
        do=(
            "Look the refund up at the acquirer. It is tried again, next at"
            f" {rfc3339(refund.next_ms)}; do not refund the buyer by other means before it has ended."
        ),
        live_mode=bool(refund.live),
        order_id=refund.order_id,
    )


def _reversal(reversal: UnconfirmedReversal) -> AttentionItem:
    since = rfc3339(reversal.created_ms)
    return AttentionItem(
        kind="reversal_unconfirmed",
        subject=reversal.reversal_id,
        since_date=since,
        message=f"The acquirer has not confirmed the reversal of a late approval since {since}: the buyer was charged.",
        do="Look the payment up at the acquirer, reverse it there if needed, then resolve the reversal.",
        live_mode=bool(reversal.live),
        order_id=reversal.order_id,
    )


def _subscription(one: TroubledSubscription) -> Iterator[AttentionItem]:
    url, live = redacted_url(one.url), bool(one.live)
    repair = "Clear the fault that is set for the subscription" if one.has_fault else "Repair the receiver"
    if one.paused_ms is not None and one.paused_by == "failures":
        since = rfc3339(one.paused_ms)
        yield AttentionItem(
            kind="subscription_paused",
            subject=one.subscription_id,
            since_date=since,
            message=f"Notifications to {url} are paused since {since}: none had succeeded for five days.",
            do=f"{repair}, then resume the subscription. Its notifications are kept for 30 days.",
            live_mode=live,
        )
    elif one.failing_since_ms is not None and one.paused_ms is None:
        since, until = rfc3339(one.failing_since_ms), rfc3339(one.failing_since_ms + PAUSED_AFTER_MS)
        yield AttentionItem(
            kind="subscription_failing",
            subject=one.subscription_id,
            since_date=since,
            message=f"Notifications to {url} fail since {since}.",
            do=(
                f"{repair}. The subscription is paused at {until}."
                if one.has_fault
                else f"Look at the last attempt and repair the receiver. The subscription is paused at {until}."
            ),
            live_mode=live,
        )
    if one.exhausted_ms is not None:
        since = rfc3339(one.exhausted_ms)
        more = "At least " if one.exhausted == DELIVERIES_MAX else ""
        noun = "notification" if one.exhausted == 1 else "notifications"
        yield AttentionItem(
            kind="deliveries_exhausted",
            subject=one.subscription_id,
            since_date=since,
            message=f"{more}{one.exhausted:,} {noun} to {url} could not be delivered since {since}.",
            do=f"{repair}, then send them again.",
            live_mode=live,
            count=one.exhausted,
        )


def _action(stuck: StuckAction) -> AttentionItem:
    action, since = stuck.action, rfc3339(stuck.action.updated_ms)
    is_fetched = action.status != CREATED.name
    what = "has not printed" if is_fetched else "has not fetched"
    offline = presence_of(stuck.age_ms) == "offline"
    return AttentionItem(
        kind="print_stuck",
        subject=action.action_id,
        since_date=since,
        message=f"{action.terminal_id} {what} a print action since {since}, and takes no order meanwhile.",
        do=(
            "Check the terminal's power and network, or release it, which cancels the print action."
            if offline
            else "Check the terminal's paper, or release it, which cancels the print action."
        ),
        live_mode=bool(action.live),
        terminal_id=action.terminal_id,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path=f"{BASE}/attention",
        name="operator_attention",
        summary="List what needs a person",
        description=(
            "Orders with an unknown outcome; orders that wait for a terminal that is offline or does not answer a"
            " cancel request; refunds and reversals that take longer than three minutes; subscriptions that are failing"
            " or paused; notifications of the last seven days that could not be delivered; print actions that hold a"
            " terminal. The most urgent first; an empty list if nothing needs a person."
        ),
        surface="operator",
        handler=find_all,
        answer=AttentionDocument,
        transaction="heavy",
    ),
)
