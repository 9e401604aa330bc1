"""`paydesk orders`, `deliveries`, `events`: what happened, and how to end an order whose outcome nobody knows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from paydesk.commands.client import operators, segment
from paydesk.commands.failure import Failure
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, OfSeller, examples, group, show, show_list

app = group("Orders, with their history and notifications.")
deliveries = group("Notifications sent or to be sent.")
events = group("What an operator should know about.")
ORDER_COLUMNS = ("id", "created_date", "kind", "status", "status_detail", "amount", "terminal", "external_reference")
ORDER_FIELDS = (*ORDER_COLUMNS, "seller", "description", "expiration_time", "version", "last_updated_date")
MOVE_COLUMNS = ("version", "created_date", "move", "status", "payment_status_detail", "action")
DELIVERY_COLUMNS = ("id", "topic", "order_id", "client_id", "version", "status", "attempts", "next_date")


@app.command("list", epilog=examples("paydesk orders list --status at_terminal", "paydesk orders list --json"))
def list_orders(
    seller: OfSeller = None,
    status: Annotated[str | None, typer.Option(help="With this status only, such as processed.")] = None,
    terminal: Annotated[str | None, typer.Option(metavar="ID", help="On this terminal only.")] = None,
    *,
    limit: Limit = 50,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List orders, the latest of each seller first."""
    query = {"seller": seller, "status": status, "terminal_id": terminal, "limit": limit, "after": after}
    _show_orders(operators(credentials).get("/operator/v1/orders", query), as_json=as_json)


@app.command("search", epilog=examples("paydesk orders search ext_ref_1234"))
def search(
    reference: Annotated[str, typer.Argument(help="The external_reference that the till gave the order.")],
    seller: OfSeller = None,
    *,
    limit: Limit = 50,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Find orders by the reference that they have at the till; exit code 1 where there is none."""
    query = {"external_reference": reference, "seller": seller, "limit": limit, "after": after}
    answer = operators(credentials).get("/operator/v1/orders", query)
    _show_orders(answer, as_json=as_json)
    if not answer["data"]:
        raise Failure(f"No order has the reference {reference}.")


@app.command("get", epilog=examples("paydesk orders get ORD01J67CQQH5904WDBVZEM4JMEP3 --json"))
def get(
    order_id: Annotated[str, typer.Argument(help="The order's id.")],
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Show an order with every move it made and every notification of it."""
    order = operators(credentials).get(f"/operator/v1/orders/{segment(order_id)}")
    if as_json:
        show(order, as_json=True)
        return
    payment = order["transactions"]["payments"][0]
    told = {name: value for name, value in _flat(order).items() if name in ORDER_FIELDS}
    show(told | {f"payment {name}": value for name, value in payment.items() if name != "amount"}, as_json=False)
    sys.stdout.write("\n")
    show_list({"data": order["events"]}, MOVE_COLUMNS, as_json=False)
    if order["deliveries"]:
        sys.stdout.write("\n")
        show_list({"data": order["deliveries"]}, DELIVERY_COLUMNS, as_json=False)


def _show_orders(answer: Mapping[str, Any], *, as_json: bool) -> None:
    rows = answer["data"] if as_json else list(map(_flat, answer["data"]))
    show_list({**answer, "data": rows}, ORDER_COLUMNS, as_json=as_json)


def _flat(order: Mapping[str, Any]) -> dict[str, Any]:
    """The order with what people look for at its top."""
    return {
        **order,
        "seller": order["user_id"],
        "amount": f"{order['total_amount']} {order['currency']}",
        "terminal": order["config"]["point"]["terminal_id"],
        "kind": "live" if order["live_mode"] else "test",
    }


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
    path = f"/operator/v1/orders/{segment(order_id)}/resolve"
    show(operators(credentials).post(path, {"outcome": outcome, "reason": reason}), as_json=as_json)


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


@events.command("list", epilog=examples("paydesk events list --json"))
def list_events(
    *, limit: Limit = 200, after: After = None, as_json: AsJson = False, credentials: CredentialsFile = None
) -> None:
    """List what an operator should know about, oldest first."""
    answer = operators(credentials).get("/operator/v1/events", {"limit": limit, "after": after})
    show_list(answer, ("created_date", "kind", "subject", "message"), as_json=as_json)
