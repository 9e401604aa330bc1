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
from paydesk.commands.list_filters import OPEN, ORDER_FILTERS, SELLER, of_status
from paydesk.commands.list_rows import Row, flat_amount, flat_order
from paydesk.commands.options import After, Limit, show_list


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


LISTS = {
    "subscriptions": ListCommand(
        "List the subscriptions, by id or by urgency.",
        ("id", "status", "url", "topic", "live_mode", "actions", "client_id", "created_date"),
        (
            "paydesk subscriptions list",
            "paydesk subscriptions list --sort urgency",
            "paydesk subscriptions list --client-id 3676047501096810 --json",
        ),
        {
            "sort": Annotated[
                str | None,
                typer.Option(help="id, or urgency: first those that are paused after failures, or are failing."),
            ],
            "client_id": Annotated[
                str | None, typer.Option(metavar="CLIENT_ID", help="Only subscriptions of this application.")
            ],
        },
    ),
    "orders": ListCommand(
        "List the orders, newest first.",
        ("id", "status", "reason", "amount", "created_date", "kind", "terminal", "external_reference"),
        (
            "paydesk orders list --status at_terminal",
            "paydesk orders list --state partially_refunded",
            "paydesk orders list --card 6351 --since 2026-01-31 --json",
        ),
        ORDER_FILTERS,
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
            "paydesk deliveries list --failed",
        ),
        {
            "order": Annotated[
                str | None,
                typer.Option(metavar="ORDER_ID", help="Only deliveries of this order.", callback=checked.order_id),
            ],
            "status": of_status("pending, delivered, exhausted, superseded or withdrawn."),
            "failed": Annotated[
                bool | None,
                typer.Option(
                    "--failed",
                    help="Only those that are exhausted, or have failed and wait for a retry.",
                    callback=lambda value: "true" if value else None,
                ),
            ],
            "since": Annotated[
                str | None, typer.Option(metavar="TIME", help="Only those created from then on: RFC 3339, or a date.")
            ],
            "subscription": Annotated[
                str | None, typer.Option(metavar="ID", help="Only deliveries to this subscription.")
            ],
            **SELLER,
        },
    ),
    "requests": ListCommand(
        "List the last requests of applications and terminals, newest first.",
        ("created_date", "status", "method", "path", "duration_ms", "error", "application", "order_id", "entry_id"),
        (
            "paydesk requests list --status failed",
            "paydesk requests list --order ORD01J67CQQH5904WDBVZEM4JMEP3 --json",
        ),
        {
            "order": Annotated[
                str | None,
                typer.Option(metavar="ORDER_ID", help="Only requests about this order.", callback=checked.order_id),
            ],
            "status": of_status("A status such as 404, or one of 2xx, 4xx, 5xx, failed."),
            "method": Annotated[str | None, typer.Option(metavar="METHOD", help="GET, POST, PUT, PATCH or DELETE.")],
            "application": Annotated[
                str | None, typer.Option(metavar="CLIENT_ID", help="Only requests of this application.")
            ],
            "terminal": Annotated[
                str | None, typer.Option(metavar="TERMINAL_ID", help="Only requests of this terminal itself.")
            ],
            "request_id": Annotated[str | None, typer.Option(metavar="ID", help="Only those with this X-Request-Id.")],
            **SELLER,
        },
        limit=50,
    ),
    "inquiries": ListCommand(
        "List the orders whose outcome is unknown, newest first, with the time of the next inquiry at the acquirer.",
        ("order_id", "status", "outcome", "reason", "attempts", "next_date"),
        ("paydesk inquiries list", "paydesk inquiries list --all --json"),
        {"open": OPEN, **SELLER},
    ),
    "reversals": ListCommand(
        "List the reversals of late approvals, newest first.",
        ("id", "order_id", "status", "confirmed", "amount", "reference_id", "attempts", "next_date"),
        ("paydesk reversals list", "paydesk reversals list --status pending"),
        {"status": of_status("pending, reversed or not_found."), **SELLER},
        flatten=flat_amount,
    ),
    "refunds": ListCommand(
        "List the refunds, newest first, with the time of the next attempt at the acquirer.",
        ("id", "order_id", "status", "amount", "attempts", "created_date", "next_date"),
        ("paydesk refunds list --status processing",),
        {"status": of_status("processing, processed or failed."), **SELLER},
        flatten=flat_amount,
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


def with_options(
    work: Callable[..., None], filters: Mapping[str, Any], others: Mapping[str, tuple[Any, Any]]
) -> Callable[..., None]:
    """Give a command that takes `**query` options for it: filters, and others each with its type and its default."""
    options = {"service": (Service, None), **{name: (kind, None) for name, kind in filters.items()}, **others}
    work.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # instead of `**query`
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in {**options, "as_json": (bool, False)}.items()
        ]
    )
    return work


def add_list(app: typer.Typer, noun: str) -> typer.Typer:
    """Add the command `list` to a group, and return the group."""
    listed = LISTS[noun]

    def list_(service: Service, *, as_json: bool, **query: Any) -> None:
        show_page(service, noun, query, as_json=as_json)

    list_.__doc__ = listed.help
    others = {"limit": (Limit, listed.limit), "after": (After, None)}
    command(app, "list", *listed.examples)(with_options(list_, listed.filters, others))
    return app
