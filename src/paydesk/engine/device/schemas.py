"""The requests of terminals, and their answers (`/device/v1`)."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

from pydantic import Field

from paydesk.core.ids import UUID_PATTERN
from paydesk.core.model import NO_CARD_NUMBER, Model, rule
from paydesk.core.money import AMOUNT_PATTERN
from paydesk.core.response import Response, Time, encoded
from paydesk.engine.device.rules.reports import EntryMode, MaskedCard, PaymentMethod
from paydesk.engine.device.rules.verdicts import Verdict
from paydesk.engine.orders.schemas import InstallmentsCost, PaymentType, PrintOnTerminal
from paydesk.engine.terminals.print_actions.action import ActionStatus, Subtype
from paydesk.engine.terminals.schemas import OperatingMode

JOURNAL_MAX = 100
ENCRYPTED_BYTES_MAX = 16 * 1024

BootId = Annotated[str, Field(pattern=UUID_PATTERN, examples=["0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"])]


class JournalEntry(Model):
    """A lease in the terminal's journal: the last step that it recorded, and the result if there is one.

    `sent`: whether the terminal has turned to the acquirer, which it records before it does.
    """

    lease_id: Annotated[str, Field(max_length=64)]
    last_step: Annotated[str, Field(max_length=40)] = ""
    sent: bool | None = None
    result: Annotated[dict[str, Any], Field(description="As it is reported, see `Result`.")] | None = None


class HelloRequest(Model):
    """`POST /device/v1/hello`."""

    boot_id: BootId
    app_version: Annotated[str, Field(max_length=64), NO_CARD_NUMBER] = ""
    journal: list[JournalEntry] = Field([], max_length=JOURNAL_MAX)


class SessionRequest(Model):
    """A request that only names its session."""

    boot_id: BootId


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


def _is_encrypted_data(text: str) -> bool:
    try:
        return 0 < len(base64.b64decode(text, validate=True)) <= ENCRYPTED_BYTES_MAX
    except ValueError:
        return False


class AuthorizeRequest(Model):
    """`POST /device/v1/leases/{lease_id}/authorize`. `encrypted_data` is for the acquirer alone."""

    boot_id: BootId
    entry_mode: EntryMode
    card: MaskedCard
    payment_method: PaymentMethod
    tip_amount: Annotated[str, Field(pattern=AMOUNT_PATTERN, examples=["1.25"])] | None = None
    encrypted_data: Annotated[
        str,
        rule(f"must be base64 of 1 to {ENCRYPTED_BYTES_MAX} bytes", _is_encrypted_data),
        Field(max_length=-(-ENCRYPTED_BYTES_MAX // 3) * 4, repr=False, examples=["c2VjcmV0"]),
    ]

    @property
    def blob(self) -> bytes:
        """Return the encrypted data."""
        return base64.b64decode(self.encrypted_data)


class JudgedLease(Response, frozen=True):
    """A lease, and the verdict that its terminal follows."""

    lease_id: str
    verdict: Verdict


class HelloAnswer(Response, frozen=True):
    """The configuration of the terminal, and the verdicts on its leases."""

    terminal_id: str
    operating_mode: OperatingMode
    seller_name: str
    currency: str
    time: Time
    leases: list[JudgedLease]


class OfferedTip(Response, frozen=True):
    """The tips that the terminal offers."""

    percentages: list[int]


class OfferedPaymentMethod(Response, frozen=True):
    """How the buyer is asked to pay."""

    default_type: PaymentType | None = None
    default_installments: int | None = None
    installments_cost: InstallmentsCost | None = None


class OfferedOrder(Response, frozen=True):
    """An order as it is offered to its terminal; `payment_id` is its reference at the acquirer."""

    id: str
    payment_id: str
    amount: str
    currency: str
    description: str | None = None
    external_reference: str | None = None
    ticket_number: str | None = None
    print_on_terminal: PrintOnTerminal | None = None
    screen_time: str | None = None
    payment_method: OfferedPaymentMethod | None = None
    tip: OfferedTip | None = None


class Message(Response, frozen=True):
    """A message to a terminal."""

    type: Literal["order", "print", "cancel", "expired", "mode"]
    lease_id: str | None = None
    expires_date: Time | None = None
    time: Time | None = None
    order: Annotated[dict[str, Any], encoded(OfferedOrder)] | None = None
    operating_mode: OperatingMode | None = None
    action_id: str | None = None
    subtype: Subtype | None = None
    content: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The type and the lease or print action, by which a repeated message is recognized."""
        return self.type, self.lease_id or self.action_id or ""


class PrintResultRequest(Model):
    """`POST /device/v1/actions/{action_id}/result`."""

    boot_id: BootId
    outcome: Literal["printed", "failed"]


class ReportedAction(Response, frozen=True):
    """A print action as answers to its terminal show it."""

    id: str
    status: ActionStatus


class PrintResultAnswer(Response, frozen=True):
    """The state of the print action."""

    action: ReportedAction


class LeasedOrder(Response, frozen=True):
    """An order as answers to its terminal show it."""

    id: str
    status: str
    status_detail: str


class OrderState(Response, frozen=True):
    """The state of the order."""

    order: LeasedOrder


class ReportedOrder(OrderState, frozen=True):
    """The state of the order, and whether to print a receipt."""

    print: bool


class ProgressAnswer(Response, frozen=True):
    """The permit to authorize until a time, or the state of the order."""

    go: bool | None = None
    until: Time | None = None
    order: LeasedOrder | None = None


class AuthorizationOutcome(Response, frozen=True):
    """The acquirer's answer as the order shows it. `unknown`: no outcome yet.

    With `result_required` an approval is provisional: the terminal shows it, prints and releases the goods only after
    200 to its approved result, which it sends before `until`. `issuer_data` is for the card, in base64.
    """

    outcome: Literal["approved", "declined", "unknown"]
    status_detail: str
    order: LeasedOrder
    authorization_code: str | None = None
    reference_id: str | None = None
    issuer_data: str | None = None
    result_required: Literal[True] | None = None
    until: Time | None = None
