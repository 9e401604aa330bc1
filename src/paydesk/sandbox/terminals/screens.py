"""The text of every screen of a virtual terminal. Pure: it makes `Screen`s and shows none.

The first screens are those between orders; `OrderScreens` makes those of one order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from paydesk.core.money import spelled
from paydesk.sandbox.terminals.screen import Receipt, Screen, ScreenName
from paydesk.terminals.schemas import Kind

NOTHING_CHARGED = "Nothing was charged"
CARD_ACTIONS = ("tap", "insert", "swipe", "phone")
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

Entry = Literal["", "tap", "insert", "swipe", "phone", "scan"]


def off() -> Screen:
    """Return the dark screen."""
    return Screen("off", ("Switched off",), actions=("power_on",))


def starting(orders: int) -> Screen:
    """Return the screen from the start to the first answer of the service; the journal has so many orders."""
    journal = "The journal is empty" if not orders else f"The journal has {orders} order{'s' if orders > 1 else ''}"
    return Screen("rebooting", ("Paydesk", "Starting", journal))


def printing() -> Screen:
    """Return the screen while a print action is printed."""
    return Screen("printing", ("Printing", "Please take the paper"))


def between_orders(operating_mode: str, seller_name: str, *, takes_orders: bool) -> Screen:
    """Return the screen of a terminal that waits for an order, or takes none in its mode."""
    if takes_orders:
        return Screen("idle", ("Ready", seller_name, "Waiting for an order"))
    name = operating_mode.capitalize() if operating_mode != "UNDEFINED" else "No operating mode"
    return Screen("standalone", (name, seller_name, "This terminal takes no orders. Set its mode to PDV."))


def offline(reason: str, next_try_ms: int | None) -> Screen:
    """Return the screen of a terminal without connection; `ends_ms` is its next try."""
    lines = ("No connection", reason, "It tries again by itself") if next_try_ms is not None else (reason,)
    return Screen("offline", lines, ends_ms=next_try_ms)


def described(payment_method: Mapping[str, Any], card: Mapping[str, Any] | None) -> str:
    """Return the card as a buyer recognizes it, such as `Visa credit •••• 5682`."""
    brand = BRANDS.get(payment_method.get("id", ""), "Card")
    return f"{brand} •••• {card['last_digits']}" if card is not None else brand


class OrderScreens:
    """The screens of one order. `card` and `entry` are what the buyer presented, once that is known."""

    def __init__(self, order: Mapping[str, Any], seller_name: str, kind: Kind = "terminal") -> None:
        self.order, self._seller_name = order, seller_name
        self.order_id: str | None = order.get("id")
        self.card = ""
        self.entry: Entry = ""
        self._currency = str(order.get("currency", ""))
        self._amount = spelled(str(order.get("amount", "")), self._currency)
        method = order.get("payment_method") or {}
        self._by_qr = method.get("default_type") == "qr" and kind != "service"
        # The service asks the acquirer with a card alone.
        self._takers = (
            (*CARD_ACTIONS, "press_cancel", "press")
            if kind == "service"
            else (*CARD_ACTIONS, "scan", "press_cancel", "press")
        )

    def amount(self) -> Screen:
        """Return the screen until the service has the acknowledgement."""
        return self._screen("amount", self._sum, "New order", self._seller_name, actions=self._takers)

    def tip(self, percentages: tuple[int, ...]) -> Screen:
        """Return the question for a tip."""
        choices = (0, *percentages)
        offered = ", ".join(f"{percent} %" for percent in percentages)
        lines = "Add a tip?", self._sum, f"{offered} or no tip"
        return self._screen("tip", *lines, choices=choices, actions=("choose", "press_cancel", "press"))

    def installments(self) -> Screen:
        """Return the question for the number of installments."""
        lines = "How many installments?", self._sum, "1, 2, 3, 6 or 12"
        return self._screen("installments", *lines, choices=INSTALLMENTS, actions=("choose", "press_cancel", "press"))

    def present_card(self, ends_ms: int | None, tip: str = "") -> Screen:
        """Return the request for a card, until the order expires."""
        asked = "Scan the QR code, or tap, insert or swipe a card" if self._by_qr else "Tap, insert or swipe a card"
        added = f"with a tip of {spelled(tip, self._currency)}" if tip else ""
        lines = self._sum, added, asked, self._seller_name
        return self._screen("present_card", *lines, ends_ms=ends_ms, actions=self._takers)

    def pin(self, digits: int = 0, wrong: int = 0) -> Screen:
        """Return the request for the PIN, after so many wrong ones."""
        left = TRIES_MAX - wrong
        again = f"Wrong PIN, {left} {'tries' if left > 1 else 'try'} left" if wrong and not digits else ""
        entered = f"{digits} digit{'s' if digits != 1 else ''} entered"
        lines = self._sum, again, "Enter your PIN, then the green key", entered
        return self._screen("pin", *lines, digits=digits, actions=("pin", "press", "press_cancel"))

    def presented(self) -> Screen:
        """Return the screen while the service is asked for the permit: it takes no more actions."""
        if self.entry == "insert":
            return self._screen("pin", self._sum, "PIN entered", self._hint)
        return self._screen("present_card", self._sum, "Card read" if self.card else "Code scanned", self._hint)

    def authorizing(self) -> Screen:
        """Return the screen while the acquirer is asked, which begins with the permit."""
        return self._screen("authorizing", self._sum, "Authorizing", self._hint)

    def outcome(self, result: Mapping[str, Any], receipt: Receipt | None = None) -> Screen:
        """Return the screen for the result that the terminal reports, or for the outcome of an inquiry."""
        match result.get("outcome"):
            case "approved":
                paid = spelled(result.get("paid_amount") or self._amount, self._currency)
                method = result.get("payment_method")
                card = described(method, result.get("card")) if method else ""
                lines = "Approved", f"{paid} {self._currency}", card
                return self._ended("approved", lines, status_detail="accredited", amount=paid, receipt=receipt)
            case "declined":
                detail = result.get("status_detail", "")
                lines = "Declined", REASONS.get(detail, REASONS["rejected_other_reason"]), NOTHING_CHARGED
                return self._ended("declined", lines, status_detail=detail, receipt=receipt)
            case "canceled":
                return self.canceled("on the terminal", "canceled_on_terminal")
            case _:
                return self.unknown()

    def unknown(self) -> Screen:
        """Return the warning that the outcome is not known."""
        lines = "Outcome not known", "Do not charge again", "Paydesk asks the bank what happened"
        actions = ("remove_card",) if self.entry == "insert" else ()
        return self._screen("unknown", *lines, status_detail="check_on_terminal", actions=actions)

    def canceled(self, how: str, detail: str = "") -> Screen:
        """Return the screen of an order that was canceled before its authorization."""
        return self._ended("canceled", (f"Canceled {how}".strip(), NOTHING_CHARGED), status_detail=detail or None)

    def expired(self) -> Screen:
        """Return the screen of an order that expired before its authorization."""
        lines = "Too late", "The order expired before the payment", NOTHING_CHARGED
        return self._ended("expired", lines, status_detail="expired")

    def printing(self, receipt: Receipt | None) -> Screen:
        """Return the screen while the receipt is printed."""
        actions = ("remove_card",) if self.entry == "insert" else ()
        return self._screen("printing", "Printing", "Please take the receipt", receipt=receipt, actions=actions)

    def _ended(self, name: ScreenName, lines: tuple[str, ...], **more: Any) -> Screen:
        """Return the screen, or while the card is inserted the same with the request to remove it."""
        if self.entry != "insert":
            return self._screen(name, *lines, **more)
        return self._screen("remove_card", *lines, "Remove the card", actions=("remove_card",), **more)

    @property
    def _hint(self) -> str:
        return "Do not remove the card" if self.entry == "insert" else "Please wait"

    @property
    def _sum(self) -> str:
        return f"{self._amount} {self._currency}"

    def _screen(self, name: ScreenName, *lines: str, **more: Any) -> Screen:
        fields = {"amount": self._amount, "currency": self._currency, "card": self.card, "entry": self.entry, **more}
        return Screen(name, tuple(line for line in lines if line), self.order_id, **fields)
