"""Every screen of a virtual terminal, shown at will: for looks, which depend on no engine."""

from __future__ import annotations

import time
from typing import Any

from page_counter import PageCounter
from paydesk_dev.virtual.terminal import screens
from paydesk_dev.virtual.terminal.receipts import Receipt
from paydesk_dev.virtual.terminal.screens import INSTALLMENTS, OrderScreens, Screen

ORDER = {"id": "ORD01J67CQQH5904WDBVZEM4JMEP3", "amount": "24.90", "currency": "BRL"}
_LINES = [
    "         AURORA BAKERY",
    "--------------------------------",
    "22/11/2026              14:26:42",
    "Terminal            C151AD43AD9F",
    "--------------------------------",
    "VISA CREDIT •••• 5682",
    "Contactless",
    "Authorization             831000",
    "Payment             115019989861",
    "--------------------------------",
    "TOTAL BRL                  24.90",
    "",
    "            APPROVED",
    "      No signature needed",
    "",
]
RECEIPT = Receipt([*_LINES, "         SELLER'S COPY"], [*_LINES, "          BUYER'S COPY"])
APPROVED = {
    "outcome": "approved",
    "paid_amount": "24.90",
    "payment_method": {"id": "visa"},
    "card": {"last_digits": "5682"},
}
DECLINED = {"outcome": "declined", "status_detail": "invalid_installments"}


def _order(entry: Any = "", card: str = "", expires_ms: int | None = None) -> OrderScreens:
    made = OrderScreens(ORDER, "Aurora Bakery", expires_ms=expires_ms)
    made.entry, made.card = entry, card
    return made


def _soon(seconds: float) -> int:
    return int((time.time() + seconds) * 1000)


SCREENS: dict[str, Screen] = {
    "pairing": screens.of("pairing", code="BCDF-GHJK", ends_ms=_soon(272)),
    "idle": screens.of("idle", seller="Aurora Bakery"),
    "standalone": screens.of("standalone", mode="Standalone", seller="Aurora Bakery"),
    "amount": _order().screen("amount"),
    "tip": _order().tip((5, 10, 15)),
    "installments": _order().screen("installments", choices=INSTALLMENTS),
    "present_card": _order(expires_ms=_soon(25)).present_card("2.49"),
    "pin": _order("insert", "visa_approved").pin(0, 1),
    "authorizing": _order("tap", "visa_approved").screen("authorizing"),
    "approved": _order("tap", "visa_approved").outcome(APPROVED, RECEIPT),
    "declined": _order("swipe", "invalid_installments").outcome(DECLINED, RECEIPT),
    "remove_card": _order("insert", "master_approved").outcome(APPROVED, RECEIPT),
    "unknown": _order("tap", "no_answer").screen("unknown"),
    "printing": _order("tap", "visa_approved").screen("printing", receipt=RECEIPT),
    "canceled": _order().screen("canceled_at_till"),
    "expired": _order().screen("expired"),
    "offline": screens.of("offline", reason="The service does not answer", ends_ms=_soon(60)),
    "rebooting": screens.of("rebooting", journal="The journal has 1 order"),
    "off": screens.of("off"),
}
"""One of each kind, with the longest texts."""


async def show(counter: PageCounter, name: str) -> None:
    """Show the screen, with its receipt if it has one; the engine shows none meanwhile."""
    screen = SCREENS[name]
    if screen.receipt is not None:
        counter.display.print(receipt=screen.receipt)
    counter.display.show(screen)
