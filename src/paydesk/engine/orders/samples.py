"""Sample notifications: complete ones of every action, made by the code that makes the real ones, without a database.

An order is put into a state of the table of moves, and its event is made as that of a move. This is for the docs and
for `paydesk webhooks trigger`; nothing else sends samples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import msgspec

from paydesk.core.ids import ORDER_ID
from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.engine.orders import status
from paydesk.engine.orders.events import event_of
from paydesk.engine.orders.order import Order, OrderRefund
from paydesk.engine.orders.presentation import EXAMPLE_ORDER
from paydesk.engine.orders.schemas import EXTERNAL_REFERENCE_PATTERN
from paydesk.engine.orders.status import Move, State
from paydesk.engine.orders.status_labels import EXTENDED, PLAIN, Labels
from paydesk.engine.webhooks.outbox import consent_notification
from paydesk.engine.webhooks.schemas import ACTIONS_OF, CONNECT_TOPIC, TOPIC

STEP_MS = 4_000
"""The time between two moves of a sample order."""
EVENT_ID = "0b8fa5f2-6f8c-4d1f-9a55-0d6e0f4d2c11"
CONSENT_ID = 1_276_391_004_581_722
REFUND_ULID = "01J67D5XJVM2Z0S9C3HQ4T8W1N"
_PAID_STATES = (status.PROCESSED, status.PARTIALLY_REFUNDED, status.REFUNDED)
PAID: dict[str, Any] = {
    "tip_minor": 0,
    "reference_id": "115019989860",
    "authorization_code": "831000",
    "payment_method": '{"id":"visa","type":"credit_card","installments":1}',
    "card": '{"first_digits":"503175","last_digits":"6351","entry_mode":"contactless"}',
}
"""The columns of a payment, beside its times and its amount."""
_DEFAULT_DETAILS = {"order.refunded": status.REFUNDED.payment_detail}
"""The details of samples that are not the first possible one."""


class InvalidSample(ValueError):
    """There is no such sample; the message is a sentence that says what is valid."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A notification. `source_id` names what it is about in the outbox: the order's id, or the application's."""

    topic: str
    action: str
    event_id: str
    seller_id: int
    source_id: str
    body: str


@dataclass(frozen=True, slots=True)
class _Way:
    """A move, the state that it leads to, and the labels with which its action is the wanted one."""

    move: Move
    state: State
    labels: Labels


def actions() -> tuple[str, ...]:
    """Return every action that has a sample: all of both topics."""
    return tuple(action for of_topic in ACTIONS_OF.values() for action in of_topic)


def status_details(action: str) -> tuple[str, ...]:
    """Return the payment's `status_detail`s that samples of the action can have, the default one first."""
    ways = _ways().get(action, {})
    default = _DEFAULT_DETAILS.get(action)
    return tuple(sorted(ways, key=lambda detail: detail != default)) if default is not None else tuple(ways)


def sample(  # noqa: PLR0913 - one parameter for each part of a sample
    action: str,
    *,
    now_ms: int,
    amount: str | None = None,
    currency: str = "BRL",
    external_reference: str | None = "ext_ref_1234",
    status_detail: str | None = None,
    order_id: str = EXAMPLE_ORDER.order_id,
    event_id: str | None = None,
    seller_id: int = EXAMPLE_ORDER.seller_id,
    application_id: int = EXAMPLE_ORDER.application_id,
    live: bool = False,
) -> Sample:
    """Return the sample of an action at `now_ms`: always the same for the same arguments.

    `status_detail` is that of the payment. A consent has no amount and no order, and its `event_id` is a number. Raises
    `InvalidSample`.
    """
    if action in ACTIONS_OF[CONNECT_TOPIC]:
        return _consent(action, now_ms, int(event_id or CONSENT_ID), seller_id, application_id)
    way, event_id = _way(action, status_detail), event_id or EVENT_ID
    amount_minor, amount = _amount(amount, currency)
    _refuse_invalid(way, amount_minor, external_reference, order_id)
    path = _path(way.state)
    version = len(path) + 1 if way.move is status.REFUND_FAILED else len(path)
    created_ms = now_ms - STEP_MS * (version - 1)
    paid, paid_ms = way.state in _PAID_STATES, created_ms + 2 * STEP_MS
    order = msgspec.structs.replace(
        EXAMPLE_ORDER,
        seller_id=seller_id,
        application_id=application_id,
        order_id=order_id,
        live=int(live),
        status=way.state.status,
        status_detail=way.state.detail,
        payment_status_detail=way.state.payment_detail,
        version=version,
        currency=currency,
        country=CURRENCIES[currency].country,
        amount=amount,
        amount_minor=amount_minor,
        external_reference=external_reference,
        created_ms=created_ms,
        updated_ms=now_ms,
        expires_ms=created_ms + EXAMPLE_ORDER.expires_ms - EXAMPLE_ORDER.created_ms,
        origin=_origin(way.state),
        **({**PAID, "permitted_ms": paid_ms, "paid_ms": paid_ms, "paid_minor": amount_minor} if paid else {}),
    )
    order = _with_refunds(order, way, now_ms)
    body = event_of(way.move, order, now_ms, way.labels, event_id=event_id).body
    return Sample(TOPIC, action, event_id, seller_id, order_id, body)


def _consent(action: str, now_ms: int, event_id: int, seller_id: int, application_id: int) -> Sample:
    notification = consent_notification(
        event_id, seller_id=seller_id, application_id=application_id, action=action, now_ms=now_ms
    )
    body = msgspec.json.encode(notification).decode()
    return Sample(CONNECT_TOPIC, action, str(event_id), seller_id, str(application_id), body)


@cache
def _ways() -> Mapping[str, Mapping[str, _Way]]:
    """Return the ways to each action by the payment's `status_detail`; plain labels have precedence."""
    ways: dict[str, dict[str, _Way]] = {}
    for labels, move in product((PLAIN, EXTENDED), status.MOVES):
        for state in move.targets or move.sources:
            order = msgspec.structs.replace(EXAMPLE_ORDER, status=state.status, status_detail=state.detail)
            of_action = ways.setdefault(labels.action_of(move, order), {})
            of_action.setdefault(state.payment_detail, _Way(move, state, labels))
    return ways


def _way(action: str, status_detail: str | None) -> _Way:
    """Return the way to this action and detail. Raises `InvalidSample`."""
    details = status_details(action)
    if not details:
        raise InvalidSample(f"{action} is no action. The actions are {', '.join(actions())}.")
    if status_detail is not None and status_detail not in details:
        raise InvalidSample(f"{action} has no status detail {status_detail}. Use one of {', '.join(details)}.")
    return _ways()[action][status_detail or details[0]]


def _amount(amount: str | None, currency: str) -> tuple[int, str]:
    """Return the amount in minor units and as a decimal string. Raises `InvalidSample`."""
    if currency not in CURRENCIES:
        raise InvalidSample(f"{currency} is not a supported currency. Use one of {', '.join(CURRENCIES)}.")
    decimals = CURRENCIES[currency].decimals
    if amount is None:
        return EXAMPLE_ORDER.amount_minor, decimal_string(EXAMPLE_ORDER.amount_minor, decimals)
    minor = minor_units(amount, decimals)
    if not minor:
        raise InvalidSample(
            f"{amount} is not an amount above zero in {currency}, which has {decimals} decimals. Use one such as"
            f" {decimal_string(EXAMPLE_ORDER.amount_minor, decimals)}."
        )
    return minor, amount


def _refuse_invalid(way: _Way, amount_minor: int, external_reference: str | None, order_id: str) -> None:
    """Raise `InvalidSample` for what no order can have."""
    if external_reference is not None and not re.fullmatch(EXTERNAL_REFERENCE_PATTERN, external_reference):
        raise InvalidSample(f"{external_reference!r} is no reference. Use 1 to 64 letters, digits, _ and -.")
    if not ORDER_ID.fullmatch(order_id):
        raise InvalidSample(f"{order_id!r} is no order's id. Use one such as {EXAMPLE_ORDER.order_id}.")
    if way.state is status.PARTIALLY_REFUNDED and amount_minor < 2:
        raise InvalidSample("The smallest amount has no part that can be refunded. Use a larger one.")


@cache
def _path(state: State) -> tuple[State, ...]:
    """Return the shortest way through the table of moves from the creation to `state`, both included."""
    paths: list[tuple[State, ...]] = [(status.CREATED,)]
    for path in paths:
        if path[-1] == state:
            return path
        targets = [target for move in status.MOVES if path[-1] in move.sources for target in move.targets]
        paths += [(*path, target) for target in targets if target not in path]
    raise AssertionError(f"no move leads to {state}")


def _origin(state: State) -> str | None:
    """Return where a declined, canceled or unknown payment's state comes from, as a terminal's result sets it."""
    if state == status.CANCELED_ON_TERMINAL:
        return "customer"
    return "network" if state == status.CHECK_ON_TERMINAL else status.ORIGINS.get(state.payment_detail)


def _with_refunds(order: Order, way: _Way, now_ms: int) -> Order:
    """Return the order with the refunds that its state and the move imply."""
    decimals = CURRENCIES[order.currency].decimals
    part_minor = max(1, order.amount_minor // 5)
    refunded_minor = {status.PARTIALLY_REFUNDED: part_minor, status.REFUNDED: order.amount_minor}.get(way.state, 0)
    refunds = []
    if refunded_minor:
        refunded = decimal_string(refunded_minor, decimals)
        refunds.append(OrderRefund(f"REF{REFUND_ULID}", refunded, "processed", now_ms - STEP_MS, "115019989861"))
    if way.move is status.REFUND_FAILED:
        failed_id = f"REF{REFUND_ULID[:-1]}P"
        refunds.append(OrderRefund(failed_id, decimal_string(part_minor, decimals), "failed", now_ms - STEP_MS))
    if not refunds:
        return order
    return msgspec.structs.replace(order, refunded_minor=refunded_minor, refunds=msgspec.json.encode(refunds).decode())
