"""`paydesk pay`: a test payment on a virtual terminal, with each status change and webhook as it occurs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated

import typer

from paydesk.commands.application.application import VIRTUAL_TERMINALS, as_application, order_request, terminal_of
from paydesk.commands.application.progress import INBOX_SECONDS_MAX, Progress, refuse_unpaid
from paydesk.commands.client.checked import Amount
from paydesk.commands.client.client import Service, as_operator, segment
from paydesk.commands.client.credentials import find_credentials
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, note, show, top
from paydesk.core import ids

EPILOG = examples(
    "paydesk pay 24.90",
    "paydesk pay 10 --terminal PAYDESK_VIRTUAL__7F3A21",
    "paydesk pay 10 --reference sale-0042 --json",
    "paydesk pay 10 --decline insufficient_amount",
    "paydesk pay 10 --script approve:0.1s --quiet    # prints its id and status",
)


def checked_script(text: str | None) -> str | None:
    """Return the script of a virtual terminal. Raises `WrongUsage`, which names the details that it can have."""
    from paydesk_dev.virtual.scripts import playlists

    try:
        if text is not None:
            playlists.parse(text)
    except ValueError as error:
        raise WrongUsage(f"This is not a script of a virtual terminal: {error}.") from None
    return text


@top.command("pay", epilog=EPILOG)
def pay(
    amount: Amount,
    terminal: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The terminal. [default: the first in the credentials that needs no person]"),
    ] = None,
    *,
    script: Annotated[
        str | None,
        typer.Option(
            help="Pay on a new virtual terminal with this script, and delete it afterwards.", callback=checked_script
        ),
    ] = None,
    decline: Annotated[
        str | None, typer.Option(metavar="DETAIL", help="The same as --script decline:DETAIL: the payment is declined.")
    ] = None,
    reference: Annotated[str | None, typer.Option(help="The order's external_reference.")] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only the order's id and its final status, on one line.")
    ] = False,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Pay on a virtual terminal and print each status change and webhook; exits 1 unless it is paid."""
    from rich.console import Console

    if quiet and as_json:
        raise WrongUsage("Give only one of --quiet and --json.")
    if sum(option is not None for option in (terminal, script, decline)) > 1:
        raise WrongUsage("Give only one of --terminal, --script and --decline.")
    played = script if decline is None else checked_script(f"decline:{decline}")
    loaded = find_credentials(credentials)
    application, operator = as_application(loaded), as_operator(loaded)
    progress = Progress(
        Console(soft_wrap=True, highlight=False, quiet=as_json or quiet),
        str(loaded.document.get("webhook", {}).get("url", "")),
    )
    with _played_by(application, played) if played is not None else nullcontext(terminal_of(loaded, terminal)) as used:
        request = order_request(amount, used, description="paydesk pay", external_reference=reference)
        order = application.post("/v1/orders", request, {"X-Idempotency-Key": ids.uuid()})
        progress.print_start(order)
        path = f"/operator/v1/orders/{order['id']}"
        order = progress.follow(lambda: operator.get(path))
    if as_json:
        show(order, as_json=True)
    elif quiet:
        sys.stdout.write(f"{order['id']} {order['status']}\n")
    refuse_unpaid(order)
    if not order["deliveries"] and not quiet:
        note("No webhook subscription matches this order.")
    elif awaited := progress.awaited(order):
        note(
            f"The demo inbox has not received {awaited} of the webhooks within {INBOX_SECONDS_MAX} s. They are retried;"
            f" see `paydesk deliveries list --order {order['id']}`."
        )


@contextmanager
def _played_by(application: Service, script: str) -> Iterator[str]:
    """Create a virtual terminal with this script and return its id; delete it when the block ends."""
    terminal_id = application.post(VIRTUAL_TERMINALS, {"script": script})["id"]
    try:
        yield terminal_id
    finally:
        try:
            application.request("DELETE", f"{VIRTUAL_TERMINALS}/{segment(terminal_id)}")
        except Failure as failure:
            note(f"The virtual terminal {terminal_id} was not deleted. {failure}")
