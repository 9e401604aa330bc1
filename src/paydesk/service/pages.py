"""The operations of the console: pages below `/console`, and the stream that keeps them up to date."""

from __future__ import annotations

from dataclasses import replace

from paydesk.console import (
    access,
    account,
    applications,
    attention_items,
    audit_rows,
    audit_trail,
    deliveries,
    development,
    live,
    operators,
    order,
    order_rows,
    orders,
    overview,
    pairing,
    recorded_requests,
    search,
    sellers,
    sent_elsewhere,
    terminal_looks,
    terminal_modes,
    terminals,
    webhook_looks,
    webhooks,
)
from paydesk.console.forms import forms
from paydesk.console.screen import OF_NOUNS, PACKAGE, nowhere, page
from paydesk.operation import Operation, Query
from paydesk.operators.operations import OPERATIONS as ROWS
from paydesk.operators.terminals import fields as terminal_fields
from paydesk.operators.user_agents import browser_of
from paydesk.web import assets

OF_NOUNS |= {"about_of": audit_rows.about_of, "values_of": audit_rows.values_of, "browser_of": browser_of}
OF_NOUNS |= {"page_of": terminal_looks.page_of, "presence_of": terminal_looks.presence_of}
OF_NOUNS |= {"place_of": terminal_fields.place_of, "serial_of": terminal_fields.serial_of}
OF_NOUNS |= {"taking_orders": terminal_fields.TAKING_ORDERS}
OF_NOUNS |= {"attention_items": attention_items, "order_rows": order_rows, "webhook_looks": webhook_looks}

_AFTER = Query("after", {"type": "string"}, "The id of the last message, as `Last-Event-ID`.")

OPERATIONS: tuple[Operation, ...] = (
    *access.OPERATIONS,
    *forms(ROWS),
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
    *operators.OPERATIONS,
    *audit_trail.OPERATIONS,
    *development.OPERATIONS,
    *recorded_requests.OPERATIONS,
    *webhooks.OPERATIONS,
    *deliveries.OPERATIONS,
    *sent_elsewhere.OPERATIONS,
    *assets.operations(PACKAGE, surface="console"),
)

NOWHERE = page("/nowhere", nowhere)
"""What answers at every other path below `/console`. It is in no table: a client cannot ask for it by a path."""
