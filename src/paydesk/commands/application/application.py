"""The application of the credentials file as a client: its token, its first terminal, and the body of an order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paydesk.commands.client.client import Service, given
from paydesk.commands.client.credentials import Credentials
from paydesk.commands.client.credentials_file import unattended_terminal
from paydesk.commands.client.failure import WrongUsage

HINTS = {"not_found": "Check the address: it must be the one for applications (`listen`)."}
NOT_FOUND_AS_TEST = "If it is a live order, add --live."
VIRTUAL_TERMINALS = "/virtual/v1/terminals"
"""Where services for development have their virtual terminals."""


def as_application(credentials: Credentials, *, live: bool = False, hints: Mapping[str, str] | None = None) -> Service:
    """Return a client with the application's test or live token. Raises `WrongUsage` if there is none.

    `hints` are further ones, by the codes of the service's errors.
    """
    return Service(credentials, credentials.access_token(live=live), {**HINTS, **(hints or {})})


def order_client(credentials: Credentials, *, live: bool) -> Service:
    """Return the client for a command about one order that has the option --live."""
    return as_application(credentials, live=live, hints={} if live else {"order_not_found": NOT_FOUND_AS_TEST})


def terminal_of(credentials: Credentials, terminal: str | None) -> str:
    """Return the terminal that was given, else the first of the credentials that needs no person."""
    if terminal == "":
        raise WrongUsage("An id must not be empty.")
    chosen = terminal or unattended_terminal(credentials.document)
    if chosen is None:
        raise WrongUsage("The credentials name no terminal. Add --terminal.")
    return chosen


def order_request(
    amount: str,
    terminal_id: str,
    *,
    ticket_number: str | None = None,
    payment_method: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return the body that creates an order. `fields` are the order's own; what is None is left out."""
    return {
        "type": "point",
        **given(fields),
        "transactions": {"payments": [{"amount": amount}]},
        "config": {
            "point": {"terminal_id": terminal_id, **given({"ticket_number": ticket_number})},
            **given({"payment_method": given(payment_method or {}) or None}),
        },
    }
