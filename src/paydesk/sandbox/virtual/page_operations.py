"""The operations of the page of a virtual terminal, `/virtual/{terminal_id}` (development only)."""

from __future__ import annotations

from functools import partial

from paydesk.core.errors import FORBIDDEN, NOT_FOUND, TOO_MANY_REQUESTS
from paydesk.operation import Operation, Query
from paydesk.sandbox.virtual import new_order, page
from paydesk.sandbox.virtual.errors import ACTION_NOT_POSSIBLE
from paydesk.sandbox.virtual.page_forms import ActionForm, OrderForm
from paydesk.web import assets, html, live
from paydesk.web.event_streams import EVENT_STREAM

PATH = "/virtual/{terminal_id}"
_KEY = Query("key", {"type": "string"}, "The key of the page, from its address.", required=True)
_ACCESS = (NOT_FOUND, TOO_MANY_REQUESTS)

_page = partial(Operation, surface="page", transaction="none", development=True)
_shown = partial(_page, method="GET", query=(_KEY,))
_form = partial(_page, method="POST", further_statuses=(204, 303), media_type=html.HTML)

OPERATIONS: tuple[Operation, ...] = (
    _shown(
        path=PATH,
        name="virtual_page",
        summary="Show a virtual terminal",
        handler=page.show,
        media_type=html.HTML,
        errors=_ACCESS,
        description="`paydesk terminals list` prints the address with its key.",
    ),
    _shown(
        path=f"{PATH}/events",
        name="virtual_page_events",
        summary="Stream what changes on the page",
        handler=page.events,
        media_type=EVENT_STREAM,
        errors=(*_ACCESS, live.TOO_MANY_STREAMS),
        description=(
            "Server-sent events. Each has the parts of the page that changed, and an id: a browser that comes back with"
            " it as `Last-Event-ID` gets what it lacks."
        ),
    ),
    _shown(
        path=f"{PATH}/paper/{{number}}",
        name="virtual_page_paper",
        summary="Return the image that the terminal printed",
        handler=page.show_image,
        media_type="image/png",
        errors=_ACCESS,
    ),
    _form(
        path=f"{PATH}/actions",
        name="virtual_page_action",
        summary="Do something at the virtual terminal",
        handler=page.act,
        body=ActionForm,
        errors=(*_ACCESS, FORBIDDEN, ACTION_NOT_POSSIBLE),
    ),
    _form(
        path=f"{PATH}/orders",
        name="virtual_page_order",
        summary="Create a test order for the virtual terminal",
        handler=new_order.create,
        body=OrderForm,
        errors=(*_ACCESS, FORBIDDEN, *new_order.ERRORS),
    ),
    *assets.operations("paydesk.sandbox.virtual", surface="page", development=True),
)
