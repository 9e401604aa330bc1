"""New orders of the page: test orders for its terminal, as an application of the seller would create them."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import ValidationError

from paydesk.core import conflict_keys
from paydesk.core.errors import PROPERTY_VALUE, ErrorKind, Refusal
from paydesk.operation import Answer, Call, Caller, Handled
from paydesk.orders import handlers
from paydesk.orders.errors import ALREADY_QUEUED_ORDER_ON_TERMINAL, TERMINAL_NOT_IN_PDV_MODE
from paydesk.orders.schemas import OrderRequest
from paydesk.sandbox.virtual import page, page_store
from paydesk.sandbox.virtual.page_access import check_form
from paydesk.sandbox.virtual.page_forms import OrderForm
from paydesk.sandbox.virtual.page_store import Place
from paydesk.storage.database import Transaction

NO_APPLICATION = ErrorKind(
    "no_application",
    409,
    "No application can create an order for this seller: none is authorized to write, or it or the seller is"
    " suspended. Authorize one: `paydesk authorize-url` prints where; or end the suspension: `paydesk sellers resume`,"
    " `paydesk apps resume`.",
)
ERRORS = (PROPERTY_VALUE, NO_APPLICATION, TERMINAL_NOT_IN_PDV_MODE, ALREADY_QUEUED_ORDER_ON_TERMINAL)


async def create(call: Call) -> Answer:
    """Create the order that the form describes, under the rules of `POST /v1/orders`."""
    form: OrderForm = call.body
    access = await check_form(call, form.key)
    place = access.place
    try:
        request = _request(form, access.terminal_id, place, call.settings.order_amount_minor_min)
        outcome = await call.database.write(
            lambda tx: _create(call, tx, place, request),
            conflict_keys=(conflict_keys.terminal(access.terminal_id),),
        )
    except Refusal as refusal:
        return page.refused(call, access, refusal)
    return page.refused(call, access, outcome) if isinstance(outcome, Refusal) else page.done(call, access)


def _request(form: OrderForm, terminal_id: str, place: Place, amount_minor_min: int) -> OrderRequest:
    """Return the request of an application. Raises `property_value` with the rule that the form breaks."""
    document: dict[str, Any] = {
        "type": "point",
        "transactions": {"payments": [{"amount": form.amount.strip().replace(",", ".")}]},
        "config": {"point": {"terminal_id": terminal_id}},
    }
    if form.description.strip():
        document["description"] = form.description.strip()
    context = {"currency": place.currency, "amount_minor_min": amount_minor_min}
    try:
        return OrderRequest.model_validate(document, context=context)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        name = str(fault["loc"][-1])
        message = f"No order: the {name} {fault['msg']}."
        raise PROPERTY_VALUE.with_reason(f"{name} is invalid", message=message) from None


async def _create(call: Call, tx: Transaction, place: Place, request: OrderRequest) -> Handled:
    application_id = await page_store.find_application(tx, place.seller_id)
    if application_id is None:
        raise NO_APPLICATION.with_reason("no valid authorization")
    caller = Caller(place.seller_id, application_id, currency=place.currency, country=place.country)
    by_application = msgspec.structs.replace(call, caller=caller, body=request)
    by_application.begin(tx)
    return await handlers.create(by_application)
