"""The operations of `/virtual/v1`, and those of the page `/virtual/{terminal_id}` (development only)."""

from __future__ import annotations

from paydesk.core.errors import FORBIDDEN, IN_USE, NOT_FOUND, PROPERTY_VALUE, SELLER_NOT_FOUND, TOO_MANY_REQUESTS
from paydesk.engine.orders.operations import EXAMPLE as ORDER
from paydesk.engine.orders.presentation import OrderDocument
from paydesk.engine.terminals.errors import TERMINAL_NOT_FOUND
from paydesk.engine.terminals.schemas import TERMINAL_ID_PATTERN
from paydesk.platform.operation import WAIT, Operation, Query
from paydesk.platform.rows import Rows
from paydesk.platform.web import assets, html, live
from paydesk.platform.web.event_streams import EVENT_STREAM
from paydesk_dev.virtual.api import handlers
from paydesk_dev.virtual.api.schemas import (
    ActionForm,
    NewOrderRequest,
    NewTerminalRequest,
    OrderForm,
    VirtualActionRequest,
    VirtualScreen,
    VirtualTerminal,
    VirtualTerminals,
)
from paydesk_dev.virtual.errors import ACTION_NOT_POSSIBLE, TOO_MANY_TERMINALS
from paydesk_dev.virtual.page import handlers as page
from paydesk_dev.virtual.page import new_order

ID = "PAYDESK_VIRTUAL__C2AFE1BB4D93"

_EXAMPLE = VirtualTerminal(
    id=ID,
    terminal_id=ID,
    seller_id=1160535239,
    store_id=47792478,
    pos_id=47792476,
    operating_mode="PDV",
    script="manual",
    page_url=f"http://127.0.0.1:8377/virtual/{ID}?key=1-7f3a21c2afe1bb4d935e8a0c94d1b6f2",
)
_APPROVED = VirtualScreen(
    screen="approved",
    lines=["Approved", "R$ 24.90"],
    actions=[],
    permitted=True,
    order_id="ORD01J67CQQH5904WDBVZEM4JMEP3",
    status_detail="accredited",
    amount="24.90",
    currency="BRL",
    card="visa_approved",
    ends_date="2026-01-31T14:26:47.109Z",
)

_TERMINALS = Rows("virtual", "/virtual/v1/terminals", transaction="none", development=True, refuses_repeated=True)
_TERMINAL = _TERMINALS.below("/{terminal_id}", path_pattern=TERMINAL_ID_PATTERN)

_KEY = Query("key", {"type": "string"}, "The key of the page, from its address.", required=True)

_PAGE = Rows(
    "page",
    "/virtual/{terminal_id}",
    transaction="none",
    development=True,
    errors=(NOT_FOUND, TOO_MANY_REQUESTS),
)
_SHOWN = _PAGE.below(query=(_KEY,))
_FORMS = _PAGE.below(further_statuses=(204, 303), media_type=html.HTML, errors=(FORBIDDEN,))

PAGE_OPERATIONS: tuple[Operation, ...] = (
    _SHOWN.get(
        "",
        "virtual_page",
        page.show,
        media_type=html.HTML,
        description="`paydesk terminals list` prints the address with its key.",
    ),
    _SHOWN.get(
        "/events",
        "virtual_page_events",
        page.events,
        media_type=EVENT_STREAM,
        errors=(live.TOO_MANY_STREAMS,),
        description=(
            "Server-sent events. Each has the parts of the page that changed, and an id: a browser that comes back with"
            " it as `Last-Event-ID` gets what it lacks."
        ),
    ),
    _SHOWN.get("/paper/{number}", "virtual_page_paper", page.show_image, media_type="image/png"),
    _FORMS.post("/actions", "virtual_page_action", page.act, body=ActionForm, errors=(ACTION_NOT_POSSIBLE,)),
    _FORMS.post("/orders", "virtual_page_order", new_order.create, body=OrderForm, errors=new_order.ERRORS),
    *assets.operations("paydesk_dev.virtual.page", surface="page", development=True),
)

OPERATIONS: tuple[Operation, ...] = (
    _TERMINALS.post(
        "",
        "create_virtual_terminal",
        handlers.create,
        description=(
            "A private terminal at a point of sale of its own, which takes test orders at once. Its script is `manual`"
            " by default: it acknowledges an order and waits for a person on its page (`page_url`) or for a test"
            " that sends actions. A seller has at most 200; delete what is no longer used."
        ),
        status=201,
        answer=VirtualTerminal,
        example=_EXAMPLE,
        body=NewTerminalRequest,
        errors=(SELLER_NOT_FOUND, TOO_MANY_TERMINALS),
    ),
    _TERMINALS.get(
        "",
        "list_virtual_terminals",
        handlers.find_all,
        answer=VirtualTerminals,
        example=VirtualTerminals([_EXAMPLE]),
        query=(handlers.SELLER,),
        errors=(PROPERTY_VALUE, SELLER_NOT_FOUND),
    ),
    _TERMINAL.get(
        "/screen",
        "get_virtual_screen",
        handlers.show_screen,
        description=(
            "With `wait` and `until` the response is sent as soon as the terminal shows that screen, or after `wait`"
            " seconds with the screen that it shows then: compare `screen`. `authorizing` is shown once the terminal"
            " has the authorization permit, so from then on a cancel request has no effect. `until=permitted` waits for"
            " the permit whatever the screen is then: `authorizing`, or already the outcome."
        ),
        answer=VirtualScreen,
        example=_APPROVED,
        query=(WAIT, handlers.UNTIL),
        errors=(PROPERTY_VALUE, TERMINAL_NOT_FOUND),
    ),
    _TERMINAL.post(
        "/actions",
        "act_on_virtual_terminal",
        handlers.act,
        description=(
            "Does what a person would do: present a test card, type a PIN, press a key, pull the plug. The response has"
            " the screen after it. An action that the screen does not take changes nothing."
        ),
        answer=VirtualScreen,
        example=_APPROVED,
        body=VirtualActionRequest,
        errors=(TERMINAL_NOT_FOUND, ACTION_NOT_POSSIBLE),
    ),
    _TERMINAL.post(
        "/orders",
        "create_order_on_virtual_terminal",
        new_order.create_by_api,
        description=(
            "A test order under the rules of `POST /v1/orders`, without an idempotency key: while the terminal has a"
            " live order, a repeated request is refused. With an access token its application creates it, for an"
            " operator the application that the seller authorized first."
        ),
        status=201,
        answer=OrderDocument,
        example=ORDER,
        body=NewOrderRequest,
        errors=(TERMINAL_NOT_FOUND, *new_order.ERRORS),
    ),
    _TERMINAL.delete(
        "",
        "delete_virtual_terminal",
        handlers.delete,
        description=(
            "Its point of sale is deleted with it, if it was made for it. Its orders stay. A terminal with a live order"
            " or an open print action is refused, but for `cancel=true`, which cancels these first. If its order may be"
            " charging, nothing can cancel it: the terminal is gone from `/virtual/v1` at once, stays in the list of"
            " operators, switched off, and is deleted when its order has ended."
        ),
        status=204,
        query=(handlers.CANCEL,),
        errors=(PROPERTY_VALUE, TERMINAL_NOT_FOUND, IN_USE),
    ),
    *PAGE_OPERATIONS,
)
