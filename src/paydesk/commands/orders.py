"""`paydesk orders`, `deliveries`, `inquiries`, `reversals`, `events`: what happened, and how to end what is open."""

from __future__ import annotations

import urllib.parse
from typing import Annotated

import typer

from paydesk.commands.client import operators
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, examples, group, show, show_list

app = group("Orders, with their history and notifications.")
deliveries = group("Notifications sent or to be sent.")
inquiries = group("Orders whose outcome nobody knows yet.")
reversals = group("Approvals that belong to no order, and are given back.")
events = group("What an operator should know about.")
DELIVERY_COLUMNS = ("id", "topic", "order_id", "client_id", "version", "status", "attempts", "next_date")


@app.command("get", epilog=examples("paydesk orders get ORD01J67CQQH5904WDBVZEM4JMEP3 --json"))
def get(
    order_id: Annotated[str, typer.Argument(help="The order's id.")],
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Show an order with every move it made and every notification of it."""
    show(operators(credentials).get(f"/operator/v1/orders/{order_id}"), as_json=as_json)


@app.command(
    "resolve",
    epilog=examples(
        "paydesk orders resolve ORD01J67CQQH5904WDBVZEM4JMEP3 --outcome declined --reason 'Not in the portal.'"
    ),
)
def resolve(
    order_id: Annotated[str, typer.Argument(help="The order's id.")],
    *,
    outcome: Annotated[str, typer.Option(help="approved or declined: what became of the payment.")],
    reason: Annotated[str, typer.Option(help="How you know; it is kept in the audit trail.")],
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """End an order whose outcome nobody knows, ten minutes after it came to `check_on_terminal`."""
    path = f"/operator/v1/orders/{urllib.parse.quote(order_id, safe='')}/resolve"
    show(operators(credentials).post(path, {"outcome": outcome, "reason": reason}), as_json=as_json)


@inquiries.command("list", epilog=examples("paydesk inquiries list", "paydesk inquiries list --all --json"))
def list_inquiries(
    *,
    every: Annotated[bool, typer.Option("--all", help="Those that have ended too.")] = False,
    seller: Annotated[str | None, typer.Option(metavar="USER_ID", help="Of this seller only.")] = None,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List orders whose outcome is unknown, and when the acquirer is asked next."""
    query = {"open": None if every else "true", "seller": seller, "limit": limit, "after": after}
    answer = operators(credentials).get("/operator/v1/inquiries", query)
    show_list(answer, ("order_id", "status", "outcome", "reason", "attempts", "next_date"), as_json=as_json)


@deliveries.command("list", epilog=examples("paydesk deliveries list --order ORD01J67CQQH5904WDBVZEM4JMEP3"))
def list_deliveries(
    order: Annotated[str | None, typer.Option(metavar="ORDER_ID", help="Of this order only.")] = None,
    status: Annotated[str | None, typer.Option(help="pending, delivered, exhausted, superseded or withdrawn.")] = None,
    *,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List notifications."""
    query = {"order": order, "status": status, "limit": limit, "after": after}
    answer = operators(credentials).get("/operator/v1/deliveries", query)
    show_list(answer, DELIVERY_COLUMNS, as_json=as_json)


@reversals.command("list", epilog=examples("paydesk reversals list", "paydesk reversals list --status pending"))
def list_reversals(
    status: Annotated[str | None, typer.Option(help="pending, reversed or not_found.")] = None,
    seller: Annotated[str | None, typer.Option(metavar="USER_ID", help="Of this seller only.")] = None,
    *,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List late approvals, and how far giving them back has come."""
    query = {"status": status, "seller": seller, "limit": limit, "after": after}
    answer = operators(credentials).get("/operator/v1/reversals", query)
    columns = ("id", "order_id", "status", "confirmed", "amount_minor", "reference_id", "attempts", "next_date")
    show_list(answer, columns, as_json=as_json)


@events.command("list", epilog=examples("paydesk events list --json"))
def list_events(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List what an operator should know about, oldest first."""
    answer = operators(credentials).get("/operator/v1/events", {"limit": limit, "after": after})
    show_list(answer, ("created_date", "kind", "subject", "message"), as_json=as_json)
