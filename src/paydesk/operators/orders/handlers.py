"""Orders of all sellers, newest first, optionally filtered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from paydesk.core import ids
from paydesk.core.errors import PROPERTY_VALUE
from paydesk.operation import Answer, Call, Query
from paydesk.operators import lists
from paydesk.operators.newest import BY_ID, DESCRIPTION, page
from paydesk.operators.order_lists import ANY, CONDITIONS_OF_STATE, Filters, order_of
from paydesk.orders.presentation import OrderDocument, order_document
from paydesk.orders.schemas import EXTERNAL_REFERENCE_PATTERN
from paydesk.orders.searching import DATE, FILTERS, TERMINAL_ID_PATTERN, Check, instant_of
from paydesk.orders.status_labels import EXTENDED, Labels
from paydesk.storage.database import Row

LAST_DIGITS_PATTERN = "^[0-9]{4}$"
EMAIL_CHARACTERS_MAX = 254

_STATE = Query(
    "state",
    {"enum": list(CONDITIONS_OF_STATE)},
    "Only orders in this state, which is finer than the status, such as `partially_refunded`. Not with `status`.",
)
_LIVE = Query("live", {"type": "boolean"}, "Only live orders (`true`) or only test orders (`false`).")
FILTER_QUERY = (
    Query(
        "status",
        {"enum": list(EXTENDED.all)},
        "Only orders with this status. `expired` and `action_required` also select them without extended statuses.",
    ),
    _STATE,
    Query("terminal_id", {"type": "string", "pattern": TERMINAL_ID_PATTERN}, "Only orders on this terminal."),
    Query(
        "external_reference",
        {"type": "string", "pattern": EXTERNAL_REFERENCE_PATTERN},
        "Only orders with this reference.",
    ),
    Query(
        "last_digits",
        {"type": "string", "pattern": LAST_DIGITS_PATTERN, "examples": ["6351"]},
        "Only orders that a card with these last four digits paid, or tried to.",
    ),
    Query(
        "payer_email",
        {"type": "string", "maxLength": EMAIL_CHARACTERS_MAX},
        "Only orders with this payer's address, in upper or lower case.",
    ),
    Query("application", {"type": "string", "pattern": ids.NUMBER_PATTERN}, "Only orders of this application."),
    _LIVE,
    Query(
        "since", DATE, "Only orders created at this time or later: RFC 3339, or a date, which starts at midnight UTC."
    ),
    Query("until", DATE, "Only orders created at this time or earlier; a date includes its whole day."),
    lists.OF_SELLER,
)


class ListedOrder(OrderDocument, frozen=True, kw_only=True):
    """An order as applications see it, with the last digits of its card, also of one that was declined."""

    last_digits: str | None = None


async def find_all(call: Call) -> Answer:
    """List the orders, newest first."""
    labels, filters = call.shared.labels, filters_of(call.query)
    statement, values = filters.statement(labels, lists.after(call.query, filters.first))
    return await page(call, statement, filters.first, partial(present, labels), *values)


def filters_of(query: Mapping[str, str]) -> Filters:
    """Return the filters of a query. Raises `PROPERTY_VALUE` for an invalid one."""
    status = query.get("status", "")
    if status and status not in EXTENDED.all:
        raise PROPERTY_VALUE.with_reason("unknown status", f"'status' - must be one of {', '.join(EXTENDED.all)}")
    state = lists.choice(query, _STATE)
    if status and state:
        raise PROPERTY_VALUE.with_reason("status and state", "'state' - must not be sent with status")
    (since, _), (_, until) = _instants(query, "since"), _instants(query, "until")
    return Filters(
        status=status,
        state=state,
        terminal_id=_checked(query, "terminal_id", FILTERS["terminal_id"]),
        external_reference=_checked(query, "external_reference", FILTERS["external_reference"]),
        last_digits=_checked(query, "last_digits", _last_digits),
        payer_email=_checked(query, "payer_email", _email),
        application_id=int(_checked(query, "application", _application) or 0),
        live={"": ANY, "true": 1, "false": 0}[lists.choice(query, _LIVE)],
        since_ms=since,
        until_ms=until,
    )


def present(labels: Labels, row: Row) -> ListedOrder:
    """Return the document of a row with the columns `LISTED`."""
    order, last_digits = order_of(row)
    return ListedOrder.of(order_document(order, labels), last_digits=last_digits)


def _checked(query: Mapping[str, str], name: str, check: Check) -> str:
    """Return a parameter, or an empty text when it is absent. Raises `PROPERTY_VALUE`."""
    sent = query.get(name)
    try:
        return "" if sent is None else str(check(sent))
    except ValueError as error:
        raise PROPERTY_VALUE.with_reason(f"{name} is malformed", f"'{name}' - {error}") from None


def _instants(query: Mapping[str, str], name: str) -> tuple[int | None, int | None]:
    """Return the first and the last instant of a time or a date, None if it is absent. Raises `PROPERTY_VALUE`."""
    sent = query.get(name)
    if sent is None:
        return None, None
    try:
        return instant_of(sent)
    except ValueError as error:
        raise PROPERTY_VALUE.with_reason(f"{name} is malformed", f"'{name}' - {error}") from None


def _last_digits(text: str) -> str:
    if re.fullmatch(LAST_DIGITS_PATTERN, text, re.ASCII) is None:
        raise ValueError("must be the last four digits of a card")
    return text


def _email(text: str) -> str:
    if "@" not in text or len(text) > EMAIL_CHARACTERS_MAX or not text.isprintable():
        raise ValueError(f"must be an e-mail address of at most {EMAIL_CHARACTERS_MAX} characters")
    return text


def _application(text: str) -> str:
    if lists.id_in_path(text) < 0:
        raise ValueError("must be an application's client_id, a whole number")
    return text


PAGES = lists.Pages(lists.Page[ListedOrder], find_all, (*FILTER_QUERY, *lists.paging(BY_ID)), DESCRIPTION)
