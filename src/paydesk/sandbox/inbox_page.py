"""The demo inbox as a page: the newest notifications, each with its signature explained and its body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from paydesk.operation import Answer
from paydesk.sandbox import inbox
from paydesk.sandbox.store import InboxEntry
from paydesk.web import html, language

SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class ShownNotification:
    """A notification as the page has it. `fault`: why its signature is not valid; empty if it is."""

    received: datetime
    action: str
    order_id: str
    version: str
    fault: str
    body: str

    @classmethod
    def of(cls, entry: InboxEntry) -> ShownNotification:
        """Return the entry with the fields that its body has."""
        found = inbox.received(entry)
        fault = "" if entry.signature_valid else entry.signature_fault or "The reason was not stored."
        received = datetime.fromtimestamp(entry.received_ms / 1000, UTC)
        version = "" if found.version is None else str(found.version)
        return cls(received, found.action or "", found.order_id or "", version, fault, _indented(entry.body))


def is_wanted(accept: str) -> bool:
    """Return whether an `Accept` header names HTML, as those of browsers do."""
    return any(part.partition(";")[0].strip().lower() == "text/html" for part in accept.split(","))


def page(entries: Sequence[InboxEntry], count: int, host: str) -> Answer:
    """Return the page of the newest `entries` of `count`; `host` is the service's in the commands that it shows."""
    return html.page(
        "inbox.html",
        language.texts("en"),
        package="paydesk.sandbox",
        headers=(("vary", "accept"),),
        isolated=True,
        notifications=[ShownNotification.of(entry) for entry in entries],
        count=count,
        url=f"http://{host}{inbox.PATH}",
    )


def _indented(text: str) -> str:
    """Return JSON with line breaks, and any other text unchanged."""
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text
