"""What the service says to a terminal, as far as a terminal reads it. Fields that are not known here are ignored."""

from __future__ import annotations

from typing import Any

import msgspec


class OrderOffered(msgspec.Struct, frozen=True, tag_field="type", tag="order"):
    """An order for this terminal; nothing has changed until it acknowledges the lease."""

    lease_id: str
    order: dict[str, Any]


class CancelAsked(msgspec.Struct, frozen=True, tag_field="type", tag="cancel"):
    """The seller asks for the order back."""

    lease_id: str


class Expired(msgspec.Struct, frozen=True, tag_field="type", tag="expired"):
    """The order's time ran out."""

    lease_id: str


class ModeChanged(msgspec.Struct, frozen=True, tag_field="type", tag="mode"):
    """The seller changed the terminal's operating mode."""

    operating_mode: str


Message = OrderOffered | CancelAsked | Expired | ModeChanged


class Verdict(msgspec.Struct, frozen=True):
    """What is to become of a lease after a hello: resume, forget, abort, report or hold."""

    lease_id: str
    verdict: str


class Welcome(msgspec.Struct, frozen=True):
    """The answer to a hello."""

    operating_mode: str = ""
    leases: list[Verdict] = []


def message_of(body: bytes) -> Message | None:
    """The message, or None where it is of a type that this terminal does not know."""
    try:
        message: Message = msgspec.json.decode(body, type=Message)
    except msgspec.DecodeError:
        return None
    return message
