"""Arguments and options of orders that several commands have, and what is made of them before they are sent.

The service judges most values. Refused here is only what it would read as something else, what cannot be sent, and
what is explained better here.
"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from paydesk.commands.client.failure import WrongUsage
from paydesk.core import ids

EXAMPLE_ORDER_ID = "ORD01J67CQQH5904WDBVZEM4JMEP3"


def amount(text: str | None) -> str | None:
    """Return the amount with a point instead of a decimal comma, as in the console."""
    return text.replace(",", ".") if text is not None and re.fullmatch("[0-9]+,[0-9]{1,2}", text) else text


def order_id(text: str | None) -> str | None:
    """Return the order's id in upper case. Raises `WrongUsage`."""
    if text is None or (text.isascii() and ids.ORDER_ID.fullmatch(text.upper())):
        return text and text.upper()
    raise WrongUsage(
        f"{text!r} is not the id of an order: ORD and 26 letters and digits, such as {EXAMPLE_ORDER_ID}.",
        "`paydesk orders list` shows the ids.",
    )


def idempotency_key(text: str | None) -> str | None:
    """Return the idempotency key. Raises `WrongUsage` for one that no header can have."""
    if text is None or re.fullmatch("[!-~]{1,64}", text):
        return text
    raise WrongUsage(f"{text!r} is not a key. Use 1 to 64 visible ASCII characters without spaces.")


def expiration(text: str | None) -> str | None:
    """Return the order's expiration as an ISO 8601 duration: `10m` is `PT10M`."""
    return f"PT{text.upper()}" if text is not None and re.fullmatch("[0-9]+[smh]", text) else text


Amount = Annotated[str, typer.Argument(help="The amount, such as 24.90.", callback=amount)]
OrderId = Annotated[str, typer.Argument(help="The order's id.", callback=order_id)]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="The idempotency key: a request that is repeated with it has no second effect. [default: a new UUID]",
        callback=idempotency_key,
    ),
]
Method = Annotated[str | None, typer.Option(metavar="TYPE", help="The payment method: credit_card, debit_card or qr.")]
Installments = Annotated[int | None, typer.Option(help="The number of installments, with credit_card.")]
Live = Annotated[bool, typer.Option("--live", help="Act with the live token. [default: with the test token]")]
