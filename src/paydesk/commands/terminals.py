"""`paydesk terminals`: what takes the orders."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import operators
from paydesk.commands.failure import WrongUsage
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, OfSeller, examples, group, show, show_list

app = group("Terminals: what takes the orders.")
COLUMNS = ("id", "operating_mode", "script", "live_mode", "seller_id", "store_id", "pos_id", "last_seen_date")


@app.command(
    "create",
    epilog=examples(
        "paydesk terminals create --virtual --script approve",
        "paydesk terminals create --virtual --script decline:insufficient_amount --json",
        "paydesk terminals create --virtual --script ignore --seller 1160535239",
    ),
)
def create(
    *,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="A virtual terminal, there at once (in `paydesk dev`).")
    ] = False,
    script: Annotated[
        str, typer.Option(help="How it behaves: `approve`, `decline:<detail>`, `cancel`, `ignore` or `hold`.")
    ] = "approve",
    seller: Annotated[
        int | None, typer.Option(metavar="USER_ID", help="Whose it is. [default: the demo seller]")
    ] = None,
    pos: Annotated[
        int | None, typer.Option(metavar="POS_ID", help="Where it stands. [default: a new POS of its own]")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="PDV, STANDALONE or SELF_SERVICE. [default: PDV]")] = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Add a virtual terminal, which takes orders at once."""
    if not virtual:
        raise WrongUsage("Only virtual terminals can be created: say --virtual.")
    answer = operators(credentials).post(
        "/operator/v1/terminals", {"seller_id": seller, "script": script, "pos_id": pos, "operating_mode": mode}
    )
    show(answer, as_json=as_json)


@app.command("list", epilog=examples("paydesk terminals list", "paydesk terminals list --seller 1160535239 --json"))
def list_(
    seller: OfSeller = None,
    *,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List the terminals."""
    answer = operators(credentials).get("/operator/v1/terminals", {"seller": seller, "limit": limit, "after": after})
    show_list(answer, COLUMNS, as_json=as_json)
