"""A till: creates orders for its terminal, looks at them, cancels and refunds some; repeats what it does not know."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from faults.caller import Answer, Caller, GaveUp
from faults.records import KeyRecord, OrderRecord, Records, RefundRecord
from faults.scene import TerminalSeed

BUSY = "already_queued_order_on_terminal"
PATIENCE_SECONDS = 12.0
POLL_INTERVAL_SECONDS = 0.15
FINAL = ("processed", "failed", "canceled", "refunded")
PART = "10.00"
NOT_REFUNDED = ("cannot_refund_order", "order_already_refunded", "refund_amount_exceeds", "refund_in_progress")
DECLINED = b"the acquirer declined the refund"
NOT_CANCELED = ("cannot_cancel_order", "order_already_canceled")


class Till:
    """The point of sale of one terminal."""

    def __init__(self, caller: Caller, records: Records, seed: TerminalSeed, stop: asyncio.Event) -> None:
        self.caller, self.records, self.stop = caller, records, stop
        self.terminal_id, self.seller = seed.terminal_id, seed.seller
        self.look_seconds = POLL_INTERVAL_SECONDS
        self._authorization = {"Authorization": f"Bearer {seed.access_token}"}

    async def run(self) -> None:
        """Make one sale after another until `stop` is set."""
        try:
            while not self.stop.is_set():
                await self._sale()
        except GaveUp:
            return

    async def _sale(self) -> None:
        chance = self.caller.chance
        record = KeyRecord(str(uuid.uuid4()), "create", reference=uuid.uuid4().hex)
        self.records.keys.append(record)
        order = await self._create(record)
        if order is None:
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            return
        if chance.random() < 0.1:
            await self._cancel(order, at_terminal=chance.random() < 0.5)
        if chance.random() < 0.1:
            await self._create_again(record, order)
        if chance.random() < 0.1:
            await self._look_at_a_strangers()
        await self._watch(order)
        refunds = chance.choice((0, 0, 0, 1, 1, 2, 3))
        await asyncio.gather(*(self._refund(order, part=chance.random() < 0.7) for _ in range(refunds)))

    async def _refund(self, order: OrderRecord, *, part: bool) -> None:
        """Give a part of a payment back, or all that is left; several of these may be under way at once."""
        record = KeyRecord(str(uuid.uuid4()), "refund", order_id=order.order_id)
        self.records.keys.append(record)
        item = {"id": f"PAY{order.order_id[3:]}", "amount": PART}
        body = {"transactions": [item]} if part else None
        answer = await self._keyed("POST", f"/v1/orders/{order.order_id}/refund", record, body, expected=NOT_REFUNDED)
        if answer.outcome != "ok":
            return
        record.ending = "created"
        refund = answer.body["transactions"]["refunds"][0]
        self.caller.tally.acknowledged[f"refund {refund['status']}"] += 1
        self.records.refunds.append(RefundRecord(order.order_id, refund["id"], refund["amount"], refund["status"]))

    async def _create(self, record: KeyRecord) -> OrderRecord | None:
        """The order; None where another one stands on the terminal, and the key is given up."""
        body = self._body(record.reference)
        while True:
            answer = await self._keyed("POST", "/v1/orders", record, body, expected=(BUSY,))
            if answer.outcome == "ok":
                self.caller.tally.acknowledged["created"] += 1
                record.ending, record.order_id = "created", answer.body["id"]
                return self.records.saw(answer.body)
            if record.ending == "refused" or self.stop.is_set():
                return None
            # An attempt may still be in transit: only an order shows the outcome of the key.
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def _create_again(self, record: KeyRecord, order: OrderRecord) -> None:
        """The same request once more, long after it was answered."""
        answer = await self._keyed("POST", "/v1/orders", record, self._body(record.reference), expected=())
        if answer.outcome == "ok" and answer.body["id"] != order.order_id:
            self.records.violations.append(f"key {record.key} made {order.order_id}, then {answer.body['id']}")

    async def _watch(self, order: OrderRecord) -> None:
        """Look until the order has ended, or cancel it when that takes too long."""
        deadline, asked = time.monotonic() + PATIENCE_SECONDS, False
        while not self.stop.is_set():
            if await self._look(order) in FINAL:
                return
            if time.monotonic() > deadline:
                if asked:
                    return
                await self._cancel(order, at_terminal=True)
                deadline, asked = deadline + PATIENCE_SECONDS, True
            await asyncio.sleep(self.look_seconds)

    async def _look(self, order: OrderRecord) -> str:
        floor, asked_at = order.highest_version, time.monotonic()
        answer = await self.caller.known("GET", f"/v1/orders/{order.order_id}", headers=self._authorization)
        if answer.outcome != "ok":
            self.records.violations.append(f"{order.order_id} was created and is answered {answer.status}")
            return "canceled"
        self.records.saw(answer.body, asked_at=asked_at, floor=floor)
        status: str = answer.body["status"]
        return status

    async def _look_at_a_strangers(self) -> None:
        """Another seller's order is answered like one that does not exist."""
        order_id = next(reversed(self.records.orders))
        if self.records.sellers[self.records.orders[order_id].terminal_id] != self.seller:
            path = f"/v1/orders/{order_id}"
            answer = await self.caller.known("GET", path, headers=self._authorization, expected=("order_not_found",))
            if answer.outcome == "ok":
                self.records.violations.append(f"{order_id} was shown to another seller")

    async def _cancel(self, order: OrderRecord, *, at_terminal: bool) -> None:
        record = KeyRecord(str(uuid.uuid4()), "cancel", order_id=order.order_id)
        self.records.keys.append(record)
        headers = {"X-Allow-Cancelable-Status": "at_terminal"} if at_terminal else {}
        order.cancel_asked = True
        path = f"/v1/orders/{order.order_id}/cancel"
        answer = await self._keyed("POST", path, record, None, expected=NOT_CANCELED, headers=headers)
        if answer.outcome != "ok":
            return
        record.ending = "created"
        self.caller.tally.acknowledged["canceled" if answer.status == 200 else "cancel asked"] += 1
        order.canceled_answer = order.canceled_answer or answer.status == 200
        self.records.saw(answer.body)

    async def _keyed(
        self,
        method: str,
        path: str,
        record: KeyRecord,
        body: Any,
        *,
        expected: tuple[str, ...],
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """A request with a key, now and then sent twice at once."""
        sent = {**self._authorization, "X-Idempotency-Key": record.key, **(headers or {})}
        times = 2 if self.caller.chance.random() < 0.1 else 1
        try:
            answers = await asyncio.gather(
                *(self.caller.known(method, path, body, headers=sent, expected=expected) for _ in range(times))
            )
        except GaveUp:
            record.ending = "maybe"
            raise
        for answer in answers:
            if answer.outcome == "ok":
                record.answers.add((answer.status, answer.raw))
            elif DECLINED in answer.raw:
                # By the acquirer, which is an effect of the key.
                record.answers.add((answer.status, answer.raw))
                record.ending = "declined"
            elif answer.attempts > 1 and record.ending == "refused":
                record.ending = "maybe"
        return next((answer for answer in answers if answer.outcome == "ok"), answers[0])

    def _body(self, reference: str) -> dict[str, Any]:
        return {
            "type": "point",
            "external_reference": reference,
            "expiration_time": "PT30S" if reference[0] == "0" else "PT2M",
            "transactions": {"payments": [{"amount": "24.90"}]},
            "config": {"point": {"terminal_id": self.terminal_id, "print_on_terminal": "no_ticket"}},
        }
