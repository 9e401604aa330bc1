"""The operations of the page of a virtual terminal, `/virtual/{terminal_id}` (development only)."""

from __future__ import annotations

from paydesk.core.errors import FORBIDDEN, NOT_FOUND, TOO_MANY_REQUESTS
from paydesk.operation import Operation, Query
from paydesk.rows import Rows
from paydesk.sandbox.virtual import new_order, page
from paydesk.sandbox.virtual.errors import ACTION_NOT_POSSIBLE
from paydesk.sandbox.virtual.page_forms import ActionForm, OrderForm
from paydesk.web import assets, html, live
from paydesk.web.event_streams import EVENT_STREAM

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

OPERATIONS: tuple[Operation, ...] = (
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
    *assets.operations("paydesk.sandbox.virtual", surface="page", development=True),
)
