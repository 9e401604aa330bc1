"""`paydesk orders create` and `watch`: an application creates an order, and follows it to its end."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.application.application import (
    VIRTUAL_TERMINALS,
    as_application,
    order_client,
    order_request,
    terminal_of,
)
from paydesk.commands.application.progress import Order, Progress, refuse_unpaid, with_current_state
from paydesk.commands.client import checked
from paydesk.commands.client.checked import EXAMPLE_ORDER_ID, Amount, Installments, Key, Live, Method, OrderId
from paydesk.commands.client.client import operator_service, segment
from paydesk.commands.client.credentials import find_credentials
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, note, show
from paydesk.commands.nouns import orders
from paydesk.commands.nouns.orders import show_order

CREATE_EPILOG = examples(
    "paydesk orders create 24.90",
    "paydesk orders create 24.90 --reference sale-0042 --expires 10m --json",
    "paydesk orders create 120 --method credit_card --installments 3",
    "paydesk orders create 24.90 --as-operator --terminal PAYDESK_VIRTUAL__C2AFE1BB4D93",
    "paydesk orders create 24.90 --live --terminal NEWLAND_N950__N950NCB801293324 --key till-1-0042",
)
WATCH_EPILOG = examples(
    f"paydesk orders watch {EXAMPLE_ORDER_ID}",
    f"paydesk orders watch {EXAMPLE_ORDER_ID} --live --json",
)


@orders.app.command("create", epilog=CREATE_EPILOG)
def create(  # noqa: PLR0913 - one parameter for each option
    amount: Amount,
    *,
    terminal: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The terminal. [default: the first in the credentials that needs no person]"),
    ] = None,
    reference: Annotated[str | None, typer.Option(help="The order's external_reference.")] = None,
    description: Annotated[str | None, typer.Option(help="What is paid for.")] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="When it expires if it is not paid: 10m, 90s or PT10M from now. [default: the service's, 15m]",
            callback=checked.expiration,
        ),
    ] = None,
    method: Method = None,
    installments: Installments = None,
    ticket_number: Annotated[str | None, typer.Option(help="The number of the ticket, which is printed.")] = None,
    as_operator: Annotated[
        bool,
        typer.Option(
            "--as-operator",
            help=(
                "As an operator, for a virtual terminal of any seller. The application that the seller authorized first"
                " creates the order."
            ),
        ),
    ] = False,
    key: Key = None,
    live: Live = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Create an order for a terminal, as the application of the credentials file, and print it.

    If the response is lost, repeat the same command with the `--key` that it prints: the same order is returned.
    """
    if live and terminal is None:
        raise WrongUsage("The terminals of the credentials take test orders. Add --terminal with a live one.")
    found = find_credentials(credentials)
    if as_operator:
        others = (expires, method, installments, ticket_number, key, live or None)
        if any(option is not None for option in others):
            raise WrongUsage("With --as-operator, give only --terminal, --reference and --description.")
        fields = {"amount": amount, "description": description, "external_reference": reference}
        path = f"{VIRTUAL_TERMINALS}/{segment(terminal_of(found, terminal))}/orders"
        order = operator_service(credentials).post(path, fields)
    else:
        application = as_application(found, live=live)
        request = order_request(
            amount,
            terminal_of(found, terminal),
            external_reference=reference,
            description=description,
            expiration_time=expires,
            ticket_number=ticket_number,
            payment_method={"default_type": method, "default_installments": installments},
        )
        order = application.post_with_key("/v1/orders", request, key)
    show_order(order, as_json=as_json)
    if not as_json:
        note(f"To follow it: paydesk orders watch {order['id']}{' --live' if live else ''}")


@orders.app.command("watch", epilog=WATCH_EPILOG)
def watch(
    order_id: OrderId,
    *,
    live: Live = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Print each status change of an order until it ends; exits 0 if it is processed, else 1.

    Reads the order as the application of the credentials file, ten times a second, and after 30 s without a change
    twice a second. Ctrl-C ends the command, not the order.
    """
    from rich.console import Console

    application = order_client(find_credentials(credentials), live=live)
    progress = Progress(Console(soft_wrap=True, highlight=False, quiet=as_json), "")
    order = application.get(f"/v1/orders/{order_id}")

    def read() -> Order:
        nonlocal order
        order = application.get(f"/v1/orders/{order_id}")
        return with_current_state(order)

    progress.print_start(order)
    progress.follow(read)
    if as_json:
        show(order, as_json=True)
    refuse_unpaid(order)
