"""The endpoints of the operator interface."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paydesk.core.ids import ORDER_ID_PATTERN, ULID_PATTERN
from paydesk.operators import (
    accounts,
    authorizations,
    codes,
    history,
    orders,
    outcomes,
    stores,
    subscriptions,
    terminals,
)
from paydesk.operators.errors import (
    APPLICATION_NOT_FOUND,
    AUTHORIZATION_NOT_FOUND,
    EXTERNAL_POS_ID_TAKEN,
    POS_NOT_FOUND,
    POS_TAKEN,
    SELLER_NOT_FOUND,
    STORE_NOT_FOUND,
)
from paydesk.operators.rows import Resource, creating, listing
from paydesk.operators.schemas import (
    CodeRequest,
    PosRequest,
    ResolveRequest,
    ResolveReversalRequest,
    StoreRequest,
    SubscriptionRequest,
    TerminalRequest,
)
from paydesk.orders.errors import ORDER_NOT_FOUND
from paydesk.payments.errors import CANNOT_RESOLVE_ORDER, CANNOT_RESOLVE_REVERSAL, REVERSAL_NOT_FOUND

_GRANT = Resource("grants/{grant_id}", "grant", authorizations.ID_PATTERN, None, AUTHORIZATION_NOT_FOUND)
_ORDER = Resource("orders/{order_id}", "order", ORDER_ID_PATTERN, orders.OrderDocument, ORDER_NOT_FOUND)
_REVERSAL = Resource(
    "reversals/{reversal_id}", "reversal", f"^{ULID_PATTERN}$", outcomes.ReversalDocument, REVERSAL_NOT_FOUND
)

OPERATIONS = (
    *accounts.ROWS,
    listing("grants", authorizations.PAGES),
    _GRANT.deleting(
        authorizations.withdraw,
        "Withdraw a grant",
        name="operator_withdraw_grant",
        status=204,
        description=(
            "Has the effect of a withdrawal by the seller: the grant's codes and tokens are refused, and the"
            " application gets `application.deauthorized`. Open orders continue. Withdrawing a withdrawn grant has no"
            " effect."
        ),
    ),
    listing("stores", stores.STORE_PAGES),
    creating(
        "stores",
        stores.create_store,
        StoreRequest,
        stores.StoreDocument,
        summary="Add a store",
        errors=(SELLER_NOT_FOUND,),
    ),
    listing("pos", stores.POS_PAGES),
    creating(
        "pos",
        stores.create_pos,
        PosRequest,
        stores.PosDocument,
        summary="Add a point of sale",
        errors=(STORE_NOT_FOUND, EXTERNAL_POS_ID_TAKEN),
    ),
    listing("terminals", terminals.PAGES),
    creating(
        "terminals",
        terminals.create,
        TerminalRequest,
        terminals.NewTerminal,
        summary="Add a virtual terminal",
        description="It takes test orders at once, at a new point of sale unless `pos_id` is sent.",
        transaction="none",
        development=True,
        errors=(SELLER_NOT_FOUND, POS_NOT_FOUND, POS_TAKEN),
    ),
    listing("subscriptions", subscriptions.PAGES),
    creating(
        "subscriptions",
        subscriptions.create,
        SubscriptionRequest,
        subscriptions.NewSubscription,
        summary="Subscribe an application",
        description="The response contains the secret that signs the notifications; it is not shown again.",
        transaction="none",
        errors=(APPLICATION_NOT_FOUND,),
    ),
    creating(
        "codes",
        codes.create,
        CodeRequest,
        codes.NewCode,
        summary="Issue an authorization code",
        description="The code is the one that the seller's consent would have issued.",
        development=True,
        errors=(APPLICATION_NOT_FOUND, SELLER_NOT_FOUND),
    ),
    listing("orders", orders.PAGES),
    _ORDER.reading(
        history.get_order,
        "Get an order with its history and notifications",
        name="inspect_order",
        answer=Annotated[history.OrderHistory, Meta(description="The order as applications see it, with its history.")],
    ),
    listing("deliveries", history.DELIVERY_PAGES, ORDER_NOT_FOUND),
    _ORDER.acting(
        "resolve",
        outcomes.resolve,
        "Set the outcome of an order whose outcome is unknown",
        body=ResolveRequest,
        description=(
            "For an order at `check_on_terminal` for at least ten minutes, when neither the terminal nor the acquirer"
            " reports the outcome. The audit trail records the reason. An approval that is reported after the order was"
            " declined here is a late approval and is reversed."
        ),
        errors=(CANNOT_RESOLVE_ORDER,),
    ),
    listing("inquiries", outcomes.INQUIRY_PAGES),
    listing("reversals", outcomes.REVERSAL_PAGES),
    _REVERSAL.acting(
        "resolve",
        outcomes.resolve_reversal,
        "Set the outcome of an unconfirmed reversal",
        body=ResolveReversalRequest,
        description=(
            "For a reversal that the acquirer has not confirmed within ten minutes of the late approval: `reversed` if"
            " the amount was reversed by other means, `not_found` if there is no payment to reverse. It is not retried."
            " The audit trail records the reason."
        ),
        errors=(CANNOT_RESOLVE_REVERSAL,),
    ),
    listing("refunds", outcomes.REFUND_PAGES),
    listing("events", history.EVENT_PAGES),
)
