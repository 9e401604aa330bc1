"""An order's payment as the acquirer knows it; how long its word is waited for, and when it is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from paydesk.orders.order import Order
from paydesk.payments.acquirer import Payment, Unknown

ASK_SECONDS_MAX = 30

T = TypeVar("T")


def payment_of(order: Order, *, installments: int = 1) -> Payment:
    """The payment by the acquirer's names for it; its amount is what was paid, or is to be."""
    return Payment(
        merchant_id=order.seller_id,
        terminal_id=order.terminal_id,
        payment_id=order.payment_id,
        amount_minor=order.amount_minor if order.paid_minor is None else order.paid_minor,
        currency=order.currency,
        installments=installments,
    )


async def answer_of(asked: Awaitable[T], seconds_max: float = ASK_SECONDS_MAX) -> T | Unknown:
    """What the acquirer says; one that does not answer in time may have done it."""
    try:
        return await asyncio.wait_for(asked, seconds_max)
    except TimeoutError:
        return Unknown(f"no answer within {seconds_max:g} s")


def next_ms(attempts: int, now_ms: int, pauses_seconds: tuple[int, ...]) -> int:
    """When to ask again after so many attempts; after all of the pauses the last one is made again and again."""
    return now_ms + pauses_seconds[min(attempts, len(pauses_seconds)) - 1] * 1000
