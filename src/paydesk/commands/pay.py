"""`paydesk pay`: a test payment on a virtual terminal, with each status change and webhook as it occurs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paydesk.commands.client import Credentials, Service, as_operator, find_credentials
from paydesk.commands.failure import Failure, WrongUsage
from paydesk.commands.options import CredentialsFile, examples

if TYPE_CHECKING:
    from rich.console import Console

EPILOG = examples("paydesk pay 24.90", "paydesk pay 10 --terminal PAYDESK_VIRTUAL__7F3A21")
POLL_INTERVAL_SECONDS = 0.1
WEBHOOK_SECONDS_MAX = 30
OPEN = ("created", "at_terminal", "action_required")
STYLES = {"processed": "bold green", "failed": "bold red", "canceled": "yellow", "at_terminal": "cyan"}
MEANINGS = {
    ("created", "created"): "waiting for the terminal",
    ("at_terminal", "at_terminal"): "the terminal has the order",
    ("at_terminal", "check_on_terminal"): "outcome unknown, inquiry pending",
    ("processed", "processed"): "paid",
    ("action_required", "check_on_terminal"): "outcome unknown, inquiry pending",
    ("canceled", "expired"): "expired before payment",
    ("expired", "expired"): "expired before payment",
    ("canceled", "canceled"): "canceled",
}


def pay(
    amount: Annotated[str, typer.Argument(help="The amount, such as 24.90.")],
    terminal: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The terminal. [default: the first in the credentials that needs no person]"),
    ] = None,
    *,
    credentials: CredentialsFile = None,
) -> None:
    """Make a payment on a virtual terminal and print each status change and webhook; exits 1 unless it is paid."""
    from rich.console import Console

    found = find_credentials(credentials)
    operator = as_operator(found)
    console = Console(soft_wrap=True, highlight=False)
    order = _create(found, amount, terminal or _first_terminal(found))
    console.print(f"[bold]{order['id']}[/]  {order['total_amount']} {order['currency']}")
    _conclude(_watch(operator, order["id"], console))


def _create(credentials: Credentials, amount: str, terminal_id: str) -> Any:
    token = credentials.document.get("test", {}).get("access_token")
    if not token:
        raise WrongUsage("The credentials have no test token. Use the file that `paydesk dev` writes.")
    return Service(credentials, token).post(
        "/v1/orders",
        {
            "type": "point",
            "description": "paydesk pay",
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


def _watch(operator: Service, order_id: str, console: Console) -> Mapping[str, Any]:
    """Print new lines until the order is final, then until its webhooks end, at most 30 s more; return the order."""
    printed: set[str] = set()
    deadline: float | None = None
    while True:
        order: Mapping[str, Any] = operator.get(f"/operator/v1/orders/{order_id}")
        for when, key, line in sorted(_lines(order)):
            if key not in printed:
                printed.add(key)
                console.print(f"[dim]{when[11:23]}[/]  {line}")
        if order["status"] not in OPEN:
            deadline = deadline or time.monotonic() + WEBHOOK_SECONDS_MAX
            if time.monotonic() > deadline or all(delivery["status"] != "pending" for delivery in order["deliveries"]):
                return order
        time.sleep(POLL_INTERVAL_SECONDS)


def _lines(order: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the time, a unique key and the line of each status change and webhook."""
    for event in order["events"]:
        meaning = MEANINGS.get((event["status"], event["status_detail"]), event["payment_status_detail"])
        style = STYLES.get(event["status"], "bold")
        yield event["created_date"], f"event {event['version']}", f"[{style}]{event['status']:<12}[/] {meaning}"
    actions = {event["version"]: event["action"] for event in order["events"]}
    for delivery in order["deliveries"]:
        line = f"webhook {actions[delivery['version']]} {delivery['status']}"
        if delivery["status"] != "pending":
            yield delivery["ended_date"], f"webhook {delivery['id']}", f"{'':<12} [dim]{line}[/]"
        elif delivery["attempts"]:
            line = f"webhook {actions[delivery['version']]} not delivered, attempt {delivery['attempts']}"
            yield delivery["next_date"], f"{line} {delivery['id']}", f"{'':<12} [yellow]{line}[/]"


def _conclude(order: Mapping[str, Any]) -> None:
    if order["status"] != "processed":
        detail = order["transactions"]["payments"][0]["status_detail"]
        raise Failure(f"The order ended as {order['status']}: {detail}.")
    if not order["deliveries"]:
        typer.echo("No webhook subscription matches this order.", err=True)
