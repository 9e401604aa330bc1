"""`paydesk stores`, `pos` and `terminals`: the stores of sellers, their points of sale, and the terminals there."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import Answer, Service
from paydesk.commands.command import command
from paydesk.commands.failure import WrongUsage
from paydesk.commands.lists import add_list
from paydesk.commands.options import group

stores = group("Stores of sellers.")
pos = group("Points of sale in stores; at each, one terminal takes orders.")
app = group("Terminals, which take the orders.")

Seller = Annotated[int, typer.Option(metavar="USER_ID", help="The seller.")]


@command(stores, "create", "paydesk stores create --seller 1160535239 --name 'Main street'")
def create_store(
    service: Service, seller: Seller, name: Annotated[str, typer.Option(help="The store's name.")]
) -> Answer:
    """Add a store."""
    return service.post("/operator/v1/stores", {"seller_id": seller, "name": name})


add_list(stores, "stores")


@command(pos, "create", "paydesk pos create --seller 1160535239 --store 47792478 --external-id TILL1 --name 'Till 1'")
def create_pos(
    service: Service,
    seller: Seller,
    store: Annotated[int, typer.Option(metavar="STORE_ID", help="The store.")],
    external_id: Annotated[str, typer.Option(help="The seller's own id for it, unique per seller.")],
    name: Annotated[str | None, typer.Option(help="The display name. [default: the external id]")] = None,
) -> Answer:
    """Add a point of sale."""
    body = {"seller_id": seller, "store_id": store, "external_pos_id": external_id, "name": name}
    return service.post("/operator/v1/pos", body)


add_list(pos, "pos")


def _check_virtual(*, value: bool) -> None:
    if not value:
        raise WrongUsage("Only virtual terminals can be created. Add --virtual.")


@command(
    app,
    "create",
    "paydesk terminals create --virtual --script approve",
    "paydesk terminals create --virtual --script decline:insufficient_amount --json",
    "paydesk terminals create --virtual --script ignore --seller 1160535239",
)
def create_terminal(
    service: Service,
    *,
    _virtual: Annotated[
        bool,
        typer.Option(
            "--virtual",
            callback=_check_virtual,
            help="A virtual terminal, available at once (in `paydesk dev`).",
        ),
    ] = False,
    script: Annotated[
        str, typer.Option(help="How it behaves: `approve`, `decline:<detail>`, `cancel`, `ignore` or `hold`.")
    ] = "approve",
    seller: Annotated[
        int | None, typer.Option(metavar="USER_ID", help="The seller. [default: the demo seller]")
    ] = None,
    pos: Annotated[int | None, typer.Option(metavar="POS_ID", help="The point of sale. [default: a new one]")] = None,
    mode: Annotated[str | None, typer.Option(help="PDV, STANDALONE or SELF_SERVICE. [default: PDV]")] = None,
) -> Answer:
    """Add a virtual terminal, which takes orders at once."""
    body = {"seller_id": seller, "script": script, "pos_id": pos, "operating_mode": mode}
    return service.post("/operator/v1/terminals", body)


add_list(app, "terminals")
