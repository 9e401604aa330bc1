"""What must hold of a sale in every path, by the acquirer's ledger and the orders. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from paydesk_dev.testing.documents import Charge, Order, Request

ASKED_PER_SECOND_MAX, ASKED_PER_CHANGE_MAX = 2, 3
LIVE = ("created", "at_terminal")
OPEN, PAID, UNPAID, REFUNDED, PERSON, UNSAID = "open", "paid", "unpaid", "refunded", "person", ""
UNDECIDED = (0, 408, 423, 429, *range(500, 600))
"""The answers after which a request is sent again with the same key; 0: none."""
TOO_MANY, EARLY_SECONDS = 429, 0.05
WRITES = "create_order", "refund_order"


@dataclass(slots=True)
class Sale:
    """A sale that the till was asked for. `refunding`: the last refund; `refunded`: how much all were for."""

    reference: str
    amount: str
    first: int
    """How many orders there were before it."""
    refunding: str | None = None
    refunded: Decimal = Decimal(0)


def judge(sale: Sale, orders: Sequence[Order], ledger: Sequence[Charge], word: str) -> Iterator[str]:
    """Yield what is wrong with a sale at the end. `word` is the till's own: `open`, `paid`, …, empty if not known."""
    charged = [one for one in ledger if is_charged(one)]
    if len(charged) > 1:
        yield f"{sale.reference} is charged {len(charged)} times: {', '.join(one.order_id for one in charged)}."
    refunded, failed = sum(Decimal(one.refunded_amount) for one in ledger), failed_refunds(orders)
    is_too_little = refunded < sale.refunded - failed and word in (PAID, REFUNDED)
    if refunded > sale.refunded or is_too_little:
        yield f"{refunded} of {sale.reference} were refunded, and the till was asked for {sale.refunded}."
    if any(order.status == "processed" for order in orders) and word not in (OPEN, PAID, PERSON, UNSAID):
        yield f"{sale.reference} is paid, and the till says that it is {word}."
    if orders and word == OPEN and all(order.status not in LIVE for order in orders):
        yield f"The order of {sale.reference} has ended, and the till still says that it is open."
    yield from unpaid_goods(sale, orders, ledger, word)


def is_charged(charge: Charge) -> bool:
    """Return whether it was approved and not reversed."""
    return charge.outcome == "approved" and "reversed_date" not in charge


def unpaid_goods(sale: Sale, orders: Sequence[Order], ledger: Sequence[Charge], word: str) -> Iterator[str]:
    """Yield a sentence if the goods are handed over without a payment of the order's amount."""
    paid = {(order.id, order["transactions"]["payments"][0].get("paid_amount")) for order in orders}
    approved = {(one.order_id, one.amount) for one in ledger if is_charged(one)}
    if word == PAID and not paid & approved:
        yield f"The till says that {sale.reference} is paid, and there is no payment of its amount."


def failed_refunds(orders: Sequence[Order]) -> Decimal:
    """Return how much of the refunds has failed later."""
    refunds = [one for order in orders for one in order["transactions"].get("refunds", [])]
    return sum((Decimal(one["amount"]) for one in refunds if one["status"] == "failed"), Decimal(0))


def judge_requests(requests: Sequence[Request], orders: Sequence[Order], retry_after: float) -> Iterator[str]:
    """Yield what is wrong with how often and with which keys the till has sent its requests."""
    for operation in ("get_order", *WRITES):
        asked = [one for one in requests if one.get("operation") == operation]
        yield from (*impolite(asked, orders), *too_early(asked, retry_after))
        if operation in WRITES:
            yield from other_keys(asked)


def impolite(asked: Sequence[Request], orders: Sequence[Order]) -> Iterator[str]:
    """Yield a sentence if the till sends one operation more than twice a second while nothing changes."""
    times = [_time(one) for one in asked]
    seconds = max(times) - min(times) if times else 0
    changes = sum(order.version for order in orders)
    if len(asked) > ASKED_PER_SECOND_MAX * seconds + ASKED_PER_CHANGE_MAX * (changes + 1):
        sent = f"{asked[0].operation} {len(asked)} times in {seconds:.1f} s"
        yield f"The till asked {sent}, and there were {changes} changes."


def other_keys(asked: Sequence[Request]) -> Iterator[str]:
    """Yield a sentence if a key was left for another one before it was known what came of it."""
    keys = dict.fromkeys(one.get("idempotency_key") for one in asked)
    for key in [*keys][:-1]:
        answers = [one.status for one in asked if one.get("idempotency_key") == key]
        if all(status in UNDECIDED for status in answers):
            name = f"The till sent {asked[0].operation} with another key"
            yield f"{name} after {answers[-1] or 'no answer'}, which does not say that nothing will happen."


def too_early(asked: Sequence[Request], retry_after: float) -> Iterator[str]:
    """Yield a sentence if a request after 429 does not wait as long as `Retry-After` says."""
    for limited, following in pairwise(asked):
        seconds = _time(following) - _time(limited)
        if limited.status == TOO_MANY and seconds < retry_after - EARLY_SECONDS:
            yield f"The till sent {limited.operation} {seconds:.2f} s after 429, and Retry-After was {retry_after:g} s."


def believed(kind: str, answer: int | None) -> Iterator[str]:
    """Yield a sentence if the till's receiver does not refuse a notification that is not signed as it has to be."""
    if answer and not 400 <= answer < 500:
        yield f"The till answers {answer} to a notification that is {kind}, not 401."


def _time(request: Request) -> float:
    return datetime.fromisoformat(request.created_date).timestamp()
