"""The results that terminals report: their model, and what is recorded of an unreadable one.

Only known, well-formed fields of an unreadable result are recorded. Any other value may be a card verification value, a
PIN block or magnetic stripe data, which are never stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jiter
import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from paydesk.core.keys import Keys
from paydesk.core.model import Model
from paydesk.core.money import AMOUNT_PATTERN
from paydesk.core.text import card_numbers, redaction
from paydesk.engine.orders.status import FAILED_DETAILS, STATES
from paydesk.engine.payments.acquirer import CHIP_DATA_BYTES_MAX

NAMES_MAX = 20
BASE64_CHARACTERS_MAX = -(-CHIP_DATA_BYTES_MAX // 3) * 4
MASK = card_numbers.MASK

Outcome = Literal["approved", "declined", "canceled", "unknown"]
DETAILS = frozenset({detail for state in STATES for detail in (state.detail, state.payment_detail)})

# Letters and at most two digits, as in "track2" or "emv_57": a value can't pass for a field name.
_NAME = re.compile("[A-Za-z_-]{1,40}[0-9]{0,2}[A-Za-z_-]{0,20}")


class PaymentMethod(Model):
    """The payment method."""

    model_config = ConfigDict(title="ReportedPaymentMethod")

    id: Annotated[str, Field(pattern="^[a-z_]{1,32}$", examples=["visa"])]
    type: Annotated[str, Field(pattern="^[a-z_]{1,32}$", examples=["credit_card"])]
    installments: Annotated[int, Field(ge=1, le=48)] = 1


EntryMode = Annotated[str, Field(pattern="^[a-z_]{1,32}$", examples=["contactless"])]


class MaskedCard(Model):
    """The part of a card that may be stored: the first six and last four digits."""

    first_digits: Annotated[str, Field(pattern="^[0-9]{6}$", examples=["503175"])]
    last_digits: Annotated[str, Field(pattern="^[0-9]{4}$", examples=["6351"])]


class Card(MaskedCard):
    """A masked card, and how it was read."""

    model_config = ConfigDict(title="ReportedCard")

    entry_mode: EntryMode | None = None


def _without_card_data(reference_id: str) -> str:
    """Return the reference. Raises `ValueError` for a magnetic stripe; digits alone may be a number of the acquirer."""
    if not reference_id.isdigit() and card_numbers.carried_by_reference(reference_id):
        raise ValueError("must not have a card number")
    return reference_id


EXAMPLE: dict[str, Any] = {
    "outcome": "approved",
    "payment_method": {"id": "visa", "type": "credit_card"},
    "card": {"first_digits": "503175", "last_digits": "0604", "entry_mode": "chip"},
    "paid_amount": "24.90",
    "authorization_code": "831000",
    "reference_id": "115019989861",
}


class Report(Model):
    """The outcome of an order at the terminal. A result in another form is accepted and recorded as unreadable."""

    model_config = ConfigDict(title="Result", json_schema_extra={"examples": [EXAMPLE]})

    boot_id: Annotated[str, Field(pattern="^[0-9A-Fa-f-]{36}$")] | None = None
    outcome: Outcome
    status_detail: Annotated[str, Field(pattern="^[a-z_]{1,64}$", examples=["accredited"])] | None = None
    payment_method: PaymentMethod | None = None
    card: Card | None = None
    paid_amount: Annotated[str, Field(pattern=AMOUNT_PATTERN, examples=["24.90"])] | None = None
    tip_amount: Annotated[str, Field(pattern=AMOUNT_PATTERN, examples=["0.00"])] | None = None
    authorization_code: Annotated[str, Field(pattern="^[0-9A-Za-z]{1,12}$", examples=["831000"])] | None = None
    reference_id: (
        Annotated[
            str, Field(pattern="^[A-Za-z0-9._-]{1,64}$", examples=["115019989861"]), AfterValidator(_without_card_data)
        ]
        | None
    ) = None
    chip_data: Annotated[str | None, Field(max_length=BASE64_CHARACTERS_MAX, repr=False, examples=["nwYC"])] = None

    @model_validator(mode="after")
    def _check_outcome(self) -> Report:
        if self.outcome == "approved" and (self.paid_amount is None or self.payment_method is None):
            raise ValueError("an approval has a paid_amount and a payment_method")
        if self.outcome == "declined" and self.status_detail not in FAILED_DETAILS:
            raise ValueError("a decline has a status_detail of status failed")
        card, reference_id = self.card, self.reference_id or ""
        if card and reference_id.startswith(card.first_digits) and reference_id.endswith(card.last_digits):
            raise ValueError("the reference is a card number")
        return self


@dataclass(frozen=True, slots=True)
class Received:
    """A received result: the report, None if it is unreadable; the JSON that is recorded of it; and its digest."""

    report: Report | None
    recorded: str
    digest: bytes


def parse(raw: bytes, keys: Keys, *, card_numbers_refused: bool = False) -> Received:
    """Parse the body of a result.

    With `card_numbers_refused` a reference that looks like a card number makes the result unreadable.
    """
    try:
        document: Any = jiter.from_json(raw, catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return _received(None, {"bytes": len(raw), "digest": keyed_digest(keys, raw)})
    try:
        report = Report.model_validate(document)
    except ValidationError as error:
        return _received(None, _known_part(document, error))
    if card_numbers_refused and card_numbers.carried_by_reference(report.reference_id or ""):
        return _received(None, {"known": _fields(document, Report, ()), "reason": "the reference is a card number"})
    # A repetition after a restart has another boot_id and is the same result.
    content = report.model_dump(exclude_none=True, exclude={"boot_id", "chip_data"})
    if report.status_detail not in DETAILS:
        content.pop("status_detail", None)
    return _received(report, content)


def keyed_digest(keys: Keys, value: bytes) -> str:
    """Return a digest for comparing values. Without the server key the value can't be found by trial."""
    return keys.derive(keys.active, "reported value", value).hex()


def _received(report: Report | None, content: Mapping[str, Any]) -> Received:
    recorded = msgspec.json.encode(content, order="sorted").decode()
    return Received(report, recorded, hashlib.sha256(recorded.encode()).digest())


def _known_part(document: Mapping[str, Any], error: ValidationError) -> dict[str, Any]:
    """Return what is recorded of an invalid JSON object: its well-formed known fields, and the names of the others."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    unknown = [fault["loc"] for fault in faults if fault["type"] == "extra_forbidden"]
    malformed = [fault["loc"] for fault in faults if fault["loc"] and fault["type"] != "extra_forbidden"]
    content: dict[str, Any] = {"known": _fields(document, Report, malformed)}
    for name, paths in (("unknown", unknown), ("malformed", malformed)):
        if paths:
            names = [".".join(_masked(str(step)) for step in path) for path in paths[:NAMES_MAX]]
            content |= {name: names, f"{name}_count": len(paths)}
    reasons = [fault["msg"] for fault in faults if not fault["loc"]]
    return content | ({"reason": reasons[0].removeprefix("Value error, ")} if reasons else {})


def _fields(
    document: Mapping[str, Any],
    model: type[BaseModel],
    malformed: Iterable[tuple[int | str, ...]],
    path: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the document's known and well-formed fields that may be recorded."""
    fields: dict[str, Any] = {}
    for name in model.model_fields.keys() & document.keys() - {"boot_id", "chip_data"}:
        field_path, value = (*path, name), document[name]
        if field_path not in malformed and isinstance(value, dict):
            fields[name] = _fields(value, _OBJECTS[name], malformed, field_path)
        elif field_path not in malformed and value is not None and _may_be_recorded(name, value):
            fields[name] = value
    return fields


_OBJECTS: Mapping[str, type[BaseModel]] = {"payment_method": PaymentMethod, "card": Card}


def _may_be_recorded(name: str, value: Any) -> bool:
    if name == "status_detail":
        return value in DETAILS
    # A number of digits as in a card number is enough: the check digit may be wrong.
    return not (isinstance(value, str) and card_numbers.could_carry(value))


def _masked(name: str) -> str:
    return name if _NAME.fullmatch(name) and redaction.redacted(name) == name else MASK
