"""A host: an acquirer's system with a ledger of its own, which does what its declared capabilities say.

It is in the test's process and survives every kill of the service. The service reaches it by `lines.LineAdapter`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from acquirers.ledger import Entry, Kind, Ledger
from paydesk.engine.payments.capabilities import Capabilities

State = Literal["provisional", "approved", "declined", "reversed", "blocked"]
UNBOUND = ("not_found", "too_late", "pending")
"""Answers that a key does not keep."""
Answer = dict[str, Any]


@dataclass
class Sale:
    """A payment in the ledger."""

    state: State
    amount_minor: int = 0
    reference_id: str = ""
    currency: str = ""
    approved_ms: int = 0
    refunded_minor: int = 0
    confirmed_by: str = ""
    """The key of its confirmation, or `host`."""


@dataclass
class Host:
    """One host. `faults` are requests that no correct service makes."""

    name: str
    capabilities: Capabilities
    now_ms: Callable[[], int]
    chance: random.Random
    declined_share: float = 0.08
    other_amount_share: float = 0.02
    sales: dict[str, Sale] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    _answers: dict[tuple[str, str], tuple[str, Answer]] = field(default_factory=dict)

    def line(self, request: dict[str, Any]) -> bytes:
        """Answer a request with a line."""
        return json.dumps(self.answer({**request})).encode() + b"\n"

    def answer(self, request: dict[str, Any]) -> Answer:
        """Answer a request; the same answer to the same key."""
        operation, payment, key = request["operation"], request["payment"], request["key"]
        call = request.pop("call")
        self.requests[operation] += 1
        self.close_day()
        if operation == "inquire":
            return self._inquire(payment["payment_id"])
        body = json.dumps(request, sort_keys=True)
        if operation not in self.capabilities.idempotent:
            # Each call counts, but one that the wire has doubled is still one.
            key = call
        if (operation, key) in self._answers:
            kept, answer = self._answers[operation, key]
            if kept != body:
                self.faults.append(f"{operation} {key} has another body: {kept} and {body}")
            return answer
        handle: Callable[[dict[str, Any]], Answer] = getattr(self, f"_{operation}")
        answer = {**handle(request), "key": request["key"], "currency": payment["currency"]}
        if answer["outcome"] not in UNBOUND:
            self._answers[operation, key] = body, answer
        return answer

    def close_day(self) -> None:
        """Confirm or undo what has not been confirmed at its deadline, as this host does."""
        for payment_id, sale in self.sales.items():
            deadline_ms = self.capabilities.confirm_until_ms(sale.approved_ms)
            if sale.state != "provisional" or deadline_ms is None or self.now_ms() < deadline_ms:
                continue
            if self.capabilities.at_deadline == "confirms":
                self._confirmed(payment_id, sale, "host")
            elif self.capabilities.at_deadline == "undoes":
                sale.state = "reversed"
                self._enter("reversal", payment_id, "host", -sale.amount_minor)

    def ledger(self) -> Ledger:
        """Return the ledger as it is now."""
        self.close_day()
        provisional = frozenset(one for one, sale in self.sales.items() if sale.state == "provisional")
        return Ledger(self.name, tuple(self.entries), provisional, tuple(self.faults))

    def _enter(self, kind: Kind, payment_id: str, key: str, minor: int) -> None:
        self.entries.append(Entry(kind, payment_id, key, minor))

    def _authorize(self, request: dict[str, Any]) -> Answer:
        payment = request["payment"]
        payment_id, amount_minor = payment["payment_id"], payment["amount_minor"]
        sale = self.sales.get(payment_id)
        if sale is not None:
            if sale.state != "blocked":
                self.faults.append(f"{payment_id} is authorized again")
            return {"outcome": "declined", "detail": "processing_error"}
        if self.chance.random() < self.declined_share:
            self.sales[payment_id] = Sale("declined")
            return {"outcome": "declined", "detail": "insufficient_amount"}
        # Without inquiries the service cannot learn the amount after a lost answer: a person resolves such an order.
        if self.capabilities.can_inquire and self.chance.random() < self.other_amount_share:
            amount_minor -= 1
        is_provisional = self.capabilities.needs_confirmation
        state: State = "provisional" if is_provisional else "approved"
        reference_id = f"{self.name}-{len(self.sales)}"
        self.sales[payment_id] = sale = Sale(state, amount_minor, reference_id, payment["currency"], self.now_ms())
        self._enter("payment", payment_id, payment_id, amount_minor)
        return {**self._approved(sale), "needs_confirmation": is_provisional}

    def _confirm(self, request: dict[str, Any]) -> Answer:
        payment_id = request["payment"]["payment_id"]
        sale = self.sales.get(payment_id)
        if sale is None:
            return {"outcome": "not_found"}
        if sale.confirmed_by == "host" or (sale.state == "reversed" and self._is_undone(payment_id)):
            return {"outcome": "too_late"}
        if sale.state != "provisional" or sale.amount_minor != request["payment"]["amount_minor"]:
            self.faults.append(f"{payment_id} is confirmed, but it is {sale}")
            return {"outcome": "declined", "detail": "processing_error"}
        self._confirmed(payment_id, sale, request["key"])
        return self._approved(sale)

    def _confirmed(self, payment_id: str, sale: Sale, by: str) -> None:
        sale.state, sale.confirmed_by = "approved", by
        self._enter("confirmation", payment_id, by, 0)

    def _inquire(self, payment_id: str) -> Answer:
        if not self.capabilities.can_inquire:
            self.faults.append(f"{payment_id} is inquired")
        sale = self.sales.get(payment_id)
        if sale is None:
            return {"outcome": "not_found"}
        if sale.state in ("provisional", "approved"):
            needs_confirmation = sale.state == "provisional"
            return {**self._approved(sale), "currency": sale.currency, "needs_confirmation": needs_confirmation}
        return {"outcome": "declined", "detail": "processing_error"}

    def _reverse(self, request: dict[str, Any]) -> Answer:
        payment_id, key = request["payment"]["payment_id"], request["key"]
        sale = self.sales.get(payment_id)
        if sale is None:
            if not self.capabilities.reversal_blocks:
                return {"outcome": "not_found"}
            self.sales[payment_id] = sale = Sale("blocked", request["amount_minor"], "none")
        if sale.state in ("reversed", "blocked", "declined"):
            return {"outcome": "approved", "reference_id": "none", "amount_minor": request["amount_minor"]}
        until_ms = self.capabilities.reverse_until_ms(sale.approved_ms)
        if until_ms is not None and self.now_ms() >= until_ms:
            return {"outcome": "too_late"}
        if sale.refunded_minor or request["reference_id"] not in ("", sale.reference_id):
            return {"outcome": "declined", "detail": "processing_error"}
        if sale.amount_minor != request["amount_minor"]:
            self.faults.append(f"{payment_id} is reversed with {request['amount_minor']}, but it is {sale}")
        sale.state = "reversed"
        self._enter("reversal", payment_id, key, -sale.amount_minor)
        return self._approved(sale)

    def _refund(self, request: dict[str, Any]) -> Answer:
        payment_id, amount_minor = request["payment"]["payment_id"], request["amount_minor"]
        sale = self.sales.get(payment_id)
        if sale is None or sale.state != "approved" or sale.refunded_minor + amount_minor > sale.amount_minor:
            self.faults.append(f"{amount_minor} of {payment_id} is refunded, but it is {sale}")
            return {"outcome": "declined", "detail": "processing_error"}
        sale.refunded_minor += amount_minor
        self._enter("refund", payment_id, request["key"], -amount_minor)
        return {
            "outcome": "approved",
            "reference_id": f"{self.name}-r{len(self.entries)}",
            "amount_minor": amount_minor,
        }

    def _is_undone(self, payment_id: str) -> bool:
        return Entry("reversal", payment_id, "host", -self.sales[payment_id].amount_minor) in self.entries

    def _approved(self, sale: Sale) -> Answer:
        return {"outcome": "approved", "reference_id": sale.reference_id, "amount_minor": sale.amount_minor}


async def listen(hosts: dict[str, Host]) -> asyncio.Server:
    """Answer requests of one line each, on a port of this machine."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                request = json.loads(line)
                writer.write(hosts[request["host"]].line(request))
                await writer.drain()
        except (ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)
