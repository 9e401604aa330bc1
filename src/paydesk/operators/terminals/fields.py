"""The fields of terminals: request bodies with what people see of them, closed to unknown fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from paydesk.core.model import Model, rule
from paydesk.engine.terminals.schemas import VIRTUAL_MODEL, Kind, SettableMode
from paydesk.operators.documents import Choices, Document, Reader
from paydesk.operators.properties import every
from paydesk.operators.schemas import Change, Id
from paydesk.operators.words import Shown

STORE, POS = "store_id", "pos_id"
TIPS_MAX = 5
MODES: Mapping[str, str] = {
    "PDV": "takes orders; one terminal at a point of sale",
    "SELF_SERVICE": "takes orders; several terminals at a point of sale",
    "STANDALONE": "takes no orders: amounts are typed at the terminal",
}
"""The modes that can be set: what they mean."""
TAKING_ORDERS = ("PDV", "SELF_SERVICE")


def serial_of(terminal_id: str) -> str:
    """Return the serial number, which distinguishes the terminals of a model."""
    return terminal_id.partition("__")[2] or terminal_id


def place_of(terminal: Mapping[str, Any]) -> str:
    """Return the store and the point of sale, of which one is named after the terminal itself."""
    if terminal["pos_name"] == terminal["id"]:
        return str(terminal["store_name"])
    return f"{terminal['store_name']}, {terminal['pos_name']}"


async def places(api: Reader, names: Document) -> Choices:
    """Return the points of sale of a seller, and one to be made in each of the stores, as they are chosen."""
    stores = {one[STORE]: one["name"] for one in await every(api, "stores", seller=names["seller_id"])}
    points = await every(api, "pos", seller=names["seller_id"])
    return [
        *((f"{POS}:{one[POS]}", f"{stores.get(one[STORE], one[STORE])}: {_pos_name(one)}") for one in points),
        *((f"{STORE}:{store_id}", f"{name}: a point of sale of its own") for store_id, name in stores.items()),
    ]


def place_sent(chosen: str) -> Document:
    """Return the property of a request for a choice: a store or a point of sale; empty for none."""
    kind, _, number = chosen.partition(":")
    is_known = kind in (STORE, POS) and number.isascii() and number.isdigit() and len(number) <= 18
    return {kind: int(number)} if is_known else {}


def _pos_name(pos: Mapping[str, str]) -> str:
    name, identity = pos["name"], pos["external_pos_id"]
    return name if name == identity else f"{name} ({identity})"


TipPercentages = Annotated[
    list[Annotated[int, Field(ge=1, le=100)]],
    Field(max_length=TIPS_MAX),
    rule("must have each percentage once", lambda percentages: len(set(percentages)) == len(percentages)),
    Shown(
        "Percentages",
        f"Up to {TIPS_MAX}, such as 10, 15, 20. Empty: it offers no tips.",
        optional=True,
        option="--tip",
        metavar="PERCENT",
        help="A tip that it offers; may be given up to five times.",
        none="--no-tips",
    ),
]


_Mode = Annotated[
    SettableMode,
    Shown(
        "Mode",
        labels={name: f"{name}: {meaning}" for name, meaning in MODES.items()},
        option="--mode",
        help="PDV, which takes orders, STANDALONE or SELF_SERVICE.",
    ),
]
_StoreId = Annotated[
    Id,
    Shown("Store", option="--store", metavar="STORE_ID", help="Move it to a point of sale of its own in this store."),
]
_PosId = Annotated[Id, Shown("Point of sale", option="--pos", metavar="POS_ID", help="Move it to this point of sale.")]
_Script = Annotated[
    str,
    Field(examples=["approve"]),
    Shown("Script", help="How a virtual terminal of `paydesk dev` behaves."),
]


class TerminalChange(Change):
    """`PATCH /operator/v1/terminals/{id}`. Only the fields sent change; a list is replaced as a whole."""

    operating_mode: _Mode | None = None
    store_id: _StoreId | None = Field(
        None, description="Moves it to a point of sale of its own in this store, unless `pos_id` is sent too."
    )
    pos_id: _PosId | None = None
    tip_percentages: TipPercentages | None = Field(
        None, description="The tips that it offers, in percent; an empty list: none.", examples=[[10, 15]]
    )
    script: _Script | None = None


class PlaceForm(Model):
    """The form that moves a terminal: people choose a point of sale, or a store in which it gets one of its own."""

    place: Annotated[str, Shown("Point of sale", labels=places, value=lambda terminal: f"{POS}:{terminal[POS]}")]


class PairingApproval(Model):
    """`POST /operator/v1/pairings/{user_code}`.

    Of a terminal that is paired anew, `kind`, `live_mode` and the point of sale stay unless they are sent.
    """

    seller_id: Id = Field(examples=[1160535239])
    store_id: Id | None = None
    pos_id: Id | None = Field(
        None,
        description="Without it, a point of sale named after the terminal, in the store or the seller's first one.",
    )
    kind: Kind | None = Field(
        None, description="`terminal`, the default, asks the acquirer itself; `service` does not."
    )
    live_mode: bool | None = Field(
        None, description=f"Whether it takes live orders; true by default, but false for `{VIRTUAL_MODEL}`."
    )
    replace: bool = Field(False, description="Pair anew a terminal that the seller is paired with already.")
