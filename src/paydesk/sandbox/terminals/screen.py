"""What a virtual terminal shows at a moment: a `Screen`, made from its row. Pure: nothing is shown here.

`of` makes the screens between orders, `OrderScreens` those of one order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paydesk.core.money import spelled
from paydesk.sandbox.terminals.screens import ROWS, Row, ScreenName
from paydesk.terminals.schemas import Kind

RECEIPT_CHARACTERS = 32
"""The width of a receipt's lines."""
TRIES_MAX = 3
"""Wrong PINs until the card is blocked."""
INSTALLMENTS = (1, 2, 3, 6, 12)
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


class Receipt(msgspec.Struct, frozen=True):
    """The two copies of a receipt: lines of at most `RECEIPT_CHARACTERS` characters."""

    seller: list[str]
    buyer: list[str]


class Screen(msgspec.Struct, frozen=True):
    """A screen. `lines` is its text, line by line, complete for a person who sees nothing else."""

    name: ScreenName
    lines: tuple[str, ...] = ()
    order_id: str | None = None
    status_detail: str | None = None
    receipt: Receipt | None = None
    amount: str = ""
    currency: str = ""
    choices: tuple[int, ...] = ()
    """Percentages on `tip`, where 0 is no tip; numbers on `installments`."""
    digits: int = 0
    """The number of PIN digits entered on `pin`; the digits themselves are nowhere."""
    card: str = ""
    """The name of the test card that was presented (`simulator/cards.py`)."""
    entry: str = ""
    """The action that presented it. An inserted card stays in the terminal until `remove_card`."""
    ends_ms: int | None = None
    """When the screen ends by itself, by the machine's clock in milliseconds, if that is known."""
    actions: tuple[str, ...] = ()
    """The names of the actions that it takes (`actions.py`), without those that every screen takes."""


class Paper(msgspec.Struct, frozen=True):
    """What the terminal printed last: a receipt, or the content of a print action."""

    number: int
    """Counts what this terminal printed, from 1."""
    receipt: Receipt | None = None
    text: str = ""
    """The content of a custom print, with its tags."""
    image: bytes = b""
    """A PNG or a JPEG."""


def of(name: str, *, ends_ms: int | None = None, **texts: str) -> Screen:
    """Return the screen of that row, which belongs to no order."""
    row = ROWS[name]
    return Screen(row.name or name, _lines(row, texts), ends_ms=ends_ms, actions=row.actions)


def described(payment_method: Mapping[str, Any], card: Mapping[str, Any] | None) -> str:
    """Return the card as a buyer recognizes it, such as `Visa credit •••• 5682`."""
    brand = BRANDS.get(payment_method.get("id", ""), "Card")
    return f"{brand} •••• {card['last_digits']}" if card is not None else brand


class OrderScreens:
    """The screens of one order. `card` and `entry` are what the buyer presented, once that is known."""

    def __init__(self, order: Mapping[str, Any], seller_name: str, kind: Kind = "terminal") -> None:
        self.order, self._seller_name, self._kind = order, seller_name, kind
        self.order_id: str | None = order.get("id")
        self.card = ""
        self.entry: str = ""
        self._currency = str(order.get("currency", ""))
        self._amount = spelled(str(order.get("amount", "")), self._currency)

    def screen(self, name: str, texts: Mapping[str, str] | None = None, **fields: Any) -> Screen:
        """Return the screen of that row, with the texts that it names; while a card is inserted, asked to remove it."""
        row, is_inserted = ROWS[name], self.entry == "insert"
        hold = "Do not remove the card" if is_inserted else "Please wait"
        known = {"sum": f"{self._amount} {self._currency}", "seller": self._seller_name, "hold": hold}
        lines = _lines(row, {**known, **(texts or {})})
        if is_inserted and row.stage in ("outcome", "end"):
            name, row, lines = "remove_card", ROWS["remove_card"], (*lines, *ROWS["remove_card"].lines)
        # The service asks the acquirer with a card alone.
        useless = {"scan"} if self._kind == "service" else set[str]()
        if not is_inserted:
            useless.add("remove_card")
        about = {
            "amount": self._amount,
            "currency": self._currency,
            "card": self.card,
            "entry": self.entry,
            "actions": tuple(action for action in row.actions if action not in useless),
            **fields,
        }
        return Screen(row.name or name, lines, self.order_id, **about)

    def tip(self, percentages: tuple[int, ...]) -> Screen:
        """Return the question for a tip."""
        offered = ", ".join(f"{percent} %" for percent in percentages)
        return self.screen("tip", {"offered": offered}, choices=(0, *percentages))

    def present_card(self, ends_ms: int | None, tip: str = "") -> Screen:
        """Return the request for a card, until the order expires."""
        preferred = (self.order.get("payment_method") or {}).get("default_type")
        is_by_qr = preferred == "qr" and self._kind != "service"
        asked = "Scan the QR code, or tap, insert or swipe a card" if is_by_qr else "Tap, insert or swipe a card"
        added = f"with a tip of {spelled(tip, self._currency)}" if tip else ""
        return self.screen("present_card", {"tip": added, "asked": asked}, ends_ms=ends_ms)

    def pin(self, digits: int = 0, wrong: int = 0) -> Screen:
        """Return the request for the PIN, after so many wrong ones."""
        left = TRIES_MAX - wrong
        again = f"Wrong PIN, {left} {'tries' if left > 1 else 'try'} left" if wrong and not digits else ""
        entered = f"{digits} digit{'s' if digits != 1 else ''} entered"
        return self.screen("pin", {"again": again, "entered": entered}, digits=digits)

    def presented(self) -> Screen:
        """Return the screen while the service is asked for the permit: it takes no more actions."""
        return self.screen("pin_entered" if self.entry == "insert" else "card_read" if self.card else "code_scanned")

    def outcome(self, result: Mapping[str, Any], receipt: Receipt | None = None) -> Screen:
        """Return the screen for the result that the terminal reports, or for the outcome of an inquiry."""
        match result.get("outcome"):
            case "approved":
                paid = spelled(result.get("paid_amount") or self._amount, self._currency)
                method = result.get("payment_method")
                card = described(method, result.get("card")) if method else ""
                texts = {"paid": f"{paid} {self._currency}", "card": card}
                return self.screen("approved", texts, status_detail="accredited", amount=paid, receipt=receipt)
            case "declined":
                detail = result.get("status_detail", "")
                reason = REASONS.get(detail, REASONS["rejected_other_reason"])
                return self.screen("declined", {"reason": reason}, status_detail=detail, receipt=receipt)
            case "canceled":
                return self.canceled(" on the terminal", "canceled_on_terminal")
            case _:
                return self.unknown()

    def unknown(self) -> Screen:
        """Return the warning that the outcome is not known."""
        return self.screen("unknown", status_detail="check_on_terminal")

    def canceled(self, how: str = "", detail: str | None = None) -> Screen:
        """Return the screen of an order that was canceled before its authorization; `how` begins with a space."""
        return self.screen("canceled", {"how": how}, status_detail=detail)

    def expired(self) -> Screen:
        """Return the screen of an order that expired before its authorization."""
        return self.screen("expired", status_detail="expired")


def _lines(row: Row, texts: Mapping[str, str]) -> tuple[str, ...]:
    lines = (line.format_map(texts) for line in row.lines)
    return tuple(line for line in lines if line)
