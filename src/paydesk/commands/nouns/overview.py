"""`paydesk search`, `figures` and `attention`: what operators look for first."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paydesk.commands.client.client import Service
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import Failure, WrongUsage
from paydesk.commands.client.options import note, show, show_list, top

SEARCH_EXAMPLES = (
    "paydesk search ext_ref_1234",
    "paydesk search 6351",
    "paydesk search ORD01J67CQQH5904WDBVZEM4JMEP3 --json",
)
FIGURES_EXAMPLES = ("paydesk figures", "paydesk figures --day 2026-01-31 --live --json")
ATTENTION_EXAMPLES = ("paydesk attention", "paydesk attention --json")
HIT_COLUMNS = ("type", "id", "title", "status", "detail", "date")
HOUR_COLUMNS = ("date", "orders", "processed", "failed")
ATTENTION_COLUMNS = ("kind", "subject", "message", "do")


@command(top, "search", *SEARCH_EXAMPLES)
def search(
    service: Service,
    text: Annotated[
        str, typer.Argument(help="An id, a reference, a card's last four digits, an e-mail address or a name.")
    ],
    *,
    as_json: bool,
) -> None:
    """Find orders, terminals, requests, sellers, applications and deliveries; exits 1 if none."""
    if not text.strip():
        raise WrongUsage("The text to search for is empty.")
    results = service.get("/operator/v1/search", {"q": text})
    show_list(results, HIT_COLUMNS, as_json=as_json)
    if not results["data"]:
        raise Failure(f"Nothing was found for {text}.")


@command(top, "figures", *FIGURES_EXAMPLES)
def figures(
    service: Service,
    *,
    day: Annotated[str | None, typer.Option(metavar="DATE", help="The day in UTC. [default: today]")] = None,
    live: Annotated[bool | None, typer.Option("--live/--test", help="Only live orders, or only test orders.")] = None,
    as_json: bool,
) -> None:
    """Show a day's figures: orders by status and hour, amounts, approvals, median time to pay."""
    answer = service.get("/operator/v1/figures", {"day": day, "live": None if live is None else str(live).lower()})
    if as_json:
        show(answer, as_json=True)
        return
    show({name: value for name, value in answer.items() if name != "hours"}, as_json=False)
    sys.stdout.write("\n")
    show_list({"data": [hour for hour in answer["hours"] if hour["orders"]]}, HOUR_COLUMNS, as_json=False)


@command(top, "attention", *ATTENTION_EXAMPLES)
def attention(service: Service, *, as_json: bool) -> None:
    """List what needs a person, the most urgent first."""
    answer = service.get("/operator/v1/attention")
    if as_json or answer["data"]:
        show_list(answer, ATTENTION_COLUMNS, as_json=as_json)
    else:
        note("Nothing needs you.")
