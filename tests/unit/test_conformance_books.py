"""The comparison of an acquirer's ledger with the orders: a sentence for each difference, none for equal books."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from paydesk.engine.payments.acquirer import LedgerEntry
from paydesk_dev.conformance.acquirers.books import differences
from tables import each

PAYMENT = "PAY01J67CQQH5904WDBVZEM4JMEP3"


def entry(kind: Any, amount_minor: int = 1234, *, currency: str = "BRL", outcome: str = "approved") -> LedgerEntry:
    """Return an entry of the payment."""
    return LedgerEntry("1", datetime.now(UTC), kind, PAYMENT, "KEY", amount_minor, currency, "1", outcome)


@each(
    "net_minor, entries, sentence",
    [
        (0, (), ""),
        (1234, (entry("payment"),), ""),
        (0, (entry("payment"), entry("reversal")), ""),
        (834, (entry("payment"), entry("refund", 400)), ""),
        (1234, (entry("payment", outcome="provisional"), entry("confirmation")), ""),
        (0, (entry("payment", outcome="provisional"), entry("reversal")), ""),
        (0, (entry("payment"),), "is 0 BRL in minor units in Paydesk and 1234 in the ledger"),
        (1234, (), "is 1234 BRL in minor units in Paydesk and 0 in the ledger"),
        (834, (entry("payment"), entry("refund", 400), entry("refund", 400)), "and 434 in the ledger"),
        (2468, (entry("payment"), entry("payment")), "has 2 entries of kind payment"),
        (1234, (entry("payment"), entry("confirmation"), entry("confirmation")), "has 2 entries of kind confirmation"),
        (1234, (entry("payment", currency="ARS"),), "is in BRL in Paydesk and in ARS in the ledger"),
        (1234, (entry("payment", outcome="provisional"),), "is still provisional"),
    ],
)
def test_a_difference_is_a_sentence(net_minor: int, entries: tuple[LedgerEntry, ...], sentence: str) -> None:
    """It names the payment. Entries of other payments do not count."""
    sentences = differences({PAYMENT: (net_minor, "BRL")}, entries)
    assert len(sentences) == bool(sentence)
    assert all(one.startswith(PAYMENT) and sentence in one for one in sentences)
    assert differences({"PAY-other": (0, "BRL")}, entries) == []
