"""The comparison of the acquirer's ledger with the orders: what was paid, confirmed, reversed and refunded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from paydesk.engine.payments.acquirer import LedgerEntry

SIGNS = {"payment": 1, "confirmation": 0, "reversal": -1, "refund": -1}
"""How an entry of this kind counts in what the buyer has paid."""
SINGLE = ("payment", "confirmation", "reversal")
"""The kinds of which a payment has at most one entry."""


def differences(expected: Mapping[str, tuple[int, str]], entries: Sequence[LedgerEntry]) -> list[str]:
    """Return in which payments the ledger differs, each as a sentence.

    `expected`: what the buyer has paid after refunds, in minor units, and the currency, by the payment's id.
    """
    return [
        f"{payment_id} {sentence}"
        for payment_id, (net_minor, currency) in expected.items()
        for sentence in _of_payment(net_minor, currency, [one for one in entries if one.payment_id == payment_id])
    ]


def _of_payment(net_minor: int, currency: str, entries: Sequence[LedgerEntry]) -> Iterator[str]:
    kinds = Counter[str](entry.kind for entry in entries)
    for kind in SINGLE:
        if kinds[kind] > 1:
            yield f"has {kinds[kind]} entries of kind {kind} in the ledger"
    theirs_minor = sum(SIGNS[entry.kind] * entry.amount_minor for entry in entries)
    if theirs_minor != net_minor:
        yield f"is {net_minor} {currency} in minor units in Paydesk and {theirs_minor} in the ledger"
    foreign = {entry.currency for entry in entries} - {currency}
    if foreign:
        yield f"is in {currency} in Paydesk and in {', '.join(foreign)} in the ledger"
    if any(entry.outcome == "provisional" for entry in entries) and not (kinds["confirmation"] or kinds["reversal"]):
        yield "is still provisional: neither confirmed nor reversed"
