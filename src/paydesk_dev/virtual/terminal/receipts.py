"""Receipts: the two copies of what a virtual terminal prints for a payment or a decline, and the words for both."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from paydesk.core.money import spelled
from paydesk_dev.virtual.journal import Entry
from paydesk_dev.virtual.scripts.presented import paid_amount

RECEIPT_CHARACTERS = 32
"""The width of a receipt's lines."""
NOTHING_CHARGED = "Nothing was charged"
REASONS = {
    "insufficient_amount": "Not enough money on the card",
    "card_disabled": "The card is disabled",
    "required_call_for_authorize": "The bank must be called first",
    "amount_limit_exceeded": "The amount is above the limit of the card",
    "rejected_by_issuer": "The bank refused the payment",
    "high_risk": "Refused because fraud is suspected",
    "bad_filled_card_data": "The data of the card is wrong",
    "max_attempts_exceeded": "Too many tries; the card is blocked",
    "invalid_installments": "The card cannot pay in these installments",
    "processing_error": "The payment could not be processed",
    "rejected_other_reason": "The payment was refused",
}
"""Each detail of a failed payment in words."""
BRANDS = {
    "visa": "Visa credit",
    "master": "Mastercard credit",
    "amex": "Amex credit",
    "debvisa": "Visa debit",
    "debmaster": "Mastercard debit",
    "account_money": "Wallet",
}
ENTRIES = {"contactless": "Contactless", "chip": "Chip", "magnetic_stripe": "Magnetic stripe"}
"""How the card was read, as the receipt says it; a wallet has no card."""
_RULE = "-" * RECEIPT_CHARACTERS


class Receipt(msgspec.Struct, frozen=True):
    """The two copies of a receipt: lines of at most `RECEIPT_CHARACTERS` characters."""

    seller: list[str]
    buyer: list[str]


class Paper(msgspec.Struct, frozen=True):
    """What the terminal printed last: a receipt, or the content of a print action."""

    number: int
    """Counts what this terminal printed, from 1."""
    receipt: Receipt | None = None
    text: str = ""
    """The content of a custom print, with its tags."""
    image: bytes = b""
    """A PNG or a JPEG."""


def described(payment_method: Mapping[str, Any], card: Mapping[str, Any] | None) -> str:
    """Return the card as a buyer recognizes it, such as `Visa credit •••• 5682`."""
    brand = BRANDS.get(payment_method.get("id", ""), "Card")
    return f"{brand} •••• {card['last_digits']}" if card is not None else brand


def of_result(entry: Entry, seller_name: str, terminal_id: str, now: datetime | None) -> Receipt | None:
    """Return the receipt of a payment, or the slip of a decline by a person's card; None where none is printed."""
    result = entry.result or {}
    outcome = result.get("outcome")
    is_slip = outcome == "declined" and entry.chosen is not None
    is_printed = entry.order.get("print_on_terminal") != "no_ticket"
    if not is_printed or (outcome != "approved" and not is_slip):
        return None
    lines = list(_lines(entry.order, result, seller_name, terminal_id, now))
    return Receipt([*lines, _centered("SELLER'S COPY")], [*lines, _centered("BUYER'S COPY")])


def _lines(
    order: Mapping[str, Any], result: Mapping[str, Any], seller_name: str, terminal_id: str, now: datetime | None
) -> Iterator[str]:
    method, card = result.get("payment_method") or {}, result.get("card")
    is_approved = result.get("outcome") == "approved"
    for line in _wrapped(seller_name.upper()):
        yield _centered(line)
    yield _RULE
    if now is not None:
        local = now.astimezone()
        yield from _pair(f"{local:%d/%m/%Y}", f"{local:%H:%M:%S}")
    yield from _pair("Terminal", terminal_id.rpartition("__")[2])
    yield from _pair("Reference", str(order.get("external_reference", "")))
    yield from _pair("Ticket", str(order.get("ticket_number") or ""))
    yield _RULE
    if method:
        yield described(method, card).upper()
        yield ENTRIES.get((card or {}).get("entry_mode", ""), "QR code")
    yield from _pair("Authorization", result.get("authorization_code") or "")
    yield from _pair("Payment", result.get("reference_id") or "")
    yield _RULE
    currency = order.get("currency", "")
    total = result.get("paid_amount") or order.get("amount", "")
    if "tip_amount" in result:
        yield from _pair(f"Amount {currency}", spelled(order["amount"], currency))
        yield from _pair(f"Tip {currency}", spelled(result["tip_amount"], currency))
        total = paid_amount(order, result)
    yield from _pair(f"TOTAL {currency}", spelled(total, currency))
    if method.get("installments", 1) > 1:
        yield from _pair("Installments", str(method["installments"]))
    yield ""
    if is_approved:
        yield _centered("APPROVED")
        is_verified = (card or {}).get("entry_mode") == "chip"
        yield _centered("PIN verified" if is_verified else "No signature needed")
    else:
        yield _centered("DECLINED")
        detail = result.get("status_detail", "")
        for line in _wrapped(REASONS.get(detail, detail)):
            yield _centered(line)
        yield _centered(NOTHING_CHARGED)
    yield ""


def _pair(left: str, right: str) -> list[str]:
    """Return the two at the edges of a line, or below each other if they are too long; nothing without the second."""
    if not right:
        return []
    space = RECEIPT_CHARACTERS - len(left) - len(right)
    if space > 0:
        return [left + " " * space + right]
    return [left, *(part.rjust(RECEIPT_CHARACTERS) for part in _wrapped(right))]


def _wrapped(text: str) -> list[str]:
    return [text] if len(text) <= RECEIPT_CHARACTERS else textwrap.wrap(text, RECEIPT_CHARACTERS)


def _centered(text: str) -> str:
    return text.center(RECEIPT_CHARACTERS).rstrip()
