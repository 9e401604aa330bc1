"""The comparison of the acquirer's ledger with the orders: what was paid, confirmed, reversed and refunded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from paydesk.engine.payments.acquirer import LedgerEntry
from paydesk.platform.storage.database import Transaction

SINGLE = ("payment", "confirmation", "reversal")
"""The kinds of which a payment has at most one entry."""
NET = """
SELECT COALESCE(paid_minor, 0) - refunded_minor, currency FROM orders WHERE seller_id = $1 AND order_id = $2"""


async def net_of(tx: Transaction, seller_id: int, order_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Return what the buyer has paid for each order after its refunds, and the currency, by the payment's id."""
    nets = {}
    for order_id in order_ids:
        row = await tx.one(NET, seller_id, order_id)
        if row is not None:
            nets[f"PAY{order_id[3:]}"] = (row[0], row[1])
    return nets


def differences(expected: Mapping[str, tuple[int, str]], entries: Sequence[LedgerEntry]) -> list[str]:
    """Return in which payments the ledger differs from what is expected of it, each as a sentence."""
    sentences = []
    for payment_id, (net_minor, currency) in expected.items():
        own = [entry for entry in entries if entry.payment_id == payment_id]
        kinds = Counter(entry.kind for entry in own)
        sentences += [
            f"{payment_id} has {count} entries of kind {kind} in the ledger"
            for kind, count in kinds.items()
            if kind in SINGLE and count > 1
        ]
        theirs_minor = sum(entry.amount_minor if entry.kind == "payment" else 0 for entry in own)
        theirs_minor -= sum(entry.amount_minor for entry in own if entry.kind in ("reversal", "refund"))
        if theirs_minor != net_minor:
            sentences.append(
                f"{payment_id} is {net_minor} {currency} in minor units in Paydesk and {theirs_minor} in the ledger"
            )
        foreign = {entry.currency for entry in own} - {currency}
        if foreign:
            sentences.append(f"{payment_id} is in {currency} in Paydesk and in {', '.join(foreign)} in the ledger")
        is_provisional = any(entry.outcome == "provisional" for entry in own)
        if is_provisional and not (kinds["confirmation"] or kinds["reversal"]):
            sentences.append(f"{payment_id} is still provisional: neither confirmed nor reversed")
    return sentences
