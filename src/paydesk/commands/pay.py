"""`paydesk pay`: one test payment, and everything that happens to it, a line a step."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paydesk.commands.client import Credentials, Service, as_operator, find
from paydesk.commands.failure import Failure, WrongUsage
from paydesk.commands.options import CredentialsFile, examples

if TYPE_CHECKING:
    from rich.console import Console

EPILOG = examples("paydesk pay 24.90", "paydesk pay 10 --terminal PAYDESK_VIRTUAL__7F3A21")
POLL_INTERVAL_SECONDS = 0.1
WEBHOOK_SECONDS_MAX = 30
LIVE = ("created", "at_terminal", "action_required")
STYLES = {"processed": "bold green", "failed": "bold red", "canceled": "yellow", "at_terminal": "cyan"}
MEANINGS = {
    ("created", "created"): "waits for the terminal",
    ("at_terminal", "at_terminal"): "the terminal has taken it",
    ("at_terminal", "check_on_terminal"): "nobody knows the outcome yet",
    ("processed", "processed"): "paid",
    ("action_required", "check_on_terminal"): "nobody knows the outcome yet",
    ("canceled", "expired"): "its time ran out",
    ("expired", "expired"): "its time ran out",
    ("canceled", "canceled"): "canceled",
}


def pay(
    amount: Annotated[str, typer.Argument(help="How much, such as 24.90.")],
    terminal: Annotated[
        str | None, typer.Option(metavar="ID", help="Which terminal. [default: the first of the credentials]")
    ] = None,
    *,
    credentials: CredentialsFile = None,
) -> None:
    """Pay at a virtual terminal, and watch: the order's moves and its webhooks, a line each."""
    from rich.console import Console

    known = find(credentials)
    operator = as_operator(known)
    console = Console(soft_wrap=True, highlight=False)
    order = _create(known, amount, terminal or _first_terminal(known))
    console.print(f"[bold]{order['id']}[/]  {order['total_amount']} {order['currency']}")
    _conclude(_watch(operator, order["id"], console))


def _create(known: Credentials, amount: str, terminal_id: str) -> Any:
    token = known.document.get("test", {}).get("access_token")
    if not token:
        raise WrongUsage("The credentials have no test token; `paydesk dev` writes one.")
    return Service(known.base_url, token).post(
        "/v1/orders",
        {
            "type": "point",
            "description": "paydesk pay",
            "transactions": {"payments": [{"amount": amount}]},
            "config": {"point": {"terminal_id": terminal_id}},
        },
        {"X-Idempotency-Key": str(uuid.uuid4())},
    )


def _first_terminal(known: Credentials) -> str:
    terminals = known.document.get("terminals") or []
    if not terminals:
        raise WrongUsage("The credentials name no terminal: say --terminal.")
    return str(terminals[0]["id"])


def _watch(operator: Service, order_id: str, console: Console) -> Mapping[str, Any]:
    """Print what is new until the order is final and its webhooks are sent; the order as it stands then."""
    seen: set[str] = set()
    told_until: float | None = None
    while True:
        order: Mapping[str, Any] = operator.get(f"/operator/v1/orders/{order_id}")
        for when, key, line in sorted(_lines(order)):
            if key not in seen:
                seen.add(key)
                console.print(f"[dim]{when[11:23]}[/]  {line}")
        if order["status"] not in LIVE:
            told_until = told_until or time.monotonic() + WEBHOOK_SECONDS_MAX
            if time.monotonic() > told_until or all(sent["status"] != "pending" for sent in order["deliveries"]):
                return order
        time.sleep(POLL_INTERVAL_SECONDS)


def _lines(order: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What happened so far: when, a key of its own, and the line that tells of it."""
    for event in order["events"]:
        meaning = MEANINGS.get((event["status"], event["status_detail"]), event["payment_status_detail"])
        style = STYLES.get(event["status"], "bold")
        yield event["created_date"], f"event {event['version']}", f"[{style}]{event['status']:<12}[/] {meaning}"
    actions = {event["version"]: event["action"] for event in order["events"]}
    for sent in order["deliveries"]:
        told = f"webhook {actions[sent['version']]} {sent['status']}"
        if sent["status"] != "pending":
            yield sent["ended_date"], f"webhook {sent['id']}", f"{'':<12} [dim]{told}[/]"
        elif sent["attempts"]:
            again = f"webhook {actions[sent['version']]} not delivered, attempt {sent['attempts']}"
            yield sent["next_date"], f"{again} {sent['id']}", f"{'':<12} [yellow]{again}[/]"


def _conclude(order: Mapping[str, Any]) -> None:
    if order["status"] != "processed":
        detail = order["transactions"]["payments"][0]["status_detail"]
        raise Failure(f"The order ended as {order['status']}: {detail}.")
    if not order["deliveries"]:
        typer.echo("No subscription hears of this order.", err=True)
