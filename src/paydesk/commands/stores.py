"""`paydesk stores` and `pos`: the stores of sellers, and their points of sale."""

from __future__ import annotations

from typing import Annotated

import typer

from paydesk.commands.client import Answer, Service, changes, segment
from paydesk.commands.command import command
from paydesk.commands.lists import add_list
from paydesk.commands.options import group

stores = group("Stores of sellers.")
pos = group("Points of sale in stores; at each, one terminal takes orders.")
STORES, POS = "/operator/v1/stores", "/operator/v1/pos"

Seller = Annotated[int, typer.Option(metavar="USER_ID", help="The seller.")]
OfSeller = Annotated[
    int | None, typer.Option(metavar="USER_ID", help="The seller; needed only if several sellers have this id.")
]
StoreId = Annotated[str, typer.Argument(metavar="STORE_ID", help="The store, see `paydesk stores list`.")]
PosId = Annotated[str, typer.Argument(metavar="POS_ID", help="The point of sale, see `paydesk pos list`.")]


@command(stores, "create", "paydesk stores create --seller 1160535239 --name 'Main street'")
def create_store(
    service: Service, seller: Seller, name: Annotated[str, typer.Option(help="The store's name.")]
) -> Answer:
    """Add a store."""
    return service.post(STORES, {"seller_id": seller, "name": name})


add_list(stores, "stores")


@command(stores, "change", "paydesk stores change 47792478 --name 'High street'")
def change_store(
    service: Service,
    store_id: StoreId,
    *,
    name: Annotated[str | None, typer.Option(help="The store's name.")] = None,
    seller: OfSeller = None,
) -> Answer:
    """Rename a store."""
    return service.request("PATCH", _path(STORES, store_id, seller), changes(name=name))


@command(stores, "delete", "paydesk stores delete 47792478")
def delete_store(service: Service, store_id: StoreId, *, seller: OfSeller = None) -> Answer:
    """Delete a store without points of sale."""
    service.request("DELETE", _path(STORES, store_id, seller))
    return {"store_id": store_id, "deleted": True}


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
    return service.post(POS, body)


add_list(pos, "pos")


@command(pos, "change", "paydesk pos change 47792476 --name 'Till 2' --external-id TILL2")
def change_pos(
    service: Service,
    pos_id: PosId,
    *,
    name: Annotated[str | None, typer.Option(help="The display name.")] = None,
    external_id: Annotated[str | None, typer.Option(help="The seller's own id for it, unique per seller.")] = None,
    seller: OfSeller = None,
) -> Answer:
    """Change only the given fields. A point of sale stays in its store."""
    changed = changes(name=name, external_pos_id=external_id)
    return service.request("PATCH", _path(POS, pos_id, seller), changed)


@command(pos, "delete", "paydesk pos delete 47792476")
def delete_pos(service: Service, pos_id: PosId, *, seller: OfSeller = None) -> Answer:
    """Delete a point of sale without terminals."""
    service.request("DELETE", _path(POS, pos_id, seller))
    return {"pos_id": pos_id, "deleted": True}


def _path(base: str, number: str, seller: int | None) -> str:
    return f"{base}/{segment(number)}{'' if seller is None else f'?seller={seller}'}"
