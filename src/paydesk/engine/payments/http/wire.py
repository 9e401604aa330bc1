"""The operations of a switch: the bodies of their requests, and the results that their answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from paydesk.core.text.redaction import redacted
from paydesk.engine.payments.acquirer import (
    CHIP_DATA_BYTES_MAX,
    Advice,
    Approved,
    Card,
    ConfirmResult,
    Declined,
    InquiryResult,
    LedgerEntry,
    NotFound,
    Outcome,
    Payment,
    Result,
    ReverseResult,
    TooLate,
    Unknown,
)

R = TypeVar("R", bound=Result)

OTHER_REASON = "rejected_other_reason"
REASON_CHARACTERS_MAX = 200
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""The exceptions of decoding."""

Amount = Annotated[int, Meta(ge=0, le=10**15)]
Currency = Annotated[str, Meta(pattern="^[A-Z]{3}$")]
Reference = Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$")]
IssuerData = Annotated[bytes, Meta(max_length=CHIP_DATA_BYTES_MAX)]


class _Method(msgspec.Struct):
    id: Annotated[str, Meta(pattern="^[a-z_]{1,32}$")]
    type: Annotated[str, Meta(pattern="^[a-z_]{1,32}$")]


class _Digits(msgspec.Struct):
    first_digits: Annotated[str, Meta(pattern="^[0-9]{6}$")]
    last_digits: Annotated[str, Meta(pattern="^[0-9]{4}$")]
    entry_mode: Annotated[str, Meta(pattern="^[a-z_]{0,32}$")] = ""


class _Answer(msgspec.Struct, tag_field="outcome"):
    """An answer with status 200. Further members are ignored; a member without a value is left out, never null."""


class _Approved(_Answer, tag="approved", kw_only=True):
    payment_id: str
    key: str
    amount_minor: Amount
    currency: Currency
    reference_id: Reference
    authorization_code: Annotated[str, Meta(pattern="^[0-9A-Za-z]{1,12}$")] = ""
    needs_confirmation: bool = False
    issuer_data: IssuerData = b""
    payment_method: _Method | UnsetType = UNSET
    card: _Digits | UnsetType = UNSET
    installments: Annotated[int, Meta(ge=1, le=48)] = 0


class _Declined(_Answer, tag="declined"):
    code: str = ""
    detail: str = ""
    advice: Advice | UnsetType = UNSET
    issuer_data: IssuerData = b""


class _NotFound(_Answer, tag="not_found"):
    final: bool = False


class _TooLate(_Answer, tag="too_late"):
    pass


class _Pending(_Answer, tag="pending"):
    pass


@dataclass(frozen=True, slots=True)
class Operation(Generic[R]):
    """An operation of the switch: the end of its path, and the answers that it may give."""

    name: str
    answers: msgspec.json.Decoder[_Answer]

    def result(self, payment: Payment, body: bytes, details: Mapping[str, str]) -> Any:
        """Return the result that an answer with status 200 means, `Unknown` for an answer without a meaning.

        `details` has the details of declines by the acquirer's codes, for answers without a detail.
        """
        try:
            answer = self.answers.decode(body)
        except UNREADABLE as error:
            return Unknown(unreadable(error))
        match answer:
            case _Approved():
                return _approved(answer, payment)
            case _Declined():
                detail = answer.detail or details.get(answer.code, OTHER_REASON)
                return Declined(detail, answer.issuer_data, advice=answer.advice or None)
            case _NotFound():
                return NotFound(is_final=answer.final)
            case _TooLate():
                return TooLate()
        return Unknown("the acquirer has no outcome yet")


_DECIDED = msgspec.json.Decoder(_Approved | _Declined | _Pending)
_EVERY = msgspec.json.Decoder(_Approved | _Declined | _NotFound | _TooLate | _Pending)

AUTHORIZE: Operation[Outcome] = Operation("authorize", _DECIDED)
CONFIRM: Operation[ConfirmResult] = Operation("confirm", _EVERY)
INQUIRE: Operation[InquiryResult] = Operation(
    "inquire", msgspec.json.Decoder(_Approved | _Declined | _NotFound | _Pending)
)
REVERSE: Operation[ReverseResult] = Operation("reverse", _EVERY)
REFUND: Operation[Outcome] = Operation("refund", _DECIDED)


def request(payment: Payment, **more: Any) -> bytes:
    """Return the body of a request about the payment; what is empty is left out, bytes are base64.

    The same payment has the same body: the switch compares the bodies under a key.
    """
    method = {"id": payment.method, "type": payment.method_type}
    members = {
        "payment_id": payment.payment_id,
        "order_id": payment.order_id,
        "seller_id": payment.merchant_id,
        "store_id": payment.store_id,
        "pos_id": payment.pos_id,
        "terminal_id": payment.terminal_id,
        "external_reference": payment.external_reference,
        "amount_minor": payment.amount_minor,
        "tip_minor": payment.tip_minor,
        "currency": payment.currency,
        "payment_method": method if payment.method else None,
        "installments": payment.installments,
        "installments_cost": payment.installments_cost,
        **more,
    }
    return msgspec.json.encode({name: value for name, value in members.items() if value or isinstance(value, int)})


def presented(card: Card | None, blob: bytes) -> dict[str, Any]:
    """Return what an authorization has besides: the card, as far as it may be displayed, and its encrypted data."""
    if card is None:
        return {"encrypted_data": blob}
    digits = {"first_digits": card.first_digits, "last_digits": card.last_digits}
    return {"entry_mode": card.entry_mode, "card": digits, "encrypted_data": blob}


def _approved(answer: _Approved, payment: Payment) -> Approved | Unknown:
    if answer.payment_id != payment.payment_id:
        return Unknown("the answer differs in payment_id", differs=True)
    card, digits, method = None, answer.card, answer.payment_method
    if digits and method:
        card = Card(method.id, method.type, digits.first_digits, digits.last_digits, digits.entry_mode)
    return Approved(
        answer.reference_id,
        answer.amount_minor,
        answer.authorization_code or None,
        card,
        answer.installments or payment.installments,
        currency=answer.currency,
        key=answer.key,
        needs_confirmation=answer.needs_confirmation,
        issuer_data=answer.issuer_data,
    )


class Refused(msgspec.Struct):
    """The body of an answer with another status: the switch refused the request before it acted."""

    error: Annotated[str, Meta(pattern="^[a-z_]{1,64}$")]
    message: str = ""

    @property
    def reason(self) -> str:
        """Return what it says, as it may be logged."""
        return f"{self.error}: {readable(self.message).rstrip('.')}" if self.message else self.error


class LedgerPage(msgspec.Struct):
    """A page of the switch's ledger; `next` is the cursor of the page after it."""

    entries: list[LedgerEntry]
    next: str = ""


class EchoAnswer(msgspec.Struct):
    """The answer to an echo."""

    time: Annotated[datetime, Meta(tz=True)] | UnsetType = UNSET


def unreadable(error: Exception) -> str:
    """Return what is wrong with an answer that cannot be decoded."""
    return f"the answer is unreadable: {readable(str(error))}"


def readable(text: str) -> str:
    """Return another system's text as it may be logged: in a line, short, without secrets and card numbers."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return str(redacted(line))[:REASON_CHARACTERS_MAX]
