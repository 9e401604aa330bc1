"""An adapter that records what the engine asked of it and what it answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paydesk.engine.payments.acquirer import Acquirer, Payment, Result

OPERATIONS = ("authorize", "confirm", "inquire", "refund", "reverse")


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of the engine: the operation, the payment's id, and the result."""

    operation: str
    payment_id: str
    result: Result


class Recorded:
    """The adapter under test, as the engine calls it."""

    def __init__(self, adapter: Acquirer) -> None:
        self.adapter, self.asked = adapter, list[Asked]()
        self.running: list[str] = []
        """The operations of the calls that are under way."""

    def __getattr__(self, name: str) -> Any:
        """Return the adapter's own; its operations are recorded."""
        own = getattr(self.adapter, name)
        if name not in OPERATIONS:
            return own

        async def recorded(payment: Payment, *args: Any, **options: Any) -> Result:
            self.running.append(name)
            try:
                result: Result = await own(payment, *args, **options)
            finally:
                self.running.remove(name)
            self.asked.append(Asked(name, payment.payment_id, result))
            return result

        return recorded
