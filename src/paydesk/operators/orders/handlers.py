"""Orders of all sellers, newest first, optionally filtered."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from paydesk.engine.orders.presentation import OrderDocument, order_document
from paydesk.engine.orders.schemas import EXTERNAL_REFERENCE_PATTERN
from paydesk.engine.orders.search.query import DATE, REFERENCE_RULE, TERMINAL_ID_PATTERN, TERMINAL_RULE, instant_of
from paydesk.engine.orders.status_labels import EXTENDED, Labels
from paydesk.operators import lists
from paydesk.operators.newest import BY_ID, DESCRIPTION, page
from paydesk.operators.orders.lists import ANY, CONDITIONS_OF_STATE, OrderFilters, order_of
from paydesk.operators.words import Shown
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row

LAST_DIGITS_PATTERN = "^[0-9]{4}$"
EMAIL_CHARACTERS_MAX = 254


def _email(text: str) -> str:
    if "@" not in text or len(text) > EMAIL_CHARACTERS_MAX or not text.isprintable():
        raise ValueError(f"must be an e-mail address of at most {EMAIL_CHARACTERS_MAX} characters")
    return text


FILTER_QUERY = (
    Query(
        "status",
        {"enum": list(EXTENDED.all)},
        "Only orders with this status. `expired` and `action_required` also select them without extended statuses.",
        shown=Shown("Status", help="Only orders with this status, such as processed."),
    ),
    Query(
        "state",
        {"enum": list(CONDITIONS_OF_STATE)},
        "Only orders in this state, which is finer than the status, such as `partially_refunded`. Not with `status`.",
        shown=Shown("State"),
    ),
    Query(
        "terminal_id",
        {"type": "string", "pattern": TERMINAL_ID_PATTERN},
        "Only orders on this terminal.",
        rule=TERMINAL_RULE,
        shown=Shown(
            "Terminal",
            "The id of a terminal or a part of it, or the name of its store or point of sale",
            option="--terminal",
            metavar="ID",
        ),
    ),
    Query(
        "external_reference",
        {"type": "string", "pattern": EXTERNAL_REFERENCE_PATTERN},
        "Only orders with this reference.",
        rule=REFERENCE_RULE,
        shown=Shown(
            "Reference",
            "The whole reference, in upper and lower case as it is",
            option="--reference",
            metavar="TEXT",
        ),
    ),
    Query(
        "last_digits",
        {"type": "string", "pattern": LAST_DIGITS_PATTERN, "examples": ["6351"]},
        "Only orders that a card with these last four digits paid, or tried to.",
        rule="must be the last four digits of a card",
        shown=Shown("Card", option="--card", metavar="DIGITS"),
    ),
    Query(
        "payer_email",
        {"type": "string", "maxLength": EMAIL_CHARACTERS_MAX},
        "Only orders with this payer's address, in upper or lower case.",
        check=_email,
        shown=Shown("Buyer's e-mail", option="--payer", metavar="EMAIL"),
    ),
    replace(
        lists.OF_APPLICATION,
        description="Only orders of this application.",
        rule="must be an application's client_id, a whole number",
    ),
    lists.of_live("orders"),
    Query(
        "since",
        DATE,
        "Only orders created at this time or later: RFC 3339, or a date, which starts at midnight UTC.",
        check=instant_of,
        shown=Shown("From (UTC)", metavar="TIME", widget="date"),
    ),
    Query(
        "until",
        DATE,
        "Only orders created at this time or earlier; a date includes its whole day.",
        check=instant_of,
        shown=Shown("To (UTC)", metavar="TIME", widget="date"),
    ),
    lists.OF_SELLER,
)


class ListedOrder(OrderDocument, frozen=True, kw_only=True):
    """An order as applications see it, with the last digits of its card, also of one that was declined."""

    last_digits: str | None = None


async def find_all(call: Call, filters: Filters) -> Answer:
    """List the orders, newest first."""
    labels, chosen = call.shared.objects[Labels], chosen_by(filters)
    statement, values = chosen.statement(labels, lists.after(filters, chosen.first))
    return await page(call, filters, statement, chosen.first, partial(present, labels), *values)


def chosen_by(filters: Filters) -> OrderFilters:
    """Return what to list. Adds the fault of filters that exclude each other."""
    if "status" in filters and "state" in filters:
        filters.fault("state", "must not be sent with status")
    (since, _), (_, until) = filters.get("since", (None, None)), filters.get("until", (None, None))
    texts = ("status", "state", "terminal_id", "external_reference", "last_digits", "payer_email")
    return OrderFilters(
        **{name: filters.get(name, "") for name in texts},
        application_id=int(filters.get("application", 0)),
        live=filters.get("live", ANY),
        since_ms=since,
        until_ms=until,
    )


def present(labels: Labels, row: Row) -> ListedOrder:
    """Return the document of a row with the columns `LISTED`."""
    order, last_digits = order_of(row)
    return ListedOrder.of(order_document(order, labels), last_digits=last_digits)


PAGES = lists.Pages(lists.Page[ListedOrder], find_all, (*FILTER_QUERY, *lists.paging(BY_ID)), DESCRIPTION)
