"""Amounts as people are shown them."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from paydesk.core.money import AMOUNT_PATTERN, CURRENCIES, minor_units, spelled
from paydesk_dev.virtual.journal import Entry
from paydesk_dev.virtual.terminal import receipts
from tables import each

APPROVED = {
    "outcome": "approved",
    "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
    "card": {"first_digits": "423564", "last_digits": "5682", "entry_mode": "contactless"},
    "paid_amount": "5",
}

AMOUNT = re.compile(AMOUNT_PATTERN[1:-1])
DECIMALS = st.sampled_from(sorted({currency.decimals for currency in CURRENCIES.values()}))
ALMOST_AMOUNTS = st.text("0123456789..+-_ eE\n\0\u0663\u00b2\uff15", max_size=16) | st.from_regex(AMOUNT)


@given(ALMOST_AMOUNTS, DECIMALS)
@example("", 2)
@example("1.", 2)
@example(".5", 2)
@example(".", 0)
@example("1.2.3", 2)
@example("1\n", 2)
@example("1.5\n", 2)
@example("007.50", 2)
@example("9" * 12 + ".99", 2)
@example("9" * 13, 0)
@example("1.5", 0)
@example("1.555", 2)
@example("\u0663", 2)
@example("1.\u00b2", 2)
@example("1_0", 2)
@example("+1", 2)
def test_an_amount_is_what_its_pattern_describes(text: str, decimals: int) -> None:
    """And it has no more decimals than its currency."""
    fraction = text.partition(".")[2]
    if AMOUNT.fullmatch(text) is None or len(fraction) > decimals:
        assert minor_units(text, decimals) is None
    else:
        assert minor_units(text, decimals) == int(text.replace(".", "") + "0" * (decimals - len(fraction)))


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
