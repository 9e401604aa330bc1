"""Requests and responses of `/virtual/v1`, and the forms of the page, closed to unknown fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from msgspec import Meta
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from paydesk.core.model import Model, property_fault, rule
from paydesk.core.response import Response, Time
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.engine.terminals.schemas import OperatingMode, SettableMode
from paydesk.operators.schemas import Id
from paydesk_dev.virtual.scripts import playlists, scripts
from paydesk_dev.virtual.terminal.actions import ACTIONS, PIN_DIGITS_MAX, PIN_DIGITS_MIN, Action, ActionName, Key
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.receipts import Receipt
from paydesk_dev.virtual.terminal.screens import Screen, ScreenName

SEED_MAX = 2**53 - 1
SECONDS_MAX = 3600.0
VALUE_MAX = 99
KEY_CHARACTERS_MAX = 100

_OPTIONAL = ("seconds", "noticed")


def _script(text: str) -> str:
    try:
        return playlists.canonical(text)
    except ValueError as error:
        raise property_fault(str(error)) from None


Script = Annotated[str, AfterValidator(_script), Field(examples=["approve"])]


class TerminalRequest(Model):
    """`POST /operator/v1/terminals`: a virtual terminal, by default of the first seller, at a new point of sale."""

    seller_id: Id | None = None
    pos_id: Id | None = None
    script: Script = "approve"
    operating_mode: SettableMode = "PDV"


class NewTerminalRequest(Model):
    """`POST /virtual/v1/terminals`."""

    seller_id: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(
        None, description="For operators only. Default: the first seller."
    )
    script: Script = Field(
        scripts.MANUAL, description="`manual` waits for a person or a test; any other script plays by itself."
    )
    operating_mode: SettableMode = "PDV"
    seed: Annotated[int, Field(ge=0, le=SEED_MAX)] | None = Field(
        None, description="Makes the faults of a `flaky` script the same in each run."
    )
    pace: Literal["quick", "real"] = Field(
        "quick",
        description=(
            "`real`: a person can follow it. `quick` leaves out what is for eyes: `authorizing` is shown as long as the"
            " acquirer takes, a restart takes 0.3 s, paper 0.1 s."
        ),
    )


class VirtualTerminal(Response, frozen=True):
    """A virtual terminal; `id` and `terminal_id` are the same."""

    id: str
    terminal_id: str
    seller_id: int
    store_id: int
    pos_id: int
    operating_mode: OperatingMode
    script: str
    page_url: (
        Annotated[str, Meta(description="The address of its page, with a key. Absent for callers that may only read.")]
        | None
    ) = None


class VirtualTerminals(Response, frozen=True):
    """The virtual terminals of a seller."""

    data: list[VirtualTerminal]


class NewOrderRequest(Model):
    """`POST /virtual/v1/terminals/{terminal_id}/orders`: what an application says of an order, but for the terminal."""

    amount: Annotated[str, Field(max_length=20, examples=["24.90"])]
    description: Annotated[str, Field(max_length=150)] | None = None
    external_reference: Annotated[str, Field(max_length=64, examples=["sale-0042"])] | None = None


def _fits(value: Any, info: ValidationInfo) -> Any:
    """Refuse a field that the action has no use for, and require one that it needs."""
    action, field = info.data.get("action"), info.field_name or ""
    if action is None:  # Invalid, which is a fault of its own.
        return value
    takers = tuple(name for name, taken in ACTIONS.items() if field in taken.split())
    if value is None and action in takers and field not in _OPTIONAL:
        raise PydanticCustomError("missing", "Field required")
    if value is not None and action not in takers:
        raise property_fault(f"is only for {', '.join(takers)}")
    return value


_FITS = AfterValidator(_fits)
_Card = Annotated[
    str,
    rule(f"must be one of {', '.join(CARDS)}", CARDS.__contains__),
    Field(json_schema_extra={"enum": list(CARDS)}, examples=["visa_approved"]),
]
_Digits = Annotated[str, Field(pattern=f"^[0-9]{{{PIN_DIGITS_MIN},{PIN_DIGITS_MAX}}}$", examples=["1234"])]


def _field(description: str, *, repr: bool = True) -> Any:  # noqa: A002 - as pydantic has it
    return Field(None, validate_default=True, description=description, repr=repr)


class VirtualActionRequest(Model):
    """`POST /virtual/v1/terminals/{terminal_id}/actions`: the action, and the one field that it takes, if any."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"action": "tap", "card": "visa_approved"}]})

    action: ActionName = Field(examples=["tap"])
    card: Annotated[_Card | None, _FITS] = _field("Of `tap`, `insert`, `swipe` and `phone`: the test card.")
    digits: Annotated[_Digits | None, _FITS] = _field("Of `pin`.", repr=False)
    value: Annotated[Annotated[int, Field(ge=0, le=VALUE_MAX)] | None, _FITS] = _field(
        "Of `choose`: one of the screen's `choices`."
    )
    key: Annotated[Key | None, _FITS] = _field("Of `press`.")
    seconds: Annotated[Annotated[float, Field(gt=0, le=SECONDS_MAX)] | None, _FITS] = _field(
        "Of `go_offline`: it is online again after them. Without them it stays offline until `go_online`."
    )
    noticed: Annotated[bool | None, _FITS] = _field(
        "Of `go_offline`: its presence is `offline` at once, not after 2 minutes of silence."
    )
    script: Annotated[Script | None, _FITS] = _field("Of `set_script`: from the next order on.")

    def as_action(self) -> Action:
        """Return the action for the terminal."""
        return Action(self.action, **self.model_dump(exclude={"action", "noticed"}, exclude_none=True))


class VirtualScreen(Response, frozen=True):
    """What the terminal shows."""

    screen: ScreenName
    lines: Annotated[list[str], Meta(description="The text of the screen.")]
    actions: Annotated[list[str], Meta(description="What the screen takes, besides what every screen takes.")]
    permitted: Annotated[bool, Meta(description="Whether the order on the screen has the authorization permit.")]
    order_id: str | None = None
    status_detail: str | None = None
    receipt: Receipt | None = None
    amount: str | None = None
    currency: str | None = None
    choices: Annotated[list[int], Meta(description="Percentages of a tip, 0 for none; or installments.")] | None = None
    digits: Annotated[int, Meta(description="How many digits of the PIN were entered.")] | None = None
    card: str | None = None
    ends_date: Annotated[Time, Meta(description="When the screen ends by itself.")] | None = None

    @classmethod
    def of_screen(cls, screen: Screen, panel: Panel) -> Self:
        """Return the document of a screen of the panel, without what it does not have."""
        return cls.of(
            screen,
            permitted=panel.is_permitted(screen),
            screen=screen.name,
            amount=screen.amount or None,
            currency=screen.currency or None,
            choices=screen.choices or None,
            digits=screen.digits if screen.name == "pin" else None,
            card=screen.card or None,
        )


class _Form(BaseModel):
    """A form of the page, whose key is in each."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field("", max_length=KEY_CHARACTERS_MAX, repr=False, description="The key of the page.")


class ActionForm(_Form):
    """What a person does at the terminal. Each field but `action` is for some actions only."""

    action: ActionName
    card: str = Field("", max_length=40)
    digits: str = Field("", pattern="^[0-9]{0,12}$", repr=False)
    value: int | None = Field(None, ge=0, le=VALUE_MAX)
    press: Key | Literal[""] = ""
    seconds: float | None = Field(None, gt=0, le=3600)
    script: str = Field("", max_length=200)

    def as_action(self) -> Action:
        """Return the action for the terminal."""
        fields = self.model_dump(exclude={"action", "key", "press"})
        return Action(self.action, **{**fields, "key": self.press or None, "script": self.script.strip()})


class OrderForm(_Form):
    """A new test order for the terminal."""

    amount: str = Field(max_length=20)
    description: str = Field("", max_length=200)
