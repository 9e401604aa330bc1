"""The endpoints of the operator interface."""

from __future__ import annotations

from paydesk.core.ids import ORDER_ID_PATTERN, ULID_PATTERN
from paydesk.core.response import schema_of
from paydesk.operation import Operation, Query
from paydesk.operators import (
    accounts,
    authorizations,
    codes,
    history,
    orders,
    outcomes,
    response_schemas,
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
from paydesk.operators.lists import OF_SELLER
from paydesk.operators.rows import BASE, Resource, creating, listing
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
from paydesk.orders.presentation import OrderDocument
from paydesk.payments.errors import CANNOT_RESOLVE_ORDER, CANNOT_RESOLVE_REVERSAL, REVERSAL_NOT_FOUND

_REVERSAL = Resource(
    "reversals/{reversal_id}", "reversal", f"^{ULID_PATTERN}$", response_schemas.REVERSAL, REVERSAL_NOT_FOUND
)

OPERATIONS = (
    *accounts.ROWS,
    listing("grants", authorizations.find_all, response_schemas.AUTHORIZATION, OF_SELLER),
    Operation(
        method="DELETE",
        path=f"{BASE}/grants/{{grant_id}}",
        name="operator_withdraw_grant",
        summary="Withdraw a grant",
        surface="operator",
        handler=authorizations.withdraw,
        status=204,
        path_pattern=authorizations.ID_PATTERN,
        errors=(AUTHORIZATION_NOT_FOUND,),
        description=(
            "Has the effect of a withdrawal by the seller: the grant's codes and tokens are refused, and the"
            " application gets `application.deauthorized`. Open orders continue. Withdrawing a withdrawn grant has no"
            " effect."
        ),
    ),
    listing("stores", stores.find_stores, response_schemas.STORE, OF_SELLER, key=(0, 0)),
    creating(
        "stores",
        stores.create_store,
        StoreRequest,
        response_schemas.STORE,
        summary="Add a store",
        errors=(SELLER_NOT_FOUND,),
    ),
    listing("pos", stores.find_pos, response_schemas.POS, OF_SELLER, key=(0, 0)),
    creating(
        "pos",
        stores.create_pos,
        PosRequest,
        response_schemas.POS,
        summary="Add a point of sale",
        errors=(STORE_NOT_FOUND, EXTERNAL_POS_ID_TAKEN),
    ),
    listing("terminals", terminals.find_all, response_schemas.TERMINAL, OF_SELLER),
    creating(
        "terminals",
        terminals.create,
        TerminalRequest,
        response_schemas.NEW_TERMINAL,
        summary="Add a virtual terminal",
        description="It takes test orders at once, at a new point of sale unless `pos_id` is sent.",
        transaction="none",
        development=True,
        errors=(SELLER_NOT_FOUND, POS_NOT_FOUND, POS_TAKEN),
    ),
    listing("subscriptions", subscriptions.find_all, response_schemas.SUBSCRIPTION, key=("",)),
    creating(
        "subscriptions",
        subscriptions.create,
        SubscriptionRequest,
        response_schemas.NEW_SUBSCRIPTION,
        summary="Subscribe an application",
        description="The response contains the secret that signs the notifications; it is not shown again.",
        transaction="none",
        errors=(APPLICATION_NOT_FOUND,),
    ),
    creating(
        "codes",
        codes.create,
        CodeRequest,
        response_schemas.CODE,
        summary="Issue an authorization code",
        description="The code is the one that the seller's consent would have issued.",
        development=True,
        errors=(APPLICATION_NOT_FOUND, SELLER_NOT_FOUND),
    ),
    listing("orders", orders.find_all, schema_of(OrderDocument), *orders.QUERY),
    Operation(
        method="GET",
        path=f"{BASE}/orders/{{order_id}}",
        name="inspect_order",
        summary="Get an order with its history and notifications",
        surface="operator",
        handler=history.get_order,
        answer=response_schemas.ORDER,
        transaction="heavy",
        path_pattern=ORDER_ID_PATTERN,
        errors=(ORDER_NOT_FOUND,),
    ),
    listing(
        "deliveries",
        history.find_deliveries,
        response_schemas.DELIVERY,
        Query("order", {"type": "string"}, "Only deliveries of this order, unpaged."),
        Query("status", {"enum": list(history.DELIVERY_STATUSES)}, "Only rows with this status."),
        OF_SELLER,
        errors=(ORDER_NOT_FOUND,),
    ),
    Operation(
        method="POST",
        path=f"{BASE}/orders/{{order_id}}/resolve",
        name="operator_resolve_order",
        summary="Set the outcome of an order whose outcome is unknown",
        description=(
            "For an order at `check_on_terminal` for at least ten minutes, when neither the terminal nor the acquirer"
            " reports the outcome. The audit trail records the reason. An approval that is reported after the order was"
            " declined here is a late approval and is reversed."
        ),
        surface="operator",
        handler=outcomes.resolve,
        body=ResolveRequest,
        answer=OrderDocument,
        path_pattern=ORDER_ID_PATTERN,
        errors=(ORDER_NOT_FOUND, CANNOT_RESOLVE_ORDER),
    ),
    listing(
        "inquiries",
        outcomes.find_inquiries,
        response_schemas.INQUIRY,
        Query("open", {"type": "boolean"}, "Only inquiries that have not ended."),
        OF_SELLER,
    ),
    listing(
        "reversals",
        outcomes.find_reversals,
        response_schemas.REVERSAL,
        Query("status", {"enum": list(outcomes.REVERSAL_STATUSES)}, "Only rows with this status."),
        OF_SELLER,
    ),
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
    listing(
        "refunds",
        outcomes.find_refunds,
        response_schemas.REFUND,
        Query("status", {"enum": list(outcomes.REFUND_STATUSES)}, "Only rows with this status."),
        OF_SELLER,
    ),
    listing("events", history.find_events, response_schemas.EVENT, key=("",)),
)
