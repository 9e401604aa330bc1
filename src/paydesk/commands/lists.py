"""The commands `paydesk <noun> list`: a table, and the function that makes a command of a row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from paydesk.commands import checked
from paydesk.commands.client import Service
from paydesk.commands.command import command
from paydesk.commands.options import After, Limit, OfSeller, show_list

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListCommand:
    """One list command.

    `filters` has the type of each option by its query parameter; `flatten` prepares a row for display without `--json`.
    """

    help: str
    columns: tuple[str, ...]
    examples: tuple[str, ...]
    filters: Mapping[str, Any] = field(default_factory=dict)
    limit: int = 200
    flatten: Callable[[Row], Row] = dict


def _status(values: str) -> Any:
    return Annotated[str | None, typer.Option(help=values)]


def flat_order(order: Row) -> dict[str, Any]:
    """Return the order with nested values copied to the top for display."""
    return {
        **order,
        "seller": order["user_id"],
        "amount": f"{order['total_amount']} {order['currency']}",
        "terminal": order["config"]["point"]["terminal_id"],
        "kind": "live" if order["live_mode"] else "test",
    }


def _flat_terminal(terminal: Row) -> dict[str, Any]:
    order = terminal.get("current_order")
    return {**terminal, "order": order and f"{order['id']} {order['status']}"}


_SELLER: Mapping[str, Any] = {"seller": OfSeller}
_OPEN = Annotated[
    bool | None,
    typer.Option("--all", help="Include inquiries that have ended.", callback=lambda value: None if value else "true"),
]

LISTS = {
    "applications": ListCommand(
        "List the applications, by client_id.",
        (
            "client_id",
            "name",
            "redirect_uris",
            "scopes",
            "pkce_required",
            "test_tokens",
            "created_date",
            "suspended_date",
        ),
        ("paydesk apps list", "paydesk apps list --json"),
    ),
    "sellers": ListCommand(
        "List the sellers, by user_id.",
        ("user_id", "email", "name", "country", "currency", "created_date", "suspended_date"),
        ("paydesk sellers list",),
    ),
    "operators": ListCommand(
        "List the operators by id, revoked ones included.",
        ("operator_id", "name", "role", "created_date", "revoked_date"),
        ("paydesk operators list --json",),
    ),
    "grants": ListCommand(
        "List the grants, withdrawn ones included, by seller and from oldest to newest.",
        ("id", "seller_id", "client_id", "application_name", "scope", "created_date", "withdrawn_date"),
        ("paydesk grants list", "paydesk grants list --seller 1160535239 --json"),
        _SELLER,
    ),
    "stores": ListCommand(
        "List the stores, by seller and number.",
        ("store_id", "seller_id", "name", "created_date"),
        ("paydesk stores list --seller 1160535239",),
        _SELLER,
    ),
    "pos": ListCommand(
        "List the points of sale, by seller and number.",
        ("pos_id", "external_pos_id", "store_id", "seller_id", "name"),
        ("paydesk pos list --seller 1160535239 --json",),
        _SELLER,
    ),
    "terminals": ListCommand(
        "List the terminals, by seller and id.",
        (
            *("id", "status", "order", "operating_mode", "last_seen_date"),
            *("kind", "script", "live_mode", "seller_id", "store_id", "pos_id", "page_url"),
        ),
        ("paydesk terminals list", "paydesk terminals list --seller 1160535239 --json"),
        _SELLER,
        flatten=_flat_terminal,
    ),
    "subscriptions": ListCommand(
        "List the subscriptions, by id.",
        ("id", "status", "url", "topic", "live_mode", "actions", "client_id", "created_date"),
        ("paydesk subscriptions list", "paydesk subscriptions list --client-id 3676047501096810 --json"),
        {
            "client_id": Annotated[
                str | None, typer.Option(metavar="CLIENT_ID", help="Only subscriptions of this application.")
            ]
        },
    ),
    "orders": ListCommand(
        "List the orders, newest first.",
        ("id", "created_date", "kind", "status", "status_detail", "amount", "terminal", "external_reference"),
        ("paydesk orders list --status at_terminal", "paydesk orders list --json"),
        {
            **_SELLER,
            "status": _status("Only orders with this status, such as processed."),
            "terminal_id": Annotated[
                str | None, typer.Option("--terminal", metavar="ID", help="Only orders on this terminal.")
            ],
        },
        50,
        flat_order,
    ),
    "deliveries": ListCommand(
        "List the deliveries of notifications, newest first: what was sent where, and with which outcome.",
        (
            *("id", "status", "action", "url", "attempts", "created_date"),
            *("order_id", "version", "next_date", "client_id"),
        ),
        (
            "paydesk deliveries list --order ORD01J67CQQH5904WDBVZEM4JMEP3",
            "paydesk deliveries list --status exhausted --since 2026-01-31",
        ),
        {
            "order": Annotated[
                str | None,
                typer.Option(metavar="ORDER_ID", help="Only deliveries of this order.", callback=checked.order_id),
            ],
            "status": _status("pending, delivered, exhausted, superseded or withdrawn."),
            "since": Annotated[
                str | None, typer.Option(metavar="TIME", help="Only those created from then on: RFC 3339, or a date.")
            ],
            "subscription": Annotated[
                str | None, typer.Option(metavar="ID", help="Only deliveries to this subscription.")
            ],
            **_SELLER,
        },
    ),
    "inquiries": ListCommand(
        "List the orders whose outcome is unknown, newest first, with the time of the next inquiry at the acquirer.",
        ("order_id", "status", "outcome", "reason", "attempts", "next_date"),
        ("paydesk inquiries list", "paydesk inquiries list --all --json"),
        {"open": _OPEN, **_SELLER},
    ),
    "reversals": ListCommand(
        "List the reversals of late approvals, newest first.",
        ("id", "order_id", "status", "confirmed", "amount_minor", "reference_id", "attempts", "next_date"),
        ("paydesk reversals list", "paydesk reversals list --status pending"),
        {"status": _status("pending, reversed or not_found."), **_SELLER},
    ),
    "refunds": ListCommand(
        "List the refunds, newest first, with the time of the next attempt at the acquirer.",
        ("id", "order_id", "status", "amount", "attempts", "created_date", "next_date"),
        ("paydesk refunds list --status processing",),
        {"status": _status("processing, processed or failed."), **_SELLER},
    ),
    "events": ListCommand(
        "List the operator events, newest first.",
        ("created_date", "kind", "subject", "message"),
        ("paydesk events list --json",),
    ),
}
"""By the last segment of the path under `/operator/v1`."""


def show_page(service: Service, noun: str, query: Mapping[str, Any], *, as_json: bool) -> bool:
    """Get and print one page of the list; return whether it has rows."""
    answer = service.get(f"/operator/v1/{noun}", query)
    rows = answer["data"] if as_json else list(map(LISTS[noun].flatten, answer["data"]))
    show_list({**answer, "data": rows}, LISTS[noun].columns, as_json=as_json)
    return bool(rows)


def add_list(app: typer.Typer, noun: str) -> typer.Typer:
    """Add the command `list` to a group, and return the group."""
    listed = LISTS[noun]

    def list_(service: Service, *, as_json: bool, **query: Any) -> None:
        show_page(service, noun, query, as_json=as_json)

    options: dict[str, tuple[Any, Any]] = {"service": (Service, None)}
    options |= {name: (kind, None) for name, kind in listed.filters.items()}
    options |= {"limit": (Limit, listed.limit), "after": (After, None), "as_json": (bool, False)}
    list_.__doc__ = listed.help
    list_.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # instead of `**query`
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in options.items()
        ]
    )
    command(app, "list", *listed.examples)(list_)
    return app
