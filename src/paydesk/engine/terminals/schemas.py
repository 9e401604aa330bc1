"""Requests and responses of applications about terminals."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from paydesk.core.model import IDENTIFIER, Model, rule
from paydesk.core.response import Count, Response, Time

ITEMS_MAX = 50
TERMINAL_ID_PATTERN = "^[A-Z0-9_]{1,40}__[A-Za-z0-9_-]{1,30}$"
"""A model and a serial number."""
EXAMPLE_TERMINAL_ID = "NEWLAND_N950__N950NCB801293324"

# Two underscores separate the model from the serial in a terminal's id.
_MODEL = re.compile("^_?[A-Z0-9]+(_[A-Z0-9]+)*_?$")
VIRTUAL_MODEL = "PAYDESK_VIRTUAL"

Kind = Literal["terminal", "service"]
SettableMode = Literal["PDV", "STANDALONE", "SELF_SERVICE"]
OperatingMode = Literal[SettableMode, "UNDEFINED"]
TerminalStatus = Literal["active", "inactive"]
Presence = Literal["online", "degraded", "offline"]


class ModeRequest(Model):
    """A terminal and its new mode; `terminal_id` is another name for `id`."""

    id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=80,
            validation_alias=AliasChoices("id", "terminal_id"),
            examples=[EXAMPLE_TERMINAL_ID],
        ),
    ]
    operating_mode: SettableMode


class SetupRequest(Model):
    """`PATCH /terminals/v1/setup`."""

    terminals: Annotated[
        list[ModeRequest], Field(min_length=1, max_length=ITEMS_MAX, json_schema_extra={"uniqueItems": True})
    ]


class PairingRequest(Model):
    """`POST /device/v1/pairings`."""

    model: Annotated[
        str,
        Field(max_length=40, json_schema_extra={"pattern": _MODEL.pattern}, examples=["NEWLAND_N950"]),
        rule("must consist of A-Z, 0-9 and single underscores", _MODEL.fullmatch),
        IDENTIFIER,
    ]
    serial: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,30}$", examples=["N950NCB801293324"]), IDENTIFIER]


class PairingTokenRequest(Model):
    """`POST /device/v1/pairings/token`."""

    device_code: Annotated[str, Field(min_length=1, max_length=200, repr=False)]


class NewPairing(Response, frozen=True):
    """The codes of a pairing; the times are in seconds."""

    device_code: str
    user_code: str
    expires_in: Count
    interval: Count
    verification_uri: str | None = None


class PairedDevice(Response, frozen=True):
    """The id and the token of a paired terminal."""

    terminal_id: str
    device_token: str


class CurrentOrder(Response, frozen=True):
    """The order that a terminal has, and since when it has its status."""

    id: str
    status: str
    since_date: Time


class TerminalDocument(Response, frozen=True):
    """A terminal in the list; `terminal_id` is another name for `id`.

    It is inactive without a valid device token. `presence` follows from `last_seen_date`, when it last polled: online
    until 45 s later, degraded until 120 s, then offline.
    """

    id: str
    terminal_id: str
    pos_id: Count
    store_id: str
    external_pos_id: str
    operating_mode: OperatingMode
    status: TerminalStatus
    presence: Presence
    last_seen_date: Time | None = None
    current_order: CurrentOrder | None = None


class ListedTerminals(Response, frozen=True):
    """The terminals of a page."""

    terminals: list[TerminalDocument]


class Paging(Response, frozen=True):
    """The position of a page in its list."""

    total: Count
    offset: Count
    limit: Count


class TerminalList(Response, frozen=True):
    """A page of the seller's terminals."""

    data: ListedTerminals
    paging: Paging


class TerminalMode(Response, frozen=True):
    """A terminal and its mode."""

    id: str
    operating_mode: OperatingMode


class SetupAnswer(Response, frozen=True):
    """The terminals whose modes were set."""

    terminals: list[TerminalMode]
