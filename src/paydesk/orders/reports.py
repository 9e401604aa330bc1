"""What a terminal reports: the model of a result, and what can't be one, masked so that it may be kept."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jiter
import msgspec
from pydantic import Field, ValidationError, model_validator

from paydesk import redaction
from paydesk.money import AMOUNT_PATTERN
from paydesk.orders.status import FAILED_DETAILS
from paydesk.wire import Model

BODY_CHARACTERS_MAX = 8_192
MASK = "***"

Outcome = Literal["approved", "declined", "canceled", "unknown"]

# Thirteen digits or more in a row, whatever stands between them: a card number, or a track with more behind it.
_CARD_NUMBER = re.compile(r"\d(?:[^0-9A-Za-z]{0,3}\d){12,}")
_ESCAPED_DIGIT = re.compile(r"\\u003([0-9])")


class PaymentMethod(Model):
    """What was paid with."""

    id: Annotated[str, Field(pattern="^[a-z_]{1,32}$", examples=["visa"])]
    type: Annotated[str, Field(pattern="^[a-z_]{1,32}$", examples=["credit_card"])]
    installments: Annotated[int, Field(ge=1, le=48)] = 1


class Card(Model):
    """As much of a card as may be kept: six digits and four."""

    first_digits: Annotated[str, Field(pattern="^[0-9]{6}$", examples=["503175"])]
    last_digits: Annotated[str, Field(pattern="^[0-9]{4}$", examples=["6351"])]
    entry_mode: Annotated[str, Field(pattern="^[a-z_]{1,32}$", examples=["contactless"])] | None = None


class Report(Model):
    """`PUT /device/v1/leases/{lease_id}/results/{result_id}`."""

    boot_id: Annotated[str, Field(pattern="^[0-9A-Fa-f-]{36}$")] | None = None
    outcome: Outcome
    status_detail: Annotated[str, Field(pattern="^[a-z_]{1,64}$", examples=["accredited"])] | None = None
    payment_method: PaymentMethod | None = None
    card: Card | None = None
    paid_amount: Annotated[str, Field(pattern=AMOUNT_PATTERN, examples=["24.90"])] | None = None
    tip_amount: Annotated[str, Field(pattern=AMOUNT_PATTERN, examples=["0.00"])] | None = None
    authorization_code: Annotated[str, Field(pattern="^[0-9A-Za-z]{1,12}$", examples=["831000"])] | None = None
    reference_id: Annotated[str, Field(pattern="^[0-9]{1,32}$", examples=["115019989861"])] | None = None

    @model_validator(mode="after")
    def _fits_its_outcome(self) -> Report:
        if self.outcome == "approved" and (self.paid_amount is None or self.payment_method is None):
            raise ValueError("an approval says what was paid, and with what")
        if self.outcome == "declined" and self.status_detail not in FAILED_DETAILS:
            raise ValueError("a decline has one of the failed details")
        if self._carries_the_card_number():
            raise ValueError("the reference is the card's number")
        return self

    def _carries_the_card_number(self) -> bool:
        if self.reference_id is None or self.card is None:
            return False
        first, last = self.card.first_digits, self.card.last_digits
        return self.reference_id.startswith(first) and self.reference_id.endswith(last)


@dataclass(frozen=True, slots=True)
class Received:
    """A result as it came: what may be kept of it, its digest, and the report where it could be read."""

    report: Report | None
    kept: str
    digest: bytes


def received(raw: bytes) -> Received:
    """Read what a terminal sent. What can't be read is kept too, without anything that looks like a card number."""
    try:
        document: Any = jiter.from_json(raw, catch_duplicate_keys=True, allow_inf_nan=False)
        report = Report.model_validate(document)
    except (ValidationError, ValueError):
        kept = masked(raw.decode("utf-8", "replace"))
        return Received(None, kept, _digest(kept))
    # Which start of the terminal says it makes no difference.
    content = report.model_dump(exclude_none=True, exclude={"boot_id"})
    kept = msgspec.json.encode(content, order="sorted").decode()
    return Received(report, kept, _digest(kept))


def masked(text: str) -> str:
    """The text without card numbers, secrets and what a database can't hold, cut to a bounded length."""
    plain = _ESCAPED_DIGIT.sub(r"\1", text).replace("\0", "\ufffd")
    return _CARD_NUMBER.sub(MASK, redaction.redacted(plain))[:BODY_CHARACTERS_MAX]


def _digest(kept: str) -> bytes:
    return hashlib.sha256(kept.encode()).digest()
