"""The operators' part of the interface, one row an endpoint."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from paydesk.errors import PROPERTY_VALUE, ErrorKind
from paydesk.ids import ORDER_ID_PATTERN
from paydesk.operation import Handler, Operation, Query
from paydesk.operators import applications, codes, history, places, sellers, shapes, subscriptions, terminals
from paydesk.operators.errors import (
    APPLICATION_NOT_FOUND,
    EMAIL_TAKEN,
    EXTERNAL_POS_ID_TAKEN,
    POS_NOT_FOUND,
    POS_TAKEN,
    SELLER_NOT_FOUND,
    STORE_NOT_FOUND,
)
from paydesk.operators.lists import OF_SELLER, PAGING
from paydesk.operators.schemas import (
    ApplicationRequest,
    CodeRequest,
    PosRequest,
    SellerRequest,
    StoreRequest,
    SubscriptionRequest,
    TerminalRequest,
)
from paydesk.orders.errors import ORDER_NOT_FOUND

Kinds = tuple[ErrorKind, ...]
BASE = "/operator/v1"


def _list(noun: str, handler: Handler, item: dict[str, Any], *query: Query, errors: Kinds = ()) -> Operation:
    return Operation(
        method="GET",
        path=f"{BASE}/{noun}",
        name=f"operator_list_{noun}",
        summary=f"List {noun}",
        surface="operator",
        handler=handler,
        answer=shapes.list_of(item),
        transaction="heavy",
        query=(*query, *PAGING),
        errors=(PROPERTY_VALUE, *errors),
    )


def _create(noun: str, handler: Handler, body: type[BaseModel], answer: dict[str, Any], **more: Any) -> Operation:
    return Operation(
        method="POST",
        path=f"{BASE}/{noun}",
        name=f"operator_create_{noun}",
        summary=more.pop("summary"),
        surface="operator",
        handler=handler,
        status=201,
        answer=answer,
        body=body,
        errors=tuple(more.pop("errors", ())),
        **more,
    )


OPERATIONS = (
    _list("applications", applications.find_all, shapes.APPLICATION),
    _create(
        "applications",
        applications.create,
        ApplicationRequest,
        shapes.NEW_APPLICATION,
        summary="Register an application",
        description="The secret is in this answer and nowhere else.",
    ),
    _list("sellers", sellers.find_all, shapes.SELLER),
    _create(
        "sellers",
        sellers.create,
        SellerRequest,
        shapes.NEW_SELLER,
        summary="Register a seller",
        description="Without a password one is made, which is in this answer and nowhere else.",
        transaction="none",
        errors=(EMAIL_TAKEN,),
    ),
    _list("stores", places.find_stores, shapes.STORE, OF_SELLER),
    _create(
        "stores",
        places.create_store,
        StoreRequest,
        shapes.STORE,
        summary="Add a store",
        errors=(SELLER_NOT_FOUND,),
    ),
    _list("pos", places.find_pos, shapes.POS, OF_SELLER),
    _create(
        "pos",
        places.create_pos,
        PosRequest,
        shapes.POS,
        summary="Add a point of sale",
        errors=(STORE_NOT_FOUND, EXTERNAL_POS_ID_TAKEN),
    ),
    _list("terminals", terminals.find_all, shapes.TERMINAL, OF_SELLER),
    _create(
        "terminals",
        terminals.create,
        TerminalRequest,
        shapes.NEW_TERMINAL,
        summary="Add a virtual terminal",
        description="It takes test orders at once, at a new point of sale of its own unless one is named.",
        transaction="none",
        development=True,
        errors=(SELLER_NOT_FOUND, POS_NOT_FOUND, POS_TAKEN),
    ),
    _list("subscriptions", subscriptions.find_all, shapes.SUBSCRIPTION),
    _create(
        "subscriptions",
        subscriptions.create,
        SubscriptionRequest,
        shapes.NEW_SUBSCRIPTION,
        summary="Subscribe an application",
        description="The secret that signs its notifications is in this answer and nowhere else.",
        transaction="none",
        errors=(APPLICATION_NOT_FOUND,),
    ),
    _create(
        "codes",
        codes.create,
        CodeRequest,
        shapes.CODE,
        summary="Mint an authorization code",
        description="As if the seller had just agreed.",
        development=True,
        errors=(APPLICATION_NOT_FOUND, SELLER_NOT_FOUND),
    ),
    Operation(
        method="GET",
        path=f"{BASE}/orders/{{order_id}}",
        name="inspect_order",
        summary="An order with its moves and notifications",
        surface="operator",
        handler=history.get_order,
        answer=shapes.ORDER,
        transaction="heavy",
        path_pattern=ORDER_ID_PATTERN,
        errors=(ORDER_NOT_FOUND,),
    ),
    _list(
        "deliveries",
        history.find_deliveries,
        shapes.DELIVERY,
        Query("order", {"type": "string"}, "Of this order only, all at once."),
        Query("status", {"enum": list(history.DELIVERY_STATUSES)}, "With this status only."),
        OF_SELLER,
        errors=(ORDER_NOT_FOUND,),
    ),
    _list("reversals", history.find_reversals, shapes.REVERSAL, OF_SELLER),
    _list("events", history.find_events, shapes.EVENT),
)
