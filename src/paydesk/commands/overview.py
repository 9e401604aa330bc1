"""`paydesk search`, `figures` and `attention`, and `paydesk orders export`: what operators look for first."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import typer

from paydesk.commands.client import Service, given
from paydesk.commands.command import command
from paydesk.commands.failure import Failure, WrongUsage
from paydesk.commands.list_filters import LIVE, ORDER_FILTERS
from paydesk.commands.lists import with_options
from paydesk.commands.options import harmless_json, note, show, show_list

SEARCH_EXAMPLES = (
    "paydesk search ext_ref_1234",
    "paydesk search 6351",
    "paydesk search ORD01J67CQQH5904WDBVZEM4JMEP3 --json",
)
FIGURES_EXAMPLES = ("paydesk figures", "paydesk figures --day 2026-01-31 --live --json")
ATTENTION_EXAMPLES = ("paydesk attention", "paydesk attention --json")
EXPORT_EXAMPLES = (
    "paydesk orders export > orders.csv",
    "paydesk orders export --since 2026-01-01 --until 2026-01-31 --status processed > january.csv",
    "paydesk orders export --format jsonl > orders.jsonl",
)
EXPORT_FORMAT = Annotated[
    Literal["csv", "jsonl"],
    typer.Option("--format", help="csv, for spreadsheets, or jsonl: a JSON object per line, with unchanged values."),
]
HIT_COLUMNS = ("type", "id", "title", "status", "detail", "date")
HOUR_COLUMNS = ("date", "orders", "processed", "failed")
ATTENTION_COLUMNS = ("kind", "subject", "message", "do")
_EXPORT = "/operator/v1/exports/orders"
_MEDIA_TYPES = {"csv": "text/csv", "jsonl": "application/jsonl"}


def search(
    service: Service,
    text: Annotated[
        str, typer.Argument(help="An id, a reference, a card's last four digits, an e-mail address or a name.")
    ],
    *,
    as_json: bool,
) -> None:
    """Find orders, terminals, requests, sellers, applications and deliveries; exits 1 if there are none."""
    if not text.strip():
        raise WrongUsage("The text to search for is empty.")
    found = service.get("/operator/v1/search", {"q": text})
    show_list(found, HIT_COLUMNS, as_json=as_json)
    if not found["data"]:
        raise Failure(f"Nothing was found for {text}.")


def figures(
    service: Service,
    *,
    day: Annotated[str | None, typer.Option(metavar="DATE", help="The day in UTC. [default: today]")] = None,
    live: LIVE = None,
    as_json: bool,
) -> None:
    """Show the figures of a day: orders by status and hour, amounts, approval rate, median time to the payment."""
    found = service.get("/operator/v1/figures", {"day": day, "live": live})
    if as_json:
        show(found, as_json=True)
        return
    show({name: value for name, value in found.items() if name != "hours"}, as_json=False)
    sys.stdout.write("\n")
    show_list({"data": [hour for hour in found["hours"] if hour["orders"]]}, HOUR_COLUMNS, as_json=False)


def attention(service: Service, *, as_json: bool) -> None:
    """List what needs a person, the most urgent first."""
    found = service.get("/operator/v1/attention")
    if as_json or found["data"]:
        show_list(found, ATTENTION_COLUMNS, as_json=as_json)
    else:
        note("Nothing needs you.")


def add_export(app: typer.Typer) -> None:
    """Add `orders export` to the group of orders."""

    def export(service: Service, *, format_: str, as_json: bool, **query: Any) -> None:
        """Write orders as CSV or JSON lines to standard output, newest first."""
        if as_json:
            raise WrongUsage("The export is CSV, or JSON lines: --format jsonl")
        address: str | None = f"{_EXPORT}?{urlencode(given({'format': format_, **query}))}"
        is_first = True
        while address is not None:
            content, address = service.download(address, _MEDIA_TYPES[format_])
            text = content.decode()
            if format_ == "jsonl":
                text = harmless_json(text)
            elif not is_first:
                # Each part begins with the header.
                text = text.partition("\r\n")[2]
            sys.stdout.write(text)
            is_first = False

    options: dict[str, tuple[Any, Any]] = {"service": (Service, None)}
    options |= {name: (kind, None) for name, kind in ORDER_FILTERS.items()}
    options |= {"format_": (EXPORT_FORMAT, "csv"), "as_json": (bool, False)}
    command(app, "export", *EXPORT_EXAMPLES)(with_options(export, options))
