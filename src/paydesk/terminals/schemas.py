"""What terminals look like on the wire: for applications, and in what the terminals themselves say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field

from paydesk.core.model import Model

if TYPE_CHECKING:
    from paydesk.terminals.store import Listed

ITEMS_MAX = 50


class ModeRequest(Model):
    """A terminal and the mode it is to have; `terminal_id` is another name for `id`."""

    id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=80,
            validation_alias=AliasChoices("id", "terminal_id"),
            examples=["NEWLAND_N950__N950NCB801293324"],
        ),
    ]
    operating_mode: Literal["PDV", "STANDALONE", "SELF_SERVICE"]


class SetupRequest(Model):
    """`PATCH /terminals/v1/setup`."""

    terminals: Annotated[list[ModeRequest], Field(min_length=1, max_length=ITEMS_MAX)]


def shown(terminal: Listed) -> dict[str, Any]:
    """A terminal as the list shows it."""
    return {
        "id": terminal.terminal_id,
        "terminal_id": terminal.terminal_id,
        "pos_id": terminal.pos_id,
        "store_id": str(terminal.store_id),
        "external_pos_id": terminal.external_pos_id,
        "operating_mode": terminal.operating_mode,
    }
