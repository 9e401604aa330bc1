"""`paydesk orders`, `events`, `inquiries`, `reversals`, `refunds`, `confirmations`: orders and what follows them."""

from __future__ import annotations

import sys
from inspect import Parameter
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import typer

from paydesk.commands.client.checked import OrderId
from paydesk.commands.client.client import Answer, Service, given
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import After, Limit, OfSeller, group, harmless_json, show, show_list
from paydesk.commands.tables.cells import flat_order
from paydesk.commands.tables.rows import AS_JSON, add_rows, row_of, show_page, with_options
from paydesk.core.money import spelled

app = add_rows(group("Orders, with their history and notifications."), "orders")
events = add_rows(group("Operator events: what needs an operator's attention."), "events")
inquiries = add_rows(group("Orders whose outcome is unknown."), "inquiries")
reversals = add_rows(group("Reversals of late approvals."), "reversals")
refunds = add_rows(group("Full and partial refunds."), "refunds")
confirmations = add_rows(group("Confirmations of provisional approvals."), "confirmations")
LIST = row_of("orders list")
DETAILS = (
    *LIST["columns"],
    *("status_detail", "seller", "description", "expiration_time", "version", "last_updated_date"),
)
MOVE_COLUMNS = ("version", "created_date", "move", "status", "payment_status_detail", "action")
REFUND_COLUMNS = ("id", "amount", "status", "by", "waits_for")
CONFIRMATION_COLUMNS = ("status", "attempts", "decide_by_date", "deadline_date", "next_date", "resolution")
CHANGE_COLUMNS = ("date", "action", "outcome", "by")

FORMAT = Parameter(
    "format_",
    Parameter.KEYWORD_ONLY,
    annotation=Annotated[
        Literal["csv", "jsonl"],
        typer.Option(
            "--format", help="csv, for spreadsheets, or jsonl: a JSON object per line, with unchanged values."
        ),
    ],
    default="csv",
)
EXPORT_TYPES = {"csv": "text/csv", "jsonl": "application/jsonl"}


def show_order(order: Answer, *, as_json: bool) -> None:
    """Print an order's fields and those of its payment, or all of it as JSON."""
    if as_json:
        show(order, as_json=True)
        return
    payment = order["transactions"]["payments"][0]
    details = {name: value for name, value in flat_order(order).items() if name in DETAILS}
    details |= order.get("times", {})
    show(details | {f"payment {name}": value for name, value in payment.items() if name != "amount"}, as_json=False)


@command(app, "search", "paydesk orders search ext_ref_1234")
def search(
    service: Service,
    reference: Annotated[str, typer.Argument(help="The order's external_reference.")],
    seller: OfSeller = None,
    limit: Limit = 50,
    after: After = None,
    *,
    as_json: bool,
) -> None:
    """Find orders by external_reference; exits 1 if there are none."""
    query = {"external_reference": reference, "seller": seller, "limit": limit, "after": after}
    if not show_page(service, LIST, query, as_json=as_json):
        raise Failure(f"No order has the reference {reference}.")


@command(app, "get", "paydesk orders get ORD01J67CQQH5904WDBVZEM4JMEP3 --json")
def get(service: Service, order_id: OrderId, *, as_json: bool) -> None:
    """Show an order with all its status changes, refunds, changes by operators and notifications."""
    order = service.get(f"/operator/v1/orders/{order_id}")
    show_order(order, as_json=as_json)
    if as_json:
        return
    changes = []
    for one in order["changes"]:
        operator, reason = one.get("operator", one["operator_id"]), one.get("reason")
        changes.append({**one, "by": f"{operator}: {reason}" if reason else operator})
    by = {one.get("refund_id"): one["by"] for one in changes}
    refunded = [
        {**one, "amount": spelled(one["amount"], order["currency"]), "by": by.get(one["id"], "application")}
        for one in order["order_refunds"]
    ]
    for rows, columns in (
        (order["events"], MOVE_COLUMNS),
        ([order["confirmation"]] if "confirmation" in order else (), CONFIRMATION_COLUMNS),
        (refunded, REFUND_COLUMNS),
        ([one for one in changes if "refund_id" not in one], CHANGE_COLUMNS),
        (order["deliveries"], row_of("deliveries list")["columns"]),
    ):
        if rows:
            sys.stdout.write("\n")
            show_list({"data": rows}, columns, as_json=False)


def export(service: Service, *, format_: str, as_json: bool, **query: Any) -> None:
    """Write orders as CSV or JSON lines to standard output, newest first."""
    if as_json:
        raise WrongUsage("The export is CSV, or JSON lines: --format jsonl")
    address: str | None = f"/operator/v1/exports/orders?{urlencode(given({'format': format_, **query}))}"
    is_first = True
    while address is not None:
        content, address = service.download(address, EXPORT_TYPES[format_])
        text = content.decode()
        if format_ == "jsonl":
            text = harmless_json(text)
        elif not is_first:
            # Each part begins with the header.
            text = text.partition("\r\n")[2]
        sys.stdout.write(text)
        is_first = False


command(
    app,
    "export",
    "paydesk orders export > orders.csv",
    "paydesk orders export --since 2026-01-01 --until 2026-01-31 --status processed > january.csv",
    "paydesk orders export --format jsonl > orders.jsonl",
)(with_options(export, LIST, FORMAT, AS_JSON))
