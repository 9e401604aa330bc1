"""The items that need attention: each has a message that says what is wrong since when, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.money import spelled
from paydesk.core.objects import Objects
from paydesk.core.response import Closed, Time, time_or_none
from paydesk.core.text.redaction import redacted_url
from paydesk.core.text.sentences import text_of
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.inquiry_store import OpenInquiry
from paydesk.engine.payments.waiting import Periods, wait_of
from paydesk.engine.terminals.presence import presence_of
from paydesk.engine.terminals.print_actions.action import CREATED
from paydesk.engine.webhooks.delivery.failing import PAUSED_AFTER_MS
from paydesk.operators.attention import store
from paydesk.operators.attention.sentences import KINDS, SENTENCES
from paydesk.operators.attention.store import DELIVERIES_MAX, ROWS_MAX
from paydesk.operators.noun import ROWS
from paydesk.operators.orders.outcomes import CONFIRMATION, INQUIRY, REFUND, REVERSAL, Work
from paydesk.operators.orders.waiting import periods_of
from paydesk.operators.subscriptions.repairs import REPAIR, Repairs
from paydesk.platform import operator_events
from paydesk.platform.operation import Answer, Call
from paydesk.platform.operator_events import AttentionKind as Kind
from paydesk.platform.storage.database import Transaction

SLOW_MS = 180_000
"""A confirmation, refund or reversal that takes longer than this needs attention."""
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
    seller_id: int | None = None
    store_id: int | None = None
    count: Annotated[int, Meta(description="The number of deliveries, at most 1,000, or of terminals.")] | None = None
    total: Annotated[int, Meta(description="Of how many terminals: those seen in the last 24 h.")] | None = None
    resolvable_date: (
        Annotated[Time, Meta(description="From then on, an operator can set the order's unknown outcome.")] | None
    ) = None
    deadline_date: Annotated[Time, Meta(description="The acquirer's, for the confirmation.")] | None = None


class AttentionDocument(Closed, frozen=True):
    """What needs a person, the most urgent first, and of one kind the oldest first."""

    data: list[AttentionItem]


async def find_all(call: Call) -> Answer:
    """Return what needs a person; an empty list if nothing does."""
    items = await find(call.tx, call.shared.objects, periods_of(call.settings), call.now_ms)
    return Answer(200, AttentionDocument(items))


async def find(
    tx: Transaction, objects: Objects, periods: Periods, now_ms: int, rows_max: int = ROWS_MAX
) -> list[AttentionItem]:
    """Return what needs a person, of the rows of each statement at most `rows_max`."""
    acquirers, items = objects[Acquirers], list[AttentionItem]()
    for name in acquirers.live:
        for since_ms, body in await tx.all(operator_events.OUTAGE, operator_events.outage_key(name)):
            items.append(_item("acquirer_unreachable", name, since_ms, 1, json.loads(body)))
    unreachable = {item.subject for item in items}
    items += (fleet := await _of_terminals(tx, rows_max))
    for order, inquiry, store_id, seen_ms, age_ms in await store.orders(
        tx, now_ms - periods.cancel_silence_seconds * 500, rows_max
    ):
        acquirer = acquirers.of(order)
        capabilities = None if acquirer is None else acquirer.capabilities
        known: dict[str, Any] = {
            "capabilities": capabilities,
            "is_unreachable": acquirers.name_of(order) in unreachable,
        }
        item = _order(order, inquiry, seen_ms, age_ms, periods, now_ms, **known)
        # With a permit the card may have been charged, which the item about all these terminals does not say.
        may_go = item.kind == "order_stuck" and order.permitted_ms is None
        if not (may_go and _overlaps(fleet, order.live, order.seller_id, store_id)):
            items.append(item)
    items += await _of_acquirers(tx, now_ms, rows_max)
    repairs = await (objects.get(Repairs) or Repairs()).of_subscriptions(tx)
    for row in await tx.all(store.SUBSCRIPTIONS, now_ms - EXHAUSTED_MS, DELIVERIES_MAX):
        subscription_id, live, url, paused_ms, paused_by, failing_ms, exhausted, exhausted_ms = row
        repair = repairs.get(subscription_id)
        said: dict[str, Any] = {"url": redacted_url(url), "is_repair_known": repair is not None}
        said["repair"] = repair or REPAIR
        if paused_ms is not None and paused_by == "failures":
            items.append(_item("subscription_paused", subscription_id, paused_ms, live, said))
        elif failing_ms is not None and paused_ms is None:
            until = {"until": rfc3339(failing_ms + PAUSED_AFTER_MS)}
            items.append(_item("subscription_failing", subscription_id, failing_ms, live, {**said, **until}))
        if exhausted_ms is not None:
            items.append(_item("deliveries_exhausted", subscription_id, exhausted_ms, live, said, count=exhausted))
    for action, age_ms in await store.actions(tx, now_ms - PRINTING_MS, rows_max):
        state = {"is_fetched": action.status != CREATED.name, "is_offline": presence_of(age_ms) == "offline"}
        place = {"terminal_id": action.terminal_id}
        items.append(_item("print_stuck", action.action_id, action.updated_ms, action.live, state, **place))
    items.sort(key=lambda item: (KINDS.index(item.kind), item.since_date))
    return items


async def _of_terminals(tx: Transaction, rows_max: int) -> list[AttentionItem]:
    """Return the terminals that went offline together: of all sellers, else of a seller, else of a store."""
    items = list[AttentionItem]()
    for live, seller_id, store_id, count, total, since_ms, seller, shop in await tx.all(store.TERMINALS, rows_max):
        if not _overlaps(items, live, seller_id, store_id):
            given: dict[str, Any] = {"seller_id": seller_id, "store_id": store_id, "count": count, "total": total}
            subject, names = str(store_id or seller_id or "all"), {"seller": seller, "store": shop}
            items.append(_item("terminals_offline", subject, since_ms, live, names, **given))
    return items


def _overlaps(fleet: list[AttentionItem], *keys: int | None) -> bool:
    """Return whether an item is about terminals of the same mode, seller and store; None is any."""
    owned = [(one.live_mode, one.seller_id, one.store_id) for one in fleet]
    return any(all(None in pair or pair[0] == pair[1] for pair in zip(keys, own, strict=True)) for own in owned)


async def _of_acquirers(tx: Transaction, now_ms: int, rows_max: int) -> list[AttentionItem]:
    """Return the confirmations, reversals and refunds that the acquirer refuses, or has not answered for long."""
    items, slow_ms = [], now_ms - SLOW_MS
    kinds: tuple[tuple[Kind, Work, str, str, tuple[int, ...]], ...] = (
        ("confirmation_refused", CONFIRMATION, "ended_ms", store.REFUSED_CONFIRMATIONS, ()),
        ("confirmation_unanswered", CONFIRMATION, "approved_ms", store.CONFIRMATIONS, (slow_ms,)),
        ("reversal_unconfirmed", REVERSAL, "created_ms", store.REVERSALS, (slow_ms,)),
        ("reversal_unconfirmed", INQUIRY, "reversing_ms", store.UNDOING, (slow_ms,)),
        ("refund_slow", REFUND, "created_ms", store.REFUNDS, (slow_ms,)),
    )
    for kind, work, since, sql, before in kinds:
        for one in [work.read(row) for row in await tx.all(sql, *before, rows_max)]:
            amount = _amount(getattr(one, "amount", ""), getattr(one, "currency", None) or "")
            names = {"amount": amount, "next": time_or_none(one.next_ms), "waits_for": getattr(one, "waits_for", None)}
            given = {"order_id": one.order_id}
            if kind == "confirmation_unanswered":
                given["deadline_date"] = time_or_none(one.deadline_ms)
            items.append(_item(kind, one.id, getattr(one, since), one.live, names, **given))
    return items


def _item(
    kind: Kind, subject: str, since_ms: int, live: int, names: Mapping[str, Any] | None = None, **given: Any
) -> AttentionItem:
    """Return an item. Its sentences name the properties that are given, and others."""
    since = rfc3339(since_ms)
    message, do = (text_of(lines, {**given, **(names or {}), "since": since}) for lines in SENTENCES[kind])
    return AttentionItem(
        kind=kind, subject=subject, since_date=since, message=message, do=do, live_mode=bool(live), **given
    )


def _amount(text: str, currency: str) -> str:
    return f"{spelled(text, currency)} {currency}".rstrip()


def _order(
    order: Order,
    inquiry: OpenInquiry | None,
    last_seen_ms: int | None,
    age_ms: int | None,
    periods: Periods,
    now_ms: int,
    *,
    capabilities: Capabilities | None,
    is_unreachable: bool,
) -> AttentionItem:
    wait = wait_of(order, inquiry, periods, capabilities=capabilities)
    kind: Kind
    resolvable_ms = None
    if order.state == status.CHECK_ON_TERMINAL:
        kind, since_ms = "outcome_unknown", order.updated_ms
        resolvable_ms = wait.resolvable_ms or order.updated_ms
    elif presence_of(age_ms) == "offline":
        # Since the order was created, if the terminal was never online.
        kind, since_ms = "order_stuck", max(last_seen_ms or 0, 0) or order.created_ms
    else:
        kind, since_ms = "cancel_unanswered", order.cancel_requested_ms or order.updated_ms
    names = {
        "amount": _amount(order.amount, order.currency),
        "has_acquirer": capabilities is not None,
        "is_unreachable": is_unreachable,
        "waits_for": wait.waits_for,
        "is_resolvable": resolvable_ms is not None and resolvable_ms <= now_ms,
        "was_online": last_seen_ms is not None,
        "can_release": wait.can_release,
    }
    return _item(
        kind,
        order.order_id,
        since_ms,
        order.live,
        names,
        order_id=order.order_id,
        terminal_id=order.terminal_id,
        resolvable_date=time_or_none(resolvable_ms),
    )


OPERATIONS = (
    ROWS.get(
        "attention",
        "operator_attention",
        find_all,
        summary="List what needs a person",
        description=(
            "Acquirers that a node cannot reach; orders with an unknown outcome; payments that the acquirer refused to"
            " confirm, or has not confirmed for"
            " three minutes; refunds and reversals that take longer than that; terminals of a store, a seller or all"
            " that went offline together, as one item; orders that wait for another terminal that is"
            " offline or does not answer a cancel request; subscriptions that are failing or paused; notifications of"
            " the last seven days that could not be delivered; print actions that hold a terminal. The most urgent"
            " first; an empty list if nothing needs a person."
        ),
        answer=AttentionDocument,
        transaction="heavy",
    ),
)
