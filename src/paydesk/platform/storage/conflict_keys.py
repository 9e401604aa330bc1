"""Conflict keys: the names of what a unit of work changes or locks, with one function for each kind of thing.

On PostgreSQL units of work without a common key may share a transaction, and run there statement by statement in
lockstep. Between them `FOR UPDATE` is no lock: a unit that locks a row must name it. A unit without keys runs alone and
may lock anything.

Creating an order names its terminal only, and may expire the order that is overdue there. So a unit that locks an order
names both, unless the order has ended.
"""

from __future__ import annotations

from typing import NewType

from paydesk.platform.idempotency_key import Key

ConflictKey = NewType("ConflictKey", tuple[object, ...])


def order(order_id: str) -> ConflictKey:
    """An order with its payment: lease, results, inquiry, refunds and reversals."""
    return ConflictKey(("order", order_id))


def terminal(terminal_id: str) -> ConflictKey:
    """A terminal, with its session and its live order."""
    return ConflictKey(("terminal", terminal_id))


def idempotency(key: Key) -> ConflictKey:
    """An idempotency key."""
    return ConflictKey(key)


def code(presented: object) -> ConflictKey:
    """An authorization code, as the request has it."""
    return ConflictKey(("code", str(presented)))


def refresh_token(presented: object) -> ConflictKey:
    """A refresh token, as the request has it. Its family has no key: it changes by conditional UPDATEs only."""
    return ConflictKey(("refresh_token", str(presented)))


def operator_event(repeat_key: str) -> ConflictKey:
    """A repeatable operator event in one hour."""
    return ConflictKey(("operator_event", repeat_key))


def simulated_payment(seller_id: int, payment_id: str) -> ConflictKey:
    """A payment in the simulator ledger."""
    return ConflictKey(("simulated_payment", seller_id, payment_id))


def simulated_request(seller_id: int, operation: str, request_key: str) -> ConflictKey:
    """A request to the simulated acquirer, with its movement in the ledger."""
    return ConflictKey(("simulated_request", seller_id, operation, request_key))


def simulated_requests(seller_id: int, operation: str) -> ConflictKey:
    """All counted requests of a seller and operation: their ordinals are assigned one at a time."""
    return ConflictKey(("simulated_requests", seller_id, operation))


def subscription(subscription_id: str) -> ConflictKey:
    """A webhook subscription."""
    return ConflictKey(("subscription", subscription_id))


def deliveries(subscription_id: str, order_id: str) -> ConflictKey:
    """The deliveries of an order's events to a subscription."""
    return ConflictKey(("deliveries", subscription_id, order_id))
