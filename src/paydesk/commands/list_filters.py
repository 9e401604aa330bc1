"""The options by which the list commands choose rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from paydesk.commands.options import OfSeller


def of_status(values: str) -> Any:
    """Return an option with these values."""
    return Annotated[str | None, typer.Option(help=values)]


SELLER: Mapping[str, Any] = {"seller": OfSeller}
OPEN = Annotated[
    bool | None,
    typer.Option("--all", help="Include inquiries that have ended.", callback=lambda value: None if value else "true"),
]
LIVE = Annotated[
    bool | None,
    typer.Option(
        "--live/--test",
        help="Only live orders, or only test orders.",
        callback=lambda value: None if value is None else str(value).lower(),
    ),
]
TIME = "RFC 3339, or a date, in UTC."
ORDER_FILTERS: Mapping[str, Any] = {
    **SELLER,
    "status": of_status("Only orders with this status, such as processed."),
    "state": of_status("Only orders in this state, which is finer than the status, such as partially_refunded."),
    "terminal_id": Annotated[
        str | None, typer.Option("--terminal", metavar="ID", help="Only orders on this terminal.")
    ],
    "external_reference": Annotated[
        str | None, typer.Option("--reference", metavar="TEXT", help="Only orders with this external_reference.")
    ],
    "last_digits": Annotated[
        str | None, typer.Option("--card", metavar="DIGITS", help="Only orders of a card with these last four digits.")
    ],
    "payer_email": Annotated[
        str | None, typer.Option("--payer", metavar="EMAIL", help="Only orders with this payer's address.")
    ],
    "application": Annotated[str | None, typer.Option(metavar="CLIENT_ID", help="Only orders of this application.")],
    "live": LIVE,
    "since": Annotated[str | None, typer.Option(metavar="TIME", help=f"Only those created from then on: {TIME}")],
    "until": Annotated[str | None, typer.Option(metavar="TIME", help=f"Only those created until then: {TIME}")],
}
"""The options of commands that select orders."""
