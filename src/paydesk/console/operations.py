"""The operations of the console: pages below `/console`, and the stream that keeps them up to date."""

from __future__ import annotations

from dataclasses import replace

from paydesk.console import (
    access,
    account,
    applications,
    audit_trail,
    deliveries,
    development,
    live,
    operators,
    order,
    orders,
    overview,
    pairing,
    recorded_requests,
    root,
    search,
    sellers,
    sent_elsewhere,
    terminal_modes,
    terminals,
    webhooks,
)
from paydesk.console.forms import forms
from paydesk.console.screen import PACKAGE, nowhere, page
from paydesk.operation import Operation, Query
from paydesk.operators.operations import OPERATIONS as ROWS
from paydesk.web import assets

_EVENTS = (
    page(
        "/events",
        live.events,
        query=(Query("after", {"type": "string"}, "The id of the last message, as `Last-Event-ID`."),),
    ),
)

OPERATIONS: tuple[Operation, ...] = (
    *root.OPERATIONS,
    *forms(ROWS),
    *access.OPERATIONS,
    *_EVENTS,
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
