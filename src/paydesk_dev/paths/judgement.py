"""What must hold of a sale in every path, by the acquirer's ledger and the orders. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from paydesk_dev.testing.documents import Charge, Order, Request

ASKED_PER_SECOND_MAX, ASKED_PER_CHANGE_MAX = 2, 3
LIVE = ("created", "at_terminal")
OPEN, PAID, PERSON, UNSAID = "open", "paid", "person", ""


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
    if (refunded := sum(Decimal(one.refunded_amount) for one in ledger)) > sale.refunded:
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


def impolite(asked: Sequence[Request], orders: Sequence[Order]) -> Iterator[str]:
    """Yield a sentence if the till asks for its orders more than twice a second while nothing changes."""
    times = [datetime.fromisoformat(one.created_date) for one in asked]
    seconds = (max(times) - min(times)).total_seconds() if times else 0
    changes = sum(order.version for order in orders)
    if len(asked) > ASKED_PER_SECOND_MAX * seconds + ASKED_PER_CHANGE_MAX * (changes + 1):
        yield f"The till asked {len(asked)} times in {seconds:.1f} s, and there were {changes} changes."
