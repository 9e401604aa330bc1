"""The simulator ledger as the port shows it: an entry for each movement that took effect. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal

from paydesk.engine.payments.acquirer import LedgerEntry
from paydesk.engine.payments.simulator.ledger import LedgerPayment, Movement

Kind = Literal["payment", "confirmation", "reversal", "refund"]

_BY_ACQUIRER: dict[str | None, Kind] = {"confirms": "confirmation", "undoes": "reversal"}
"""The entries that the acquirer itself adds at the deadline of a confirmation."""
_OF_MOVEMENTS: dict[str, Kind] = {"confirmation": "confirmation", "refund": "refund"}


def entries_of(payments: Iterable[LedgerPayment], movements: Iterable[Movement], now_ms: int) -> list[LedgerEntry]:
    """Return the entries of approved payments and movements, the oldest first.

    A reversal counts where it reversed its payment: neither a second reversal nor that of a payment which the
    acquirer itself has undone.
    """
    by_payment: dict[tuple[int, str], list[Movement]] = {}
    for movement in movements:
        by_payment.setdefault((movement.seller_id, movement.payment_id), []).append(movement)
    entries = [
        entry
        for payment in payments
        for entry in _of_payment(payment, by_payment.get((payment.seller_id, payment.payment_id), []), now_ms)
    ]
    return sorted(entries, key=lambda entry: (entry.time, entry.entry_id))


def _of_payment(payment: LedgerPayment, movements: list[Movement], now_ms: int) -> Iterator[LedgerEntry]:
    outcome = "provisional" if payment.state(now_ms) == "provisional" else "approved"
    yield _entry(payment, "payment", payment.payment_id, payment.created_ms, outcome=outcome)
    for movement in movements:
        if kind := _OF_MOVEMENTS.get(movement.kind):
            key, reference_id, amount_minor = movement.movement_key, movement.reference_id, movement.amount_minor
            yield _entry(payment, kind, key, movement.created_ms, reference_id, amount_minor)
    by_acquirer = _BY_ACQUIRER.get(payment.at_deadline) if payment.is_overdue(now_ms) else None
    if by_acquirer is not None and payment.confirm_until_ms is not None:
        yield _entry(payment, by_acquirer, "", payment.confirm_until_ms)
    if payment.reversed_ms is not None and by_acquirer != "reversal":
        at_ms = payment.reversed_ms
        reversals = [moved for moved in movements if moved.kind == "reversal" and moved.created_ms == at_ms]
        reversal = min(reversals, key=lambda moved: moved.movement_key)
        yield _entry(payment, "reversal", reversal.movement_key, payment.reversed_ms, reversal.reference_id)


def _entry(
    payment: LedgerPayment,
    kind: Kind,
    key: str,
    time_ms: int,
    reference_id: str | None = None,
    amount_minor: int | None = None,
    *,
    outcome: str = "approved",
) -> LedgerEntry:
    return LedgerEntry(
        f"{kind}:{key or payment.payment_id}",
        datetime.fromtimestamp(time_ms / 1000, UTC),
        kind,
        payment.payment_id,
        key,
        payment.amount_minor if amount_minor is None else amount_minor,
        payment.currency,
        payment.reference_id if reference_id is None else reference_id,
        outcome,
    )
