"""How terminals are shown: presence, modes and kinds in words, and a terminal as a row of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from paydesk.web import statuses
from paydesk.web.statuses import Look

Document = Mapping[str, Any]

PRESENCES: Mapping[str, Look] = {
    "online": Look("ok", "check", "Online"),
    "degraded": Look("look", "triangle", "Degraded"),
    "offline": Look("bad", "wifi-off", "Offline"),
}
"""By `presence`."""
MODES: Mapping[str, str] = {
    "PDV": "takes orders; one terminal at a point of sale",
    "SELF_SERVICE": "takes orders; several terminals at a point of sale",
    "STANDALONE": "takes no orders: amounts are typed at the terminal",
}
"""The modes that can be set: what they mean."""
KINDS: Mapping[str, str] = {
    "terminal": "The terminal requests authorization",
    "service": "Paydesk requests authorization",
}
TAKING_ORDERS = ("PDV", "SELF_SERVICE")
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


def row_of(terminal: Document) -> TerminalRow:
    """Return the row of a terminal of the list."""
    model, _, serial = terminal["id"].partition("__")
    order = terminal.get("current_order")
    return TerminalRow(
        id=terminal["id"],
        model=model,
        serial=serial,
        is_active=terminal["status"] == "active",
        presence=PRESENCES[terminal["presence"]] if terminal["status"] == "active" else INACTIVE,
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


def place_of(terminal: Document) -> str:
    """Return the store and the point of sale, of which one is named after the terminal itself."""
    if terminal["pos_name"] == terminal["id"]:
        return str(terminal["store_name"])
    return f"{terminal['store_name']}, {terminal['pos_name']}"


def page_of(terminal: Document) -> str:
    """Return the path of a virtual terminal's page with its key; empty for others and for roles that only read."""
    found = urlsplit(terminal.get("page_url", ""))
    return f"{found.path}?{found.query}" if found.path else ""
