"""`paydesk pay`: a test payment on a virtual terminal, with each status change and webhook as it occurs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any

import typer

from paydesk.commands.client import (
    Credentials,
    Service,
    as_operator,
    find_credentials,
    given,
    refuse_other_service,
    segment,
)
from paydesk.commands.failure import Failure, WrongUsage
from paydesk.commands.options import AsJson, CredentialsFile, examples, note, show
from paydesk.commands.progress import OPEN, Order, Progress

EPILOG = examples(
    "paydesk pay 24.90",
    "paydesk pay 10 --terminal PAYDESK_VIRTUAL__7F3A21",
    "paydesk pay 10 --reference sale-0042 --json",
    "paydesk pay 10 --decline insufficient_amount",
)
POLL_INTERVAL_SECONDS = 0.1
INBOX_SECONDS_MAX = 5
"""How long the command waits, after the end of the order, for the webhooks to the demo inbox."""
VIRTUAL_TERMINALS = "/virtual/v1/terminals"


def pay(  # one parameter per option
    amount: Annotated[str, typer.Argument(help="The amount, such as 24.90.")],
    terminal: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The terminal. [default: the first in the credentials that needs no person]"),
    ] = None,
    *,
    script: Annotated[
        str | None, typer.Option(help="Pay on a new virtual terminal with this script, and delete it afterwards.")
    ] = None,
    decline: Annotated[
        str | None, typer.Option(metavar="DETAIL", help="The same as --script decline:DETAIL: the payment is declined.")
    ] = None,
    reference: Annotated[str | None, typer.Option(help="The order's external_reference.")] = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Make a payment on a virtual terminal and print each status change and webhook; exits 1 unless it is paid."""
    from rich.console import Console

    found = find_credentials(credentials)
    application = _as_application(found)
    progress = Progress(
        Console(soft_wrap=True, highlight=False, quiet=as_json), str(found.document.get("webhook", {}).get("url", ""))
    )
    if sum(option is not None for option in (terminal, script, decline)) > 1:
        raise WrongUsage("Give only one of --terminal, --script and --decline.")
    played = script if decline is None else f"decline:{decline}"
    with (
        _played_by(application, played)
        if played is not None
        else nullcontext(terminal or _first_terminal(found)) as used
    ):
        order = _create(application, amount, used, reference)
        progress.print_start(order)
        order = _watch(as_operator(found), order["id"], progress)
    if as_json:
        show(order, as_json=True)
    _conclude(order, progress.awaited(order))


def _as_application(credentials: Credentials) -> Service:
    token = credentials.document.get("test", {}).get("access_token")
    if not token:
        refuse_other_service(credentials)
        raise WrongUsage("The credentials have no test token. Use the file that `paydesk dev` writes.")
    return Service(credentials, token)


@contextmanager
def _played_by(application: Service, script: str) -> Iterator[str]:
    """Create a virtual terminal with this script and return its id; delete it when the block ends."""
    made = application.post(VIRTUAL_TERMINALS, {"script": script})["id"]
    try:
        yield made
    finally:
        try:
            application.request("DELETE", f"{VIRTUAL_TERMINALS}/{segment(made)}")
        except Failure as failure:
            note(f"The virtual terminal {made} was not deleted. {failure}")


def _create(application: Service, amount: str, terminal_id: str, reference: str | None) -> Any:
    return application.post(
        "/v1/orders",
        {
            "type": "point",
            "description": "paydesk pay",
            **given({"external_reference": reference}),
            "transactions": {"payments": [{"amount": amount}]},
            "config": {"point": {"terminal_id": terminal_id}},
        },
        {"X-Idempotency-Key": str(uuid.uuid4())},
    )


def _first_terminal(credentials: Credentials) -> str:
    """Return the id of the first terminal that needs no person."""
    terminals = credentials.document.get("terminals") or []
    if not terminals:
        raise WrongUsage("The credentials name no terminal. Add --terminal.")
    by_itself = [terminal for terminal in terminals if terminal.get("script") != "manual"]
    return str((by_itself or terminals)[0]["id"])


def _watch(operator: Service, order_id: str, progress: Progress) -> Order:
    """Print new lines until the order is final and the demo inbox has its webhooks, at most 5 s more; return it."""
    deadline: float | None = None
    while True:
        order: Order = operator.get(f"/operator/v1/orders/{order_id}")
        progress.print_new(order)
        if order["status"] not in OPEN:
            deadline = deadline or time.monotonic() + INBOX_SECONDS_MAX
            if time.monotonic() > deadline or not progress.awaited(order):
                return order
        time.sleep(POLL_INTERVAL_SECONDS)


def _conclude(order: Order, awaited: int) -> None:
    if order["status"] != "processed":
        detail = order["transactions"]["payments"][0]["status_detail"]
        raise Failure(f"The order ended as {order['status']}: {detail}.")
    if not order["deliveries"]:
        note("No webhook subscription matches this order.")
    elif awaited:
        note(
            f"The demo inbox has not received {awaited} of the webhooks within {INBOX_SECONDS_MAX} s. They are retried;"
            f" see `paydesk deliveries list --order {order['id']}`."
        )
