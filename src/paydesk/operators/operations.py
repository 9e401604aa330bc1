"""The operators' part of the interface, one row an endpoint."""

from __future__ import annotations

from paydesk.core.ids import ORDER_ID_PATTERN, ULID_PATTERN
from paydesk.operation import Operation, Query
from paydesk.operators import (
    accounts,
    codes,
    grants,
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
    EXTERNAL_POS_ID_TAKEN,
    GRANT_NOT_FOUND,
    POS_NOT_FOUND,
    POS_TAKEN,
    SELLER_NOT_FOUND,
    STORE_NOT_FOUND,
)
from paydesk.operators.lists import OF_SELLER
from paydesk.operators.rows import BASE, One, creating, listing
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
from paydesk.orders.response_schemas import ORDER as APPLICATIONS_ORDER
from paydesk.payments.errors import CANNOT_RESOLVE_ORDER, CANNOT_RESOLVE_REVERSAL, REVERSAL_NOT_FOUND

_REVERSAL = One(
    "reversals/{reversal_id}", "reversal", f"^{ULID_PATTERN}$", response_schemas.REVERSAL, REVERSAL_NOT_FOUND
)

OPERATIONS = (
    *accounts.ROWS,
    listing("grants", grants.find_all, response_schemas.GRANT, OF_SELLER),
    Operation(
        method="DELETE",
        path=f"{BASE}/grants/{{grant_id}}",
        name="operator_withdraw_grant",
        summary="Withdraw a grant",
        surface="operator",
        handler=grants.withdraw,
        status=204,
        path_pattern=grants.ID_PATTERN,
        errors=(GRANT_NOT_FOUND,),
        description=(
            "As if the seller had withdrawn it: its codes and tokens are good for nothing any more, and the application"
            " is told by `application.deauthorized`. Orders under way go on. One that has ended stays as it is."
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
        description="It takes test orders at once, at a new point of sale of its own unless one is named.",
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
        description="The secret that signs its notifications is in this answer and nowhere else.",
        transaction="none",
        errors=(APPLICATION_NOT_FOUND,),
    ),
    creating(
        "codes",
        codes.create,
        CodeRequest,
        response_schemas.CODE,
        summary="Mint an authorization code",
        description="As if the seller had just agreed.",
        development=True,
        errors=(APPLICATION_NOT_FOUND, SELLER_NOT_FOUND),
    ),
    listing("orders", orders.find_all, APPLICATIONS_ORDER, *orders.QUERY),
    Operation(
        method="GET",
        path=f"{BASE}/orders/{{order_id}}",
        name="inspect_order",
        summary="An order with its moves and notifications",
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
        Query("order", {"type": "string"}, "Of this order only, all at once."),
        Query("status", {"enum": list(history.DELIVERY_STATUSES)}, "With this status only."),
        OF_SELLER,
        errors=(ORDER_NOT_FOUND,),
    ),
    Operation(
        method="POST",
        path=f"{BASE}/orders/{{order_id}}/resolve",
        name="operator_resolve_order",
        summary="End an order whose outcome nobody knows",
        description=(
            "For an order at `check_on_terminal`, ten minutes after it came there, when neither its terminal nor the"
            " acquirer says what became of it. Written into the audit trail with its reason. An approval that is told"
            " of later, of an order that was declined here, is a late one and is given back."
        ),
        surface="operator",
        handler=outcomes.resolve,
        body=ResolveRequest,
        answer=APPLICATIONS_ORDER,
        path_pattern=ORDER_ID_PATTERN,
        errors=(ORDER_NOT_FOUND, CANNOT_RESOLVE_ORDER),
    ),
    listing(
        "inquiries",
        outcomes.find_inquiries,
        response_schemas.INQUIRY,
        Query("open", {"type": "boolean"}, "Those alone that have no end yet."),
        OF_SELLER,
    ),
    listing(
        "reversals",
        outcomes.find_reversals,
        response_schemas.REVERSAL,
        Query("status", {"enum": list(outcomes.REVERSAL_STATUSES)}, "With this status only."),
        OF_SELLER,
    ),
    _REVERSAL.acting(
        "resolve",
        outcomes.resolve_reversal,
        "End a reversal that nobody confirms",
        body=ResolveReversalRequest,
        description=(
            "For a late approval that the acquirer can't be asked about, or does not confirm, from ten minutes after"
            " it came: `reversed` where it was given back otherwise, `not_found` where there is nothing to give back."
            " It is not tried any more. Written into the audit trail with its reason."
        ),
        errors=(CANNOT_RESOLVE_REVERSAL,),
    ),
    listing(
        "refunds",
        outcomes.find_refunds,
        response_schemas.REFUND,
        Query("status", {"enum": list(outcomes.REFUND_STATUSES)}, "With this status only."),
        OF_SELLER,
    ),
    listing("events", history.find_events, response_schemas.EVENT, key=("",)),
)
