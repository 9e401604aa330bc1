"""`GET /dev/charges`: the ledger of the simulated acquirer, which says what was charged whatever the orders say."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.errors import PROPERTY_VALUE
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.core.response import Response, Time, time_or_none
from paydesk.platform.operation import Answer, Call
from paydesk.platform.rows import Rows
from paydesk.platform.storage.database import Row
from paydesk_dev import filters

CHARGES_MAX = 1_000
QUERY = (filters.APPLICATION, filters.ORDER)

# A payment has the id of its order. That of an order which a reset removed has none.
CHARGES = f"""
SELECT o.order_id, p.payment_id, p.seller_id, p.terminal_id, p.amount_minor, p.currency, p.outcome, p.detail,
       p.reference_id, p.refunded_minor, p.reversed_ms, p.created_ms
  FROM simulator_payments p
  JOIN orders o ON o.seller_id = p.seller_id AND o.order_id = 'ORD' || SUBSTR(p.payment_id, 4)
 WHERE (CAST($1 AS bigint) = 0 OR o.application_id = $1) AND ($2 = '' OR o.order_id = $2)
 ORDER BY p.created_ms DESC, p.payment_id DESC LIMIT {CHARGES_MAX}"""


class Charge(Response, frozen=True, kw_only=True):
    """A payment in the ledger of the simulated acquirer."""

    order_id: str
    payment_id: str
    seller_id: int
    terminal_id: str
    outcome: Literal["approved", "declined"]
    status_detail: Annotated[str, Meta(description="The reason of a decline, or `other_amount`.")] | None = None
    amount: Annotated[str, Meta(description="What was approved or declined.")]
    refunded_amount: str
    charged_amount: Annotated[str, Meta(description="What the buyer has paid: approved, minus what was given back.")]
    currency: str
    reference_id: str
    reversed_date: Annotated[Time, Meta(description="When the whole payment was undone.")] | None = None
    created_date: Time


class Charges(Response, frozen=True):
    """The payments of the ledger."""

    data: Annotated[list[Charge], Meta(description=f"The newest {CHARGES_MAX:,}, oldest first.")]


async def find(call: Call) -> Answer:
    """List the payments in the ledger of the simulated acquirer, oldest first."""
    values = filters.read(QUERY, call.query)
    rows = await call.tx.all(CHARGES, int(values.get("application", 0)), values.get("order", ""))
    return Answer(200, Charges([_charge(row) for row in reversed(rows)]))


def _charge(row: Row) -> Charge:
    order_id, payment_id, seller_id, terminal_id, amount, currency, outcome, detail, reference, refunded, *times = row
    reversed_ms, created_ms = times
    charged = amount - refunded if outcome == "approved" and reversed_ms is None else 0
    decimals = CURRENCIES[currency].decimals
    return Charge(
        order_id=order_id,
        payment_id=payment_id,
        seller_id=seller_id,
        terminal_id=terminal_id,
        outcome=outcome,
        status_detail=detail,
        amount=decimal_string(amount, decimals),
        refunded_amount=decimal_string(refunded, decimals),
        charged_amount=decimal_string(charged, decimals),
        currency=currency,
        reference_id=reference,
        reversed_date=time_or_none(reversed_ms),
        created_date=rfc3339(created_ms),
    )


OPERATIONS = (
    Rows("operator", "/dev", development=True, transaction="read").get(
        "/charges",
        "list_charges",
        find,
        answer=Charges,
        query=QUERY,
        errors=(PROPERTY_VALUE,),
        description="A test compares it with what its till believes: the acquirer's word on who paid, and how often.",
    ),
)
