"""The terminals' authorizations at the acquirer, whose outcomes they report.

A terminal that charged without a permit, or did not get the outcome, reports it later. With a permit, the service
inquires instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from acquirer_door import PATH, asking
from faults.records import ChargeRecord
from model.notes import Notes
from model.requests import CARDS, Answer
from model.world import Op
from paydesk.engine.payments.acquirer import Payment

LATE_MS = 30_000
Ask = Callable[[str, str, Any], Awaitable[Answer]]
"""A request to the node, repeated until its outcome is known."""


@dataclass(frozen=True, slots=True)
class Charge:
    """An authorization: its outcome at the acquirer, and the delay until an inquiry finds it."""

    outcome: str
    late_ms: int = 0


@dataclass
class Purse:
    """The card presented for each order, and the outcome that its terminal got."""

    notes: Notes
    ask: Ask
    outcomes: dict[str, dict[str, str]] = field(default_factory=dict)
    cards: dict[str, str] = field(default_factory=dict)

    async def presented(self, op: Op, card: str) -> Charge | None:
        """Charge the order's payment, or repeat the request; None if it was charged before."""
        is_new = op.order_id not in self.cards
        card = self.cards.setdefault(op.order_id, card)
        outcome = await self._authorized(op, card)
        if not is_new:
            return None
        if outcome["outcome"] == "unknown" and card == "late":
            return Charge("approved", LATE_MS)
        if outcome["outcome"] == "unknown":
            # The first response is lost. A repeat returns the outcome, which this terminal does not get yet.
            outcome = await self._authorized(op, card, is_received=False)
        return Charge(outcome.get("status_detail", "approved"))

    async def _authorized(self, op: Op, card: str, *, is_received: bool = True) -> dict[str, str]:
        seed = self.notes.seeds[op.terminal]
        amount_minor = self.notes.amounts[op.order_id]
        payment = Payment(seed.seller, seed.terminal_id, f"PAY{op.order_id[3:]}", amount_minor, "BRL")
        outcome: dict[str, str] = (await self.ask("POST", PATH, asking(payment, card))).body
        if is_received and outcome["outcome"] != "unknown" and op.order_id not in self.outcomes:
            self.outcomes[op.order_id] = outcome
            charge: Any = outcome["outcome"]
            self.notes.records.charges.append(ChargeRecord(op.order_id, charge, outcome.get("reference_id", "")))
        return outcome

    def honest(self, op: Op) -> Op:
        """Return the result that the terminal may report."""
        outcome = self.outcomes.get(op.order_id)
        if outcome is None:
            is_open = op.order_id in self.cards and op.content in ("approved", "declined", "canceled")
            return replace(op, content="unknown") if is_open else op
        if outcome["outcome"] == "approved":
            content: Any = op.content if op.content in ("approved_less", "unknown") else "approved"
            return replace(op, content=content, reference_id=outcome["reference_id"])
        if op.content == "canceled":
            return op
        content = "declined" if op.content == "approved" else op.content
        return replace(op, content=content, detail=outcome["status_detail"])

    def card_for(self, op: Op) -> str:
        """Return the card to present before this request; "" if the terminal reports without one."""
        if op.order_id in self.cards:
            return self.cards[op.order_id]
        if op.kind == "charge":
            return CARDS.get(op.content, "visa_approved")
        return "visa_approved" if op.content == "approved" else ""

    def unreported(self) -> list[str]:
        """Return the orders whose approval only the terminal can report: without a permit, or reported as declined."""
        reported = {op.order_id for op in self.notes.results if op.content == "approved" and op.reference_id}
        given_up = {op.order_id for op in self.notes.results if op.content in ("declined", "canceled")}
        granted = {order_id for order_id, order in self.notes.records.orders.items() if order.granted}
        return [one for one in self.cards if one not in reported and one not in granted - given_up]
