"""Requests and responses of applications about terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field

from paydesk.core.model import Model

if TYPE_CHECKING:
    from paydesk.terminals.store import ListedTerminal

ITEMS_MAX = 50
EXAMPLE_TERMINAL_ID = "NEWLAND_N950__N950NCB801293324"

MODE = {"enum": ["PDV", "STANDALONE", "SELF_SERVICE", "UNDEFINED"]}


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
    operating_mode: Literal["PDV", "STANDALONE", "SELF_SERVICE"]


class SetupRequest(Model):
    """`PATCH /terminals/v1/setup`."""

    terminals: Annotated[list[ModeRequest], Field(min_length=1, max_length=ITEMS_MAX)]


def list_item(terminal: ListedTerminal) -> dict[str, Any]:
    """Return a terminal as the list shows it."""
    return {
        "id": terminal.terminal_id,
        "terminal_id": terminal.terminal_id,
        "pos_id": terminal.pos_id,
        "store_id": str(terminal.store_id),
        "external_pos_id": terminal.external_pos_id,
        "operating_mode": terminal.operating_mode,
    }
