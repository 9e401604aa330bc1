"""`paydesk stores` and `paydesk pos`: where a seller's terminals stand."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import operators
from paydesk.commands.options import After, AsJson, CredentialsFile, Limit, OfSeller, examples, group, show, show_list

app = group("Stores of sellers.")
pos = group("Points of sale within stores; one terminal each takes orders.")

Seller = Annotated[int, typer.Option(metavar="USER_ID", help="The seller.")]


@app.command("create", epilog=examples("paydesk stores create --seller 1160535239 --name 'Main street'"))
def create_store(
    seller: Seller,
    name: Annotated[str, typer.Option(help="The store's name.")],
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Add a store."""
    show(
        operators(credentials).post("/operator/v1/stores", {"seller_id": seller, "name": name}),
        as_json=as_json,
    )


@app.command("list", epilog=examples("paydesk stores list --seller 1160535239"))
def list_stores(
    seller: OfSeller = None,
    *,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List the stores."""
    answer = operators(credentials).get("/operator/v1/stores", {"seller": seller, "limit": limit, "after": after})
    show_list(answer, ("store_id", "seller_id", "name", "created_date"), as_json=as_json)


@pos.command(
    "create",
    epilog=examples("paydesk pos create --seller 1160535239 --store 47792478 --external-id TILL1 --name 'Till 1'"),
)
def create_pos(
    seller: Seller,
    store: Annotated[int, typer.Option(metavar="STORE_ID", help="The store it stands in.")],
    external_id: Annotated[str, typer.Option(help="The seller's own name for it, unique among the seller's.")],
    name: Annotated[str | None, typer.Option(help="A name to show. [default: the external id]")] = None,
    *,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """Add a point of sale."""
    body = {"seller_id": seller, "store_id": store, "external_pos_id": external_id, "name": name}
    show(operators(credentials).post("/operator/v1/pos", body), as_json=as_json)


@pos.command("list", epilog=examples("paydesk pos list --seller 1160535239 --json"))
def list_pos(
    seller: OfSeller = None,
    *,
    limit: Limit = 200,
    after: After = None,
    as_json: AsJson = False,
    credentials: CredentialsFile = None,
) -> None:
    """List the points of sale."""
    answer = operators(credentials).get("/operator/v1/pos", {"seller": seller, "limit": limit, "after": after})
    show_list(answer, ("pos_id", "external_pos_id", "store_id", "seller_id", "name"), as_json=as_json)
