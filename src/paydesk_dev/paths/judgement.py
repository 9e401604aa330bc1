"""What must hold of a sale in every path, by the acquirer's ledger and the orders. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from paydesk_dev.testing.documents import Charge, Order

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
    charged = [one for one in ledger if one.outcome == "approved" and "reversed_date" not in one]
    if len(charged) > 1:
        yield f"{sale.reference} is charged {len(charged)} times: {', '.join(one.order_id for one in charged)}."
    if (given_back := sum(Decimal(one.refunded_amount) for one in ledger)) > sale.refunded:
        yield f"{given_back} of {sale.reference} were given back, and the till was asked for {sale.refunded}."
    if any(order.status == "processed" for order in orders) and word not in (PAID, PERSON, UNSAID):
        yield f"{sale.reference} is paid, and the till says that it is {word}."
    yield from unpaid_goods(sale, orders, ledger, word)


def unpaid_goods(sale: Sale, orders: Sequence[Order], ledger: Sequence[Charge], word: str) -> Iterator[str]:
    """Yield a sentence if the goods are handed over without a payment of the order's amount."""
    paid = {(order.id, order["transactions"]["payments"][0].get("paid_amount")) for order in orders}
    approved = {(one.order_id, one.amount) for one in ledger if one.outcome == "approved"}
    if word == PAID and not paid & approved:
        yield f"The till says that {sale.reference} is paid, and there is no payment of its amount."
