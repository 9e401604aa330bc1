"""The fields of stores and points of sale: request bodies with what people see of them, closed to unknown fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from paydesk.core.model import NO_CARD_NUMBER, Model
from paydesk.operators.documents import Document, Reader
from paydesk.operators.properties import every
from paydesk.operators.schemas import Change, Id, Name
from paydesk.operators.terminals.fields import serial_of
from paydesk.operators.words import Shown

SellerId = Annotated[Id, Shown("Seller", option="--seller", metavar="USER_ID", help="The seller.")]
StoreName = Annotated[Name, Shown("Name", help="The store's name.")]
ExternalPosId = Annotated[
    str,
    Field(min_length=1, max_length=60, examples=["SUC0101POS"]),
    NO_CARD_NUMBER,
    Shown("External id", "The seller's own id for it, unique per seller.", option="--external-id"),
]
_NAME_OF_NEW = Shown("Name", "Empty: the same as the external id.", help="The display name. [default: the external id]")


class StoreRequest(Model):
    """`POST /operator/v1/stores`."""

    seller_id: SellerId = Field(examples=[1160535239])
    name: StoreName = Field(examples=["Main street"])


class StoreChange(Change):
    """`PATCH /operator/v1/stores/{store_id}`."""

    name: StoreName | None = None


class PosRequest(Model):
    """`POST /operator/v1/pos`."""

    seller_id: SellerId = Field(examples=[1160535239])
    store_id: Annotated[Id, Shown("Store", option="--store", metavar="STORE_ID", help="The store.")] = Field(
        examples=[47792478]
    )
    external_pos_id: ExternalPosId
    name: Annotated[Name, _NAME_OF_NEW] | None = None


class PosChange(Change):
    """`PATCH /operator/v1/pos/{pos_id}`. A point of sale can't move to another store."""

    external_pos_id: ExternalPosId | None = None
    name: Annotated[Name, Shown("Name", help="The display name.")] | None = None


def name_of(pos: Document) -> str:
    """Return the name of a point of sale; of one that is named after its terminal, the serial number."""
    return serial_of(pos["name"]) if pos["name"] == pos["external_pos_id"] else str(pos["name"])


async def name_taken(api: Reader, body: Document, names: Document) -> str:
    """Return the detail of a name that another store of the seller has; empty if none has it.

    A form that is sent again after its answer was lost thus adds no second store.
    """
    stores = await every(api, "stores", seller=names["seller_id"])
    is_taken = any(one["name"] == body["name"] for one in stores)
    return "'name' - must not be that of another store of the seller" if is_taken else ""


async def row_of(api: Reader, path: str, key: str, of: Mapping[str, str]) -> Document | None:
    """Return the seller's row with the id of an address; None if there is none. Only the list by id has it."""
    seller_id, number = of["user_id"], of[key]
    if not (number.isascii() and number.isdigit()):
        return None
    listed = await api.get(path, seller=seller_id, after=f"{seller_id}.{max(int(number) - 1, 0)}", limit=1)
    return next((one for one in listed["data"] if one[key] == int(number)), None)
