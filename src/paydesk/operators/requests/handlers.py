"""The last requests of applications and terminals, as they were recorded."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from paydesk.core import ids
from paydesk.core.response import Closed, Count, Time, named
from paydesk.engine.orders.search.query import TERMINAL_ID_PATTERN
from paydesk.operators import lists
from paydesk.operators.errors import REQUEST_NOT_FOUND
from paydesk.operators.words import Shown
from paydesk.platform.filters import Filters
from paydesk.platform.http.recording import store as recorded_store
from paydesk.platform.http.recording.recorder import RequestRecorder
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row

FIRST = "ZZZZ"
_COLUMNS = """entry_id request_id method path operation status duration_us application_id seller_id live
terminal_id order_id idempotency_key replayed error reason address user_agent created_ms application"""
STATUSES = {"2xx": (200, 299), "4xx": (400, 499), "5xx": (500, 599), "failed": (400, 599)}
ALL_STATUSES = (0, 999)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
REQUEST_ID_PATTERN = "^[A-Za-z0-9_-]{1,64}$"


class RecordedRequest(Closed, frozen=True, kw_only=True):
    """A request of an application or a terminal, and how it was answered."""

    entry_id: str
    request_id: Annotated[str, Meta(description="Its `X-Request-Id`.")]
    method: str
    path: Annotated[str, Meta(description="With its query; secrets are masked.")]
    status: int
    duration_ms: float
    created_date: Time
    address: str
    user_agent: str
    replayed: Annotated[bool, Meta(description="Whether the stored response of an earlier request was sent.")]
    operation: (
        Annotated[str, Meta(description="The `operationId` of the OpenAPI document, unless the path is unknown.")]
        | None
    ) = None
    application_id: str | None = None
    application: Annotated[str, Meta(description="The application's name.")] | None = None
    seller_id: int | None = None
    live_mode: bool | None = None
    terminal_id: str | None = None
    order_id: str | None = None
    idempotency_key: str | None = None
    error: Annotated[str, Meta(description="The code of the error.")] | None = None
    reason: Annotated[str, Meta(description="Why it was refused; the log has the same reason.")] | None = None


class InspectedRequest(RecordedRequest, frozen=True, kw_only=True):
    """A request with its bodies, which are recorded in development only."""

    request_body: (
        Annotated[str, Meta(description="In development; without values that may be card data or secrets.")] | None
    ) = None
    response_body: (
        Annotated[str, Meta(description="In development; without values that may be card data or secrets.")] | None
    ) = None


class RequestPage(lists.Page[RecordedRequest], frozen=True, kw_only=True):
    """A page of requests."""

    dropped: Annotated[Count, Meta(description="Requests that this process did not record, since it started.")]


async def find_all(call: Call, filters: Filters) -> Answer:
    """List the recorded requests, newest first."""
    order_id, request_id = filters.get("order", "").upper(), filters.get("request_id", "")
    seller_id, last = lists.sellers(filters)
    args = (
        order_id,
        request_id,
        int(filters.get("application", 0)),
        seller_id if seller_id == last else 0,
        filters.get("terminal", ""),
        filters.get("method", ""),
        *filters.get("status", ALL_STATUSES),
        filters.get("sender", ""),
    )
    sql = recorded_store.OF_ORDER if order_id else recorded_store.OF_ID if request_id else recorded_store.LIST
    page = await lists.page(call, filters, sql, (FIRST,), _present, *args)
    return Answer(200, RequestPage.of(page.body, dropped=call.shared.objects[RequestRecorder].dropped))


async def get(call: Call) -> Answer:
    """Get a recorded request, in development with its bodies."""
    row = await call.tx.one(recorded_store.GET, call.path)
    if row is None:
        raise REQUEST_NOT_FOUND.with_reason("unknown or deleted")
    *listed, request_body, response_body = row
    return Answer(200, InspectedRequest.of(_present(listed), request_body=request_body, response_body=response_body))


def _present(row: Row) -> RecordedRequest:
    one = named(_COLUMNS, row)
    return RecordedRequest.of(
        one,
        operation=one.operation or None,
        duration_ms=round(one.duration_us / 1000, 1),
        replayed=bool(one.replayed),
        application_id=str(one.application_id) if one.application_id else None,
        seller_id=one.seller_id or None,
        live_mode=None if one.live is None else bool(one.live),
    )


def _statuses(text: str) -> tuple[int, int]:
    if text in STATUSES:
        return STATUSES[text]
    if re.fullmatch("[1-5][0-9]{2}", text, re.ASCII):
        return int(text), int(text)
    raise ValueError(f"must be a status such as 404, or one of {', '.join(STATUSES)}")


PAGES = lists.Pages(
    RequestPage,
    find_all,
    (
        Query(
            "order",
            {"type": "string"},
            "Only requests about this order.",
            check=lists.id_of(ids.ORDER_ID, "must be an order's id, such as ORD01J67CQQH5904WDBVZEM4JMEP3"),
            shown=Shown("Order", metavar="ORDER_ID", checked="order_id"),
        ),
        Query(
            "request_id",
            {"type": "string", "pattern": REQUEST_ID_PATTERN},
            "Only requests with this id.",
            rule="must be 1 to 64 letters, digits, - or _",
            shown=Shown("X-Request-Id", option="--request-id", metavar="ID", help="Only those with this X-Request-Id."),
        ),
        lists.OF_APPLICATION,
        lists.OF_SELLER,
        Query(
            "terminal",
            {"type": "string", "pattern": TERMINAL_ID_PATTERN},
            "Only requests of this terminal itself.",
            rule="must be the id of a terminal",
            shown=Shown("Terminal", metavar="TERMINAL_ID"),
        ),
        Query(
            "method",
            {"enum": list(METHODS)},
            "Only requests with this method.",
            shown=Shown("Method", metavar="METHOD", help="GET, POST, PUT, PATCH or DELETE."),
        ),
        Query(
            "status",
            {"type": "string", "pattern": f"^({'|'.join(STATUSES)}|[1-5][0-9]{{2}})$"},
            f"Only responses with this status: a number, or one of {', '.join(STATUSES)}.",
            check=_statuses,
            shown=Shown("Status", help="A status such as 404, or one of 2xx, 4xx, 5xx, failed."),
        ),
        Query("sender", {"enum": ["applications", "terminals"]}, "Only requests of applications, or of terminals."),
        *lists.paging((FIRST,)),
    ),
    "Newest first: the last 10,000 of applications and terminals, for up to 7 days. Polls of terminals are left out,"
    " and under load some others: `dropped` counts them.",
)
