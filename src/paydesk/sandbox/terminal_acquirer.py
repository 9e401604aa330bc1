"""The simulated acquirer's own door, which virtual terminals knock at as a real one would at its acquirer's.

It exists in development alone. The service behind the other doors learns nothing here: a terminal reports by itself.
"""

from __future__ import annotations

from typing import Any

from paydesk.core.errors import FORBIDDEN, PROPERTY_VALUE
from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.device.sessions import refuse_revoked
from paydesk.operation import Answer, Call, Handled
from paydesk.payments.acquirer import Acquirers, Approved, Card, Declined, NotSent, Outcome, Payment
from paydesk.sandbox.schemas import AcquirerRequest


async def authorize(call: Call) -> Handled:
    """Charge, once under the payment's id, however often it is asked."""
    refuse_revoked(call)
    acquirers: Acquirers = call.state["acquirers"]
    acquirer = acquirers.of(call.caller.live)
    if acquirer is None:
        raise FORBIDDEN.with_reason("no simulator for live", message="Live terminals have no simulated acquirer here.")
    request: AcquirerRequest = call.body
    payment = _payment(call, request)
    card = Card(
        request.payment_method.id,
        request.payment_method.type,
        request.card.first_digits,
        request.card.last_digits,
        request.card.entry_mode or "",
    )
    return Answer(200, _told(payment, await acquirer.authorize(payment, card)))


def _payment(call: Call, request: AcquirerRequest) -> Payment:
    caller = call.caller
    amount_minor = minor_units(request.amount, CURRENCIES[caller.currency].decimals)
    if not amount_minor:
        raise PROPERTY_VALUE.with_reason("amount", f"'$.amount' - must be an amount of {caller.currency} above zero")
    return Payment(
        caller.seller_id,
        caller.terminal_id,
        request.payment_id,
        amount_minor,
        caller.currency,
        request.payment_method.installments,
    )


def _told(payment: Payment, outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Approved():
            decimals = CURRENCIES[payment.currency].decimals
            return {
                "outcome": "approved",
                "amount": decimal_string(outcome.amount_minor, decimals),
                "authorization_code": outcome.authorization_code or "",
                "reference_id": outcome.reference_id,
            }
        case Declined():
            return {"outcome": "declined", "status_detail": outcome.detail}
        case NotSent():
            return {"outcome": "not_sent"}
        case _:
            return {"outcome": "unknown"}
