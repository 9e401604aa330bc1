"""`/virtual/v1/acquirer`: the simulated acquirer as virtual terminals call it, which report its outcomes themselves.

A payment that no order has is refused: it would be in the ledger for ever, with nothing to compare it with.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from pydantic import Field

from paydesk.core.errors import FORBIDDEN, PROPERTY_VALUE
from paydesk.core.ids import ULID_PATTERN
from paydesk.core.model import Model
from paydesk.core.money import AMOUNT_PATTERN, CURRENCIES, decimal_string, minor_units
from paydesk.core.response import Response, one_of
from paydesk.engine.device.rules.reports import Card, PaymentMethod
from paydesk.engine.device.sessions import refuse_revoked
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import CHECK_ON_TERMINAL, FAILED_DETAILS, LIVE
from paydesk.engine.payments import acquirer as port
from paydesk.engine.payments.acquirer import Approved, Declined, NotSent, Payment, Result, Unknown
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.terms import payment_of
from paydesk.platform.operation import Answer, Call
from paydesk.platform.rows import Rows

PaymentId = Annotated[str, Field(pattern=f"^PAY{ULID_PATTERN}$", examples=["PAY01J67CQQH5904WDBVZEM4JMEP3"])]


class AcquirerRequest(Model):
    """The body of `POST /virtual/v1/acquirer/payments`."""

    payment_id: PaymentId
    amount: Annotated[str, Field(pattern=AMOUNT_PATTERN, examples=["24.90"])]
    payment_method: PaymentMethod
    card: Card | None = None
    """Left out of a payment by wallet."""


class AcquirerReversal(Model):
    """The body of `POST /virtual/v1/acquirer/reversals`."""

    payment_id: PaymentId


class AcquirerOutcome(Response, frozen=True):
    """The outcome of a payment or a reversal at the simulated acquirer."""

    outcome: Annotated[
        Literal["approved", "declined", "unknown", "not_sent"],
        Meta(description="`unknown`: no answer, the card may be charged. `not_sent`: the card was not charged."),
    ]
    status_detail: Annotated[str, one_of(FAILED_DETAILS, "The reason of a decline.")] | None = None
    amount: str | None = None
    authorization_code: str | None = None
    reference_id: str | None = None


async def authorize(call: Call) -> Answer:
    """Request an authorization from the simulated acquirer. It charges a payment id at most once."""
    acquirer, request, caller = _acquirer(call), call.body, call.caller
    assert isinstance(request, AcquirerRequest)
    method, amount_minor = request.payment_method, minor_units(request.amount, CURRENCIES[caller.currency].decimals)
    if not amount_minor:
        raise PROPERTY_VALUE.with_reason("amount", f"'$.amount' - must be an amount of {caller.currency} above zero")
    await _order(call, request.payment_id)
    payment = Payment(
        caller.seller_id, caller.terminal_id, request.payment_id, amount_minor, caller.currency, method.installments
    )
    card = None
    if (sent := request.card) is not None:  # A wallet has none.
        card = port.Card(method.id, method.type, sent.first_digits, sent.last_digits, sent.entry_mode or "")
    outcome = await acquirer.authorize(payment, card)
    if isinstance(outcome, Approved) and outcome.needs_confirmation:
        # A terminal that asks its acquirer itself confirms the approval there too.
        confirmed = await acquirer.confirm(payment, reference_id=outcome.reference_id)
        if not isinstance(confirmed, Approved):
            outcome = Unknown("the approval is not confirmed")
    return Answer(200, _answer(payment, outcome))


async def reverse(call: Call) -> Answer:
    """Reverse a payment at the simulated acquirer. One that has not arrived is declined when it arrives."""
    acquirer, request = _acquirer(call), call.body
    assert isinstance(request, AcquirerReversal)
    order = await _order(call, request.payment_id)
    if order.status not in LIVE or order.state == CHECK_ON_TERMINAL:
        # The service has an outcome, or inquires for it.
        return Answer(200, AcquirerOutcome("unknown"))
    payment = payment_of(order)
    key = f"{payment.payment_id}.terminal"
    outcome = await acquirer.reverse(payment, key=key, amount_minor=payment.amount_minor)
    return Answer(200, _answer(payment, outcome))


def _acquirer(call: Call) -> CheckedAcquirer:
    """Return the simulated acquirer for the terminal. Raises `FORBIDDEN` where its orders have another."""
    refuse_revoked(call)
    acquirers = call.shared.objects[Acquirers]
    simulator = acquirers.live.get("simulator") if call.caller.live else acquirers.test
    if simulator is None:
        raise FORBIDDEN.with_reason("no simulator for live", message="Live terminals have no simulated acquirer here.")
    return CheckedAcquirer(simulator)


async def _order(call: Call, payment_id: str) -> Order:
    """Return the terminal's order that has the payment. Raises `ORDER_NOT_FOUND`."""
    caller, order_id = call.caller, f"ORD{payment_id.removeprefix('PAY')}"
    order = await call.database.read(lambda tx: orders.find(tx, caller.seller_id, order_id))
    if order is None or (order.terminal_id, bool(order.live)) != (caller.terminal_id, caller.live):
        message = "No order of this terminal has this payment. Send the payment_id of the order offered."
        raise ORDER_NOT_FOUND.with_reason("no order of the terminal has the payment", message=message)
    return order


def _answer(payment: Payment, outcome: Result) -> AcquirerOutcome:
    match outcome:
        case Approved():
            amount = decimal_string(outcome.amount_minor, CURRENCIES[payment.currency].decimals)
            return AcquirerOutcome("approved", None, amount, outcome.authorization_code or "", outcome.reference_id)
        case Declined():
            return AcquirerOutcome("declined", outcome.detail)
        case NotSent():
            return AcquirerOutcome("not_sent")
        case _:
            return AcquirerOutcome("unknown")


_ROWS = Rows(
    "device",
    "/virtual/v1/acquirer",
    development=True,
    transaction="none",
    errors=(PROPERTY_VALUE, ORDER_NOT_FOUND),
)

OPERATIONS = (
    _ROWS.post(
        "/payments",
        "acquirer_authorize",
        authorize,
        answer=AcquirerOutcome,
        example={
            "outcome": "approved",
            "amount": "24.90",
            "authorization_code": "831000",
            "reference_id": "41150199898610",
        },
        body=AcquirerRequest,
        description=(
            "Called by virtual terminals when the authorization is permitted, as a physical terminal calls its own"
            " acquirer. `payment_id`, that of an order, is the idempotency key: a repeated request gets the same answer"
            " and charges nothing. `docs/simulator.md` lists the test cards."
        ),
    ),
    _ROWS.post(
        "/reversals",
        "acquirer_reverse",
        reverse,
        answer=AcquirerOutcome,
        example={
            "outcome": "approved",
            "amount": "24.90",
            "authorization_code": "",
            "reference_id": "30915871643592",
        },
        body=AcquirerReversal,
        description=(
            "Called by a virtual terminal whose buyer took the card out after the permit; it then reports `declined`"
            " with `processing_error`. The whole payment is reversed, with its tip. `payment_id` is the idempotency"
            " key. After another outcome than `approved` the card may be charged: the terminal reports `unknown`."
            " Once the service has an outcome or inquires for it, nothing is reversed, and the answer is `unknown`."
        ),
    ),
)
