"""The fields of terminals: request bodies with what people see of them, closed to unknown fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paydesk.core.model import Model, rule
from paydesk.operators.schemas import Change, Id, Reason
from paydesk.sandbox.virtual.schemas import Script
from paydesk.terminals.schemas import VIRTUAL_MODEL, Kind, SettableMode

TipPercentages = Annotated[
    list[Annotated[int, Field(ge=1, le=100)]],
    Field(max_length=5),
    rule("must have each percentage once", lambda percentages: len(set(percentages)) == len(percentages)),
]


class TerminalRequest(Model):
    """`POST /operator/v1/terminals`: a virtual terminal, by default of the first seller, at a new point of sale."""

    seller_id: Id | None = None
    pos_id: Id | None = None
    script: Script = "approve"
    operating_mode: SettableMode = "PDV"


class TerminalChange(Change):
    """`PATCH /operator/v1/terminals/{id}`. Only the fields sent change; a list is replaced as a whole."""

    operating_mode: SettableMode | None = None
    store_id: Id | None = Field(
        None, description="Moves it to a point of sale of its own in this store, unless `pos_id` is sent too."
    )
    pos_id: Id | None = None
    tip_percentages: TipPercentages | None = Field(
        None, description="The tips that it offers, in percent; an empty list: none.", examples=[[10, 15]]
    )
    script: Script | None = None


class ReleaseRequest(Model):
    """`POST /operator/v1/terminals/{terminal_id}/release`."""

    reason: Annotated[Reason, Field(examples=["The terminal is broken."])]


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


def serial_of(terminal_id: str) -> str:
    """Return the serial number, which distinguishes the terminals of a model."""
    return terminal_id.partition("__")[2] or terminal_id
