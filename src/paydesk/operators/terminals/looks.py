"""The look of terminals: their presence and kinds in words, and their pages."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from paydesk.console.statuses import Look
from paydesk.operators.orders.reasons import Document

PRESENCES: Mapping[str, Look] = {
    "online": Look("ok", "check", "Online"),
    "degraded": Look("look", "triangle", "Degraded"),
    "offline": Look("bad", "wifi-off", "Offline"),
}
"""The look of a terminal by `presence`."""
KINDS: Mapping[str, str] = {
    "terminal": "The terminal requests authorization",
    "service": "Paydesk requests authorization",
}
INACTIVE = Look("bad", "cross", "Inactive")
"""The look of a terminal without a valid device token, whenever it was seen."""


def presence_of(terminal: Document) -> Look:
    """Return how the presence of a terminal is shown."""
    return PRESENCES[terminal["presence"]] if terminal["status"] == "active" else INACTIVE


def page_of(terminal: Document) -> str:
    """Return the path of a virtual terminal's page with its key; empty for others and for roles that only read."""
    url = urlsplit(terminal.get("page_url", ""))
    return f"{url.path}?{url.query}" if url.path else ""
