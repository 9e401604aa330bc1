"""The operations of the console: pages below `/console`, and the stream that keeps them up to date."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from paydesk.console import live
from paydesk.console.screen import OF_NOUNS, PACKAGE, nowhere, page
from paydesk.operators.accounts import account
from paydesk.operators.accounts import page as operators
from paydesk.operators.acquirers import looks as acquirer_looks
from paydesk.operators.acquirers import page as acquirers
from paydesk.operators.applications import page as applications
from paydesk.operators.attention import items as attention_items
from paydesk.operators.audit_trail import page as audit_trail
from paydesk.operators.deliveries import page as deliveries
from paydesk.operators.forms import forms
from paydesk.operators.orders import list_page as orders
from paydesk.operators.orders import page as order
from paydesk.operators.orders import rows as order_rows
from paydesk.operators.overview import page as overview
from paydesk.operators.requests import page as recorded_requests
from paydesk.operators.search import page as search
from paydesk.operators.sellers import page as sellers
from paydesk.operators.sessions.user_agents import browser_of
from paydesk.operators.sign_in import operations as access
from paydesk.operators.subscriptions import looks as webhook_looks
from paydesk.operators.terminals import fields as terminal_fields
from paydesk.operators.terminals import looks as terminal_looks
from paydesk.operators.terminals import modes as terminal_modes
from paydesk.operators.terminals import page as terminals
from paydesk.operators.terminals import pairing_page as pairing
from paydesk.operators.webhooks import page as webhooks
from paydesk.platform.operation import Operation, Query
from paydesk.platform.web import assets, html
from paydesk.service import audit_rows

html.BESIDE[PACKAGE] = ("paydesk.operators",)
OF_NOUNS |= {"about_of": audit_rows.about_of, "values_of": audit_rows.values_of, "browser_of": browser_of}
OF_NOUNS |= {"page_of": terminal_looks.page_of, "presence_of": terminal_looks.presence_of}
OF_NOUNS |= {"place_of": terminal_fields.place_of, "serial_of": terminal_fields.serial_of}
OF_NOUNS |= {"taking_orders": terminal_fields.TAKING_ORDERS}
OF_NOUNS |= {"acquirer_looks": acquirer_looks}
OF_NOUNS |= {"attention_items": attention_items, "order_rows": order_rows, "webhook_looks": webhook_looks}

_AFTER = Query("after", {"type": "string"}, "The id of the last message, as `Last-Event-ID`.")

_SCREENS: tuple[Operation, ...] = (
    page("/events", live.events, query=(_AFTER,)),
    *overview.OPERATIONS,
    *search.OPERATIONS,
    page("/orders", orders.show),
    replace(page("/orders.csv", orders.export), media_type=orders.CSV),
    page("/orders/{order_id}", order.show),
    *terminal_modes.OPERATIONS,
    *terminals.OPERATIONS,
    *pairing.OPERATIONS,
    *account.OPERATIONS,
    *applications.OPERATIONS,
    *sellers.OPERATIONS,
    *acquirers.OPERATIONS,
    *operators.OPERATIONS,
    *audit_trail.OPERATIONS,
    *recorded_requests.OPERATIONS,
    *webhooks.OPERATIONS,
    *deliveries.OPERATIONS,
    *assets.operations(PACKAGE, surface="console"),
)


def operations(rows: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return the console's operations: its screens, and the forms of these rows, whose words the audit trail shows."""
    rows = tuple(rows)
    audit_rows.include(rows)
    return (*access.OPERATIONS, *forms(rows), *_SCREENS)


NOWHERE = page("/nowhere", nowhere)
"""What answers at every other path below `/console`. It is in no table: a client cannot ask for it by a path."""
