"""`paydesk orders`, `deliveries`, `reversals` and `events`: looking at what happened."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import operators
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, examples, group, show, show_list

app = group("Orders, with their history and notifications.")
deliveries = group("Notifications sent or to be sent.")
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


@reversals.command("list", epilog=examples("paydesk reversals list"))
def list_reversals(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List late approvals and what became of them."""
    answer = operators(credentials).get("/operator/v1/reversals", {"limit": limit, "after": after})
    show_list(answer, ("id", "order_id", "status", "amount_minor", "reference_id", "created_date"), as_json=as_json)


@events.command("list", epilog=examples("paydesk events list --json"))
def list_events(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List what an operator should know about, oldest first."""
    answer = operators(credentials).get("/operator/v1/events", {"limit": limit, "after": after})
    show_list(answer, ("created_date", "kind", "subject", "message"), as_json=as_json)
