"""Amounts as people are shown them."""

from __future__ import annotations

import re

from paydesk.core.money import spelled
from paydesk.sandbox.terminals import receipts
from paydesk.sandbox.terminals.journal import Entry
from tables import each

APPROVED = {
    "outcome": "approved",
    "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
    "card": {"first_digits": "423564", "last_digits": "5682", "entry_mode": "contactless"},
    "paid_amount": "5",
}


@each(
    "amount, currency, shown",
    [
        ("5", "BRL", "5.00"),
        ("5.1", "BRL", "5.10"),
        ("24.90", "BRL", "24.90"),
        ("5", "CLP", "5"),
        ("5", "", "5"),
        ("5", "XXX", "5"),
        ("5.123", "BRL", "5.123"),
        ("", "BRL", ""),
    ],
)
def test_an_amount_is_shown_with_the_decimals_of_its_currency(amount: str, currency: str, shown: str) -> None:
    """What is not an amount of a known currency stays unchanged."""
    assert spelled(amount, currency) == shown


def test_a_receipt_has_amounts_with_all_decimals() -> None:
    """However the application sent them."""
    order = {"id": "ORD1", "amount": "5", "currency": "BRL", "print_on_terminal": "seller_ticket"}
    for result, total in ((APPROVED, "5.00"), ({**APPROVED, "tip_amount": "1"}, "6.00")):
        receipt = receipts.of_result(Entry("1", order, result=result), "Shop", "PAYDESK_VIRTUAL__1", None)
        assert receipt is not None
        amounts = [re.sub(r" +", " ", line) for line in receipt.seller if "BRL" in line]
        assert amounts[-1] == f"TOTAL BRL {total}"
        assert amounts[:-1] in ([], ["Amount BRL 5.00", "Tip BRL 1.00"])
