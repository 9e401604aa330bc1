"""The formats of exported orders: CSV (RFC 4180), harmless in spreadsheets, and JSON lines with unchanged values."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.engine.orders.status_labels import Labels
from paydesk.operators.orders.lists import order_of
from paydesk.platform.storage.database import Row

Values = Mapping[str, Any]

COLUMNS = (
    *("id", "created_date", "status", "status_detail", "live_mode", "currency", "amount", "paid_amount", "tip_amount"),
    *("refunded_amount", "paid_date", "external_reference", "description", "terminal_id", "seller_id", "client_id"),
    *("payment_method_id", "payment_method_type", "installments", "first_digits", "last_digits", "reference_id"),
    *("authorization_code", "payer_email", "last_updated_date"),
)
BEGINS_FORMULA = "=+@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b-"
"""The characters with which a formula begins, wide and small forms included. A formula may send data elsewhere."""
_BEFORE = r"""[\s"\u200b-\u200d\ufe0f\ufeff]*"""
_FORMULA = re.compile(f"{_BEFORE}[{BEGINS_FORMULA}]")
"""A formula, after blanks and quotes, which do not count."""
_FORMULA_WITHIN = re.compile(f"([;\t\r\n])(?={_FORMULA.pattern})")
"""The start of a formula within a text, if the list separator is a semicolon or a tab: then a cell's quotes, which are
not at the start of such a cell, quote nothing, so that it ends at a separator or with the line."""


class Format(NamedTuple):
    """A format: the suffix of its files, its media type, what a file begins with, and how rows are written."""

    suffix: str
    media_type: str
    header: bytes
    written: Callable[[Sequence[Values]], bytes]


def values(row: Row, labels: Labels) -> dict[str, Any]:
    """Return the values of a row of the list by their columns; None where there is none."""
    order, last_digits = order_of(row)
    decimals = CURRENCIES[order.currency].decimals
    method = msgspec.json.decode(order.payment_method) if order.payment_method else {}
    card = msgspec.json.decode(order.card) if order.card else {}
    shown = {
        "id": order.order_id,
        "created_date": rfc3339(order.created_ms),
        "status": labels.of(order),
        "status_detail": order.payment_status_detail,
        "live_mode": bool(order.live),
        "amount": _amount(order.amount_minor, decimals),
        "paid_amount": _amount(order.paid_minor, decimals),
        "tip_amount": _amount(order.tip_minor, decimals),
        "refunded_amount": _amount(order.refunded_minor, decimals),
        "paid_date": None if order.paid_ms is None else rfc3339(order.paid_ms),
        "client_id": order.application_id,
        "payment_method_id": method.get("id"),
        "payment_method_type": method.get("type"),
        "installments": method.get("installments"),
        "first_digits": card.get("first_digits"),
        "last_digits": last_digits or card.get("last_digits"),
        "last_updated_date": rfc3339(order.updated_ms),
    }
    return {name: shown[name] if name in shown else getattr(order, name) for name in COLUMNS}


def _amount(minor: int | None, decimals: int) -> str | None:
    return None if minor is None else decimal_string(minor, decimals)


def csv_lines(rows: Sequence[Values]) -> bytes:
    """Return the rows as CSV, without a header."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([harmless(row.get(name)) for name in COLUMNS] for row in rows)
    return text.getvalue().encode()


def harmless(value: Any) -> Any:
    """Return the cell, with an apostrophe wherever a spreadsheet would see a formula in a text."""
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else value
    if ";" in value or not value.isprintable():
        value = _FORMULA_WITHIN.sub(r"\1'", value)
    return f"'{value}" if not value[:1].isalnum() and _FORMULA.match(value) else value


def json_lines(rows: Sequence[Values]) -> bytes:
    """Return each row as a JSON object on a line, without what is None."""
    given = ({name: value for name, value in row.items() if value is not None} for row in rows)
    return b"".join(msgspec.json.encode(row) + b"\n" for row in given)


FORMATS: Mapping[str, Format] = {
    "csv": Format("csv", "text/csv; charset=utf-8", f"{','.join(COLUMNS)}\r\n".encode(), csv_lines),
    "jsonl": Format("jsonl", "application/jsonl", b"", json_lines),
}
