"""How terminals are shown: presence and kinds in words, and a terminal as a row of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from paydesk.operators.terminals.fields import TAKING_ORDERS, place_of
from paydesk.web import statuses
from paydesk.web.statuses import Look

Document = Mapping[str, Any]

PRESENCES: Mapping[str, Look] = {
    "online": Look("ok", "check", "Online"),
    "degraded": Look("look", "triangle", "Degraded"),
    "offline": Look("bad", "wifi-off", "Offline"),
}
"""By `presence`."""
KINDS: Mapping[str, str] = {
    "terminal": "The terminal requests authorization",
    "service": "Paydesk requests authorization",
}
RELEASABLE = ("acknowledgement", "payment", "cancel_answer", "fetch", "printing")
"""What an order or print action waits for while its terminal can be released: no card can have been charged."""

INACTIVE = Look("bad", "cross", "Inactive")
"""How a terminal without a valid device token is shown, whenever it was seen."""


@dataclass(frozen=True, slots=True)
class TerminalRow:
    """One row."""

    id: str
    model: str
    serial: str
    is_active: bool
    presence: Look
    mode: str
    takes_orders: bool
    order: Document | None
    order_look: Look | None
    print_id: str
    place: str
    seller: str
    last_seen_date: str | None
    version: str
    live_mode: bool
    page: str


def presence_of(terminal: Document) -> Look:
    """Return how the presence of a terminal is shown."""
    return PRESENCES[terminal["presence"]] if terminal["status"] == "active" else INACTIVE


def row_of(terminal: Document) -> TerminalRow:
    """Return the row of a terminal of the list."""
    model, _, serial = terminal["id"].partition("__")
    order = terminal.get("current_order")
    return TerminalRow(
        id=terminal["id"],
        model=model,
        serial=serial,
        is_active=terminal["status"] == "active",
        presence=presence_of(terminal),
        mode=terminal["operating_mode"],
        takes_orders=terminal["operating_mode"] in TAKING_ORDERS,
        order=order,
        order_look=None if order is None else statuses.order_look(order["status"]),
        print_id=terminal.get("current_print", ""),
        place=place_of(terminal),
        seller=terminal["seller_name"],
        last_seen_date=terminal.get("last_seen_date"),
        version=terminal.get("app_version", ""),
        live_mode=terminal["live_mode"],
        page=page_of(terminal),
    )


def page_of(terminal: Document) -> str:
    """Return the path of a virtual terminal's page with its key; empty for others and for roles that only read."""
    found = urlsplit(terminal.get("page_url", ""))
    return f"{found.path}?{found.query}" if found.path else ""
