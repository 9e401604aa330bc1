"""A host's ledger as plain data, whichever host it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["payment", "confirmation", "reversal", "refund"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A movement that took effect: what it adds to the payment, and the key of its request."""

    kind: Kind
    payment_id: str
    key: str
    amount_minor: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a host has in the end. `faults` are requests that no correct service makes."""

    name: str
    entries: tuple[Entry, ...]
    provisional: frozenset[str]
    """Payments that are approved, and neither confirmed nor reversed."""
    faults: tuple[str, ...]

    def net_minor(self, payment_id: str) -> int:
        """Return what the payment comes to: charged, minus what was reversed and refunded."""
        return sum(one.amount_minor for one in self.entries if one.payment_id == payment_id)
