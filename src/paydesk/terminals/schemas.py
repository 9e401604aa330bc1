"""What terminals look like on the wire: for applications, and in what the terminals themselves say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, Field
from pydantic_core import PydanticCustomError

from paydesk import card_numbers
from paydesk.wire import Model

if TYPE_CHECKING:
    from paydesk.terminals.store import Listed

ITEMS_MAX = 50
JOURNAL_MAX = 100

UUID_PATTERN = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"


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


BootId = Annotated[str, Field(pattern=UUID_PATTERN, examples=["0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"])]


def _no_card_number(text: str) -> str:
    if card_numbers.carries(text):
        raise PydanticCustomError("property_value", "must not contain a card number")
    return text


class JournalEntry(Model):
    """A lease that the terminal remembers: the last step it wrote down, and the result if there is one."""

    lease_id: Annotated[str, Field(max_length=64)]
    last_step: Annotated[str, Field(max_length=40)] = ""
    result: dict[str, Any] | None = None


class HelloRequest(Model):
    """`POST /device/v1/hello`."""

    boot_id: BootId
    app_version: Annotated[str, Field(max_length=64), AfterValidator(_no_card_number)] = ""
    journal: list[JournalEntry] = Field([], max_length=JOURNAL_MAX)


class SessionRequest(Model):
    """A call within a session that says nothing more."""

    boot_id: BootId


STEPS = (
    "card_requested",
    "card_presented",
    "pin_requested",
    "pin_entered",
    "authorizing",
    "card_removal",
    "printing",
)


class ProgressRequest(Model):
    """`POST /device/v1/leases/{lease_id}/progress`."""

    boot_id: BootId
    seq: Annotated[int, Field(ge=0, le=2**53)]
    step: Literal[
        "card_requested", "card_presented", "pin_requested", "pin_entered", "authorizing", "card_removal", "printing"
    ]


class CancelResultRequest(Model):
    """`POST /device/v1/leases/{lease_id}/cancel-result`."""

    boot_id: BootId
    done: bool


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
