"""`paydesk stores`, `pos` and `terminals`: the stores of sellers, their points of sale, and the terminals there."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import operator_service
from paydesk.commands.failure import WrongUsage
from paydesk.commands.lists import add_list
from paydesk.commands.options import AsJson, CredentialsFile, examples, group, show

stores = group("Stores of sellers.")
pos = group("Points of sale in stores; at each, one terminal takes orders.")
app = group("Terminals, which take the orders.")

Seller = Annotated[int, typer.Option(metavar="USER_ID", help="The seller.")]


@stores.command("create", epilog=examples("paydesk stores create --seller 1160535239 --name 'Main street'"))
def create_store(
    seller: Seller,
    name: Annotated[str, typer.Option(help="The store's name.")],
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Add a store."""
    body = {"seller_id": seller, "name": name}
    show(operator_service(credentials).post("/operator/v1/stores", body), as_json=as_json)


add_list(stores, "stores")


@pos.command(
    "create",
    epilog=examples("paydesk pos create --seller 1160535239 --store 47792478 --external-id TILL1 --name 'Till 1'"),
)
def create_pos(
    seller: Seller,
    store: Annotated[int, typer.Option(metavar="STORE_ID", help="The store.")],
    external_id: Annotated[str, typer.Option(help="The seller's own id for it, unique per seller.")],
    name: Annotated[str | None, typer.Option(help="The display name. [default: the external id]")] = None,
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Add a point of sale."""
    body = {"seller_id": seller, "store_id": store, "external_pos_id": external_id, "name": name}
    show(operator_service(credentials).post("/operator/v1/pos", body), as_json=as_json)


add_list(pos, "pos")


@app.command(
    "create",
    epilog=examples(
        "paydesk terminals create --virtual --script approve",
        "paydesk terminals create --virtual --script decline:insufficient_amount --json",
        "paydesk terminals create --virtual --script ignore --seller 1160535239",
    ),
)
def create_terminal(
    *,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="A virtual terminal, available at once (in `paydesk dev`).")
    ] = False,
    script: Annotated[
        str, typer.Option(help="How it behaves: `approve`, `decline:<detail>`, `cancel`, `ignore` or `hold`.")
    ] = "approve",
    seller: Annotated[
        int | None, typer.Option(metavar="USER_ID", help="The seller. [default: the demo seller]")
    ] = None,
    pos: Annotated[int | None, typer.Option(metavar="POS_ID", help="The point of sale. [default: a new one]")] = None,
    mode: Annotated[str | None, typer.Option(help="PDV, STANDALONE or SELF_SERVICE. [default: PDV]")] = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Add a virtual terminal, which takes orders at once."""
    if not virtual:
        raise WrongUsage("Only virtual terminals can be created. Add --virtual.")
    body = {"seller_id": seller, "script": script, "pos_id": pos, "operating_mode": mode}
    show(operator_service(credentials).post("/operator/v1/terminals", body), as_json=as_json)


add_list(app, "terminals")
