"""What the terminals do at their acquirer, and that they are honest about it: what it said is what they report.

A terminal that charged a card without the grant, or never learned of the outcome, tells of it sooner or later, unless
the grant makes that the service's own concern.
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
from paydesk.payments.acquirer import Payment

LATE_MS = 30_000
Ask = Callable[[str, str, Any], Awaitable[Answer]]
"""A request to the node, repeated until it is known."""


@dataclass(frozen=True, slots=True)
class Charge:
    """That a terminal was at the acquirer's: what is true of it there, and since when at the earliest that is known."""

    outcome: str
    late_ms: int = 0


@dataclass
class Purse:
    """Of each order the card that was presented, and what the acquirer has told its terminal of it."""

    notes: Notes
    ask: Ask
    told: dict[str, dict[str, str]] = field(default_factory=dict)
    cards: dict[str, str] = field(default_factory=dict)

    async def presented(self, op: Op, card: str) -> Charge | None:
        """Charge the order's payment, or hear of it again; None where nothing new is true."""
        is_new = op.order_id not in self.cards
        card = self.cards.setdefault(op.order_id, card)
        told = await self._authorized(op, card)
        if not is_new:
            return None
        if told["outcome"] == "unknown" and card == "late":
            return Charge("approved", LATE_MS)
        if told["outcome"] == "unknown":
            # It is lost once; what is true the next one says, of which this terminal does not hear yet.
            told = await self._authorized(op, card, is_heard=False)
        return Charge(told.get("status_detail", "approved"))

    async def _authorized(self, op: Op, card: str, *, is_heard: bool = True) -> dict[str, str]:
        seed = self.notes.seeds[op.terminal]
        amount_minor = self.notes.amounts[op.order_id]
        payment = Payment(seed.seller, seed.terminal_id, f"PAY{op.order_id[3:]}", amount_minor, "BRL")
        told: dict[str, str] = (await self.ask("POST", PATH, asking(payment, card))).body
        if is_heard and told["outcome"] != "unknown" and op.order_id not in self.told:
            self.told[op.order_id] = told
            outcome: Any = told["outcome"]
            self.notes.records.charges.append(ChargeRecord(op.order_id, outcome, told.get("reference_id", "")))
        return told

    def honest(self, op: Op) -> Op:
        """The result as the terminal may report it."""
        told = self.told.get(op.order_id)
        if told is None:
            is_open = op.order_id in self.cards and op.content in ("approved", "declined", "canceled")
            return replace(op, content="unknown") if is_open else op
        if told["outcome"] == "approved":
            content: Any = op.content if op.content in ("approved_less", "unknown") else "approved"
            return replace(op, content=content, reference_id=told["reference_id"])
        if op.content == "canceled":
            return op
        content = "declined" if op.content == "approved" else op.content
        return replace(op, content=content, detail=told["status_detail"])

    def wanted(self, op: Op) -> str:
        """The card that is presented before this request; none where the terminal says so by itself."""
        if op.order_id in self.cards:
            return self.cards[op.order_id]
        if op.kind == "charge":
            return CARDS.get(op.content, "visa_approved")
        return "visa_approved" if op.content == "approved" else ""

    def missed_wakeups(self) -> list[str]:
        """Orders whose approval only their terminals can tell of: nobody had let them charge, or they had said no."""
        reported = {op.order_id for op in self.notes.results if op.content == "approved" and op.reference_id}
        given_up = {op.order_id for op in self.notes.results if op.content in ("declined", "canceled")}
        granted = {order_id for order_id, order in self.notes.records.orders.items() if order.granted}
        return [one for one in self.cards if one not in reported and one not in granted - given_up]
