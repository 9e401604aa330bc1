"""New orders of the page, of the console and of tests: as an application of the terminal's seller would create them."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import ValidationError

from paydesk.core.errors import PROPERTY_VALUE, ErrorKind, Refusal
from paydesk.engine.orders import handlers as orders
from paydesk.engine.orders.errors import ALREADY_QUEUED_ORDER_ON_TERMINAL, TERMINAL_NOT_IN_PDV_MODE
from paydesk.engine.orders.schemas import OrderRequest
from paydesk.operators import audit
from paydesk.platform.operation import Answer, Call, Caller, Handled
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Transaction
from paydesk_dev.virtual.api import handlers, store
from paydesk_dev.virtual.api.schemas import NewOrderRequest, OrderForm
from paydesk_dev.virtual.api.store import Place
from paydesk_dev.virtual.page import handlers as page
from paydesk_dev.virtual.page.access import check_form

NO_APPLICATION = ErrorKind(
    "no_application",
    409,
    "No application can create an order for this seller: none is authorized to write, or it or the seller is"
    " suspended. Authorize one: `paydesk authorize-url` prints where; or end the suspension: `paydesk sellers resume`,"
    " `paydesk apps resume`.",
    advice="Authorize one, or end its suspension, then create the order again.",
    repeat="later",
)
ERRORS = (PROPERTY_VALUE, NO_APPLICATION, TERMINAL_NOT_IN_PDV_MODE, ALREADY_QUEUED_ORDER_ON_TERMINAL)


async def create(call: Call) -> Answer:
    """Create a test order for the virtual terminal. The rules are those of `POST /v1/orders`."""
    form: OrderForm = call.body
    access = await check_form(call, form.key)
    try:
        request = _request(call, access.place, access.terminal_id, form.amount, description=form.description)
        outcome = await call.database.write(
            lambda tx: _create(call, tx, access.place, request),
            conflict_keys=(conflict_keys.terminal(access.terminal_id),),
        )
    except Refusal as refusal:
        outcome = refusal
    return page.refused(call, access, outcome) if isinstance(outcome, Refusal) else page.done(call, access)


async def create_by_api(call: Call) -> Handled:
    """Create an order for a virtual terminal. The rules are those of `POST /v1/orders`.

    With an access token its application creates it, for an operator the one that the seller authorized first.
    """
    body: NewOrderRequest = call.body
    terminal = await handlers.find(call)
    place = await call.database.read(lambda tx: store.find_place(tx, terminal.terminal_id))
    if place is None:
        raise handlers.gone(call)
    request = _request(call, place, terminal.terminal_id, **body.model_dump(exclude_none=True))

    async def work(tx: Transaction) -> Handled:
        outcome = await _create(call, tx, place, request, call.caller.application_id)
        if call.caller.operator_id and isinstance(outcome, Answer):
            order_id = outcome.body.id
            await audit.record(call, tx, "orders.create", order_id, after={"id": order_id, "amount": body.amount})
        return outcome

    return await call.database.write(work, conflict_keys=(conflict_keys.terminal(terminal.terminal_id),))


def _request(call: Call, place: Place, terminal_id: str, amount: str, **fields: str) -> OrderRequest:
    """Return the request of an application. Raises `property_value` with the rule that the form breaks."""
    document: dict[str, Any] = {
        "type": "point",
        "transactions": {"payments": [{"amount": amount.strip().replace(",", ".")}]},
        "config": {"point": {"terminal_id": terminal_id}},
        **{name: text.strip() for name, text in fields.items() if text.strip()},
    }
    context = {
        "currency": place.currency,
        "amount_minor_min": call.settings.order_amount_minor_min,
        "references_checked": call.settings.card_numbers_refused_in_references,
    }
    try:
        return OrderRequest.model_validate(document, context=context)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        name = str(fault["loc"][-1])
        message = f"No order: the {name} {fault['msg']}."
        raise PROPERTY_VALUE.with_reason(f"{name} is invalid", message=message) from None


async def _create(
    call: Call, tx: Transaction, place: Place, request: OrderRequest, application_id: int | None = None
) -> Handled:
    application_id = application_id or await store.find_application(tx, place.seller_id)
    if application_id is None:
        raise NO_APPLICATION.with_reason("no valid authorization")
    caller = Caller(place.seller_id, application_id, currency=place.currency, country=place.country)
    by_application = msgspec.structs.replace(call, caller=caller, body=request)
    by_application.begin(tx)
    return await orders.create(by_application)
