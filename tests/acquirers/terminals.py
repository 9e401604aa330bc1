"""Terminals of kind `service` with their tills: one sale after the other, each with a behavior, and refunds."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from authorize_scene import request_of
from faults.caller import Answer, Caller, GaveUp
from service import approved, order_body
from waiting import timer, until

BEHAVIORS = {
    "approve": 56,
    "approve_twice": 8,
    "decline": 8,
    "cancel": 6,
    "give_up": 4,
    "silent": 3,
    "late": 3,
    "restart": 4,
    "restart_early": 6,
    "restart_with_result": 4,
    "other_amount": 4,
}
"""What a terminal does with the answer to its authorization, and how often."""
DECLINED_SHARE, DECLINED_MINOR = 0.1, (9_990_002, 9_990_010, 9_990_011, 9_990_020)
"""Amounts that the example switch declines, or answers only when it is asked again."""
CHANGES: dict[str, dict[str, Any]] = {
    "decline": {"outcome": "declined", "status_detail": "insufficient_amount"},
    "cancel": {"outcome": "canceled", "status_detail": "canceled_on_terminal"},
    "give_up": {"outcome": "unknown", "status_detail": None},
}
REFUNDED_SHARE = 0.35
REFUSED_REFUNDS = ("refund_in_progress", "cannot_refund_order", "order_already_refunded", "refund_amount_exceeds")
AUTHORIZE_SECONDS_MAX, REPEATS_MAX = 27.0, 4
LATE_REFUND_SECONDS, EARLY_SECONDS = 3.0, (0.01, 0.6)
LOOK_SECONDS = 0.25
"""How often a till looks at an order that is not final."""


@dataclass
class Sale:
    """An order, and what its terminal said of it."""

    order_id: str
    behavior: str
    amount_minor: int
    is_approved: bool = False
    """Whether the terminal has reported the approval, as ordered."""
    refunds: list[str] = field(default_factory=list)
    """The refunds that were answered with 201."""


@dataclass
class Terminal:
    """One terminal and its till."""

    caller: Caller
    terminal_id: str
    device_token: str
    access_token: str
    now_ms: Callable[[], int]
    sales: list[Sale] = field(default_factory=list)
    refunding: set[asyncio.Task[None]] = field(default_factory=set)
    _boot_id: str = ""

    async def run(self, numbers: Iterator[int]) -> None:
        """Sell until the numbers end."""
        try:
            await self._hello([])
            for _ in numbers:
                await self._sell()
        except GaveUp:
            return

    async def _sell(self) -> None:
        chance = self.caller.chance
        amount_minor = chance.randint(100, 9999) if chance.random() >= DECLINED_SHARE else chance.choice(DECLINED_MINOR)
        behavior = chance.choices(list(BEHAVIORS), list(BEHAVIORS.values()))[0]
        body = order_body(self.terminal_id, _decimal(amount_minor))
        created = await self._till("/v1/orders", body)
        if created.status != 201:
            return
        sale = Sale(created.body["id"], behavior, amount_minor)
        self.sales.append(sale)
        lease_id = sale.order_id[3:]
        await self._device("POST", f"/leases/{lease_id}/ack", {"boot_id": self._boot_id})
        if behavior == "restart_early":
            answer = await self._interrupted(sale)
        else:
            answer = await self._authorized(lease_id)
        if answer.status == 200 and answer.body["outcome"] == "approved":
            await self._report(sale, answer.body)
        order = await self._until_final(sale.order_id)
        if order["status"] == "processed" and chance.random() < REFUNDED_SHARE:
            await self._refund(sale)

    async def _interrupted(self, sale: Sale) -> Answer:
        """Request the authorization, and restart before its answer; go on if the request has not arrived."""
        request = asyncio.create_task(self._authorized(sale.order_id[3:]))
        await timer(self.caller.chance.uniform(*EARLY_SECONDS)).wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        if await self._hello([self._entry(sale, {})]) == "resume":
            return await self._authorized(sale.order_id[3:])
        return Answer(0)

    async def _authorized(self, lease_id: str) -> Answer:
        """Request the authorization; repeat the request while its outcome is unknown and the order waits."""
        for _ in range(REPEATS_MAX):
            answer = await self._device(
                "POST",
                f"/leases/{lease_id}/authorize",
                request_of(self._boot_id),
                expected=("order_finished", "order_canceled"),
                timeout_seconds=AUTHORIZE_SECONDS_MAX,
            )
            if answer.status != 200 or answer.body["outcome"] != "unknown":
                break
            if answer.body["order"]["status_detail"] != "at_terminal":
                break
            await asyncio.sleep(0.2)
        return answer

    async def _report(self, sale: Sale, authorized: dict[str, Any]) -> None:
        """Report what the card and the buyer say of the approval."""
        content = {**approved(_decimal(sale.amount_minor)), "reference_id": authorized["reference_id"]}
        result_id = str(uuid.uuid4())
        content |= CHANGES.get(sale.behavior, {})
        if sale.behavior == "other_amount":
            content["paid_amount"] = _decimal(sale.amount_minor + 1)
        if sale.behavior == "late" and authorized.get("until"):
            until_ms = datetime.fromisoformat(authorized["until"]).timestamp() * 1000
            await until(lambda: self.now_ms() > until_ms + 2000)
        if sale.behavior in ("restart", "restart_with_result"):
            result = {**content, "result_id": result_id} if sale.behavior == "restart_with_result" else {}
            if await self._hello([self._entry(sale, result)]) != "report":
                return
        if sale.behavior == "silent":
            return
        sale.is_approved = content["outcome"] == "approved" and sale.behavior != "other_amount"
        times = 2 if sale.behavior == "approve_twice" else 1
        await asyncio.gather(*[self._result(sale.order_id, result_id, content) for _ in range(times)])

    async def _result(self, order_id: str, result_id: str, content: dict[str, Any]) -> None:
        await self._device(
            "PUT",
            f"/leases/{order_id[3:]}/results/{result_id}",
            {"boot_id": self._boot_id, **content},
            expected=("result_conflict", "order_finished"),
        )

    def _entry(self, sale: Sale, result: dict[str, Any]) -> dict[str, Any]:
        entry = {"lease_id": sale.order_id[3:], "last_step": "authorizing", "sent": True}
        return {**entry, **({"result": result} if result else {})}

    async def _hello(self, journal: list[dict[str, Any]]) -> str:
        """Start with the journal; return the verdict on its entry."""
        self._boot_id = str(uuid.uuid4())
        body = {"boot_id": self._boot_id, "app_version": "1", "journal": journal}
        answer = await self._device("POST", "/hello", body)
        verdicts = answer.body.get("leases", ())
        return str(verdicts[0]["verdict"]) if verdicts else ""

    async def _until_final(self, order_id: str) -> dict[str, Any]:
        while True:
            answer = await self.caller.known("GET", f"/v1/orders/{order_id}", headers=self._token(self.access_token))
            order: dict[str, Any] = answer.body
            if order["status"] not in ("created", "at_terminal"):
                return order
            await asyncio.sleep(LOOK_SECONDS)

    async def _refund(self, sale: Sale) -> None:
        """Refund it at once, whole or in parts, or later."""
        part_minor = self.caller.chance.randint(1, sale.amount_minor - 1)
        match self.caller.chance.randrange(4):
            case 0:
                await self._refund_part(sale, None)
            case 1:
                await self._refund_part(sale, part_minor)
            case 2:
                parts = (part_minor, sale.amount_minor - part_minor)
                await asyncio.gather(*[self._refund_part(sale, minor) for minor in parts])
            case 3:
                task = asyncio.create_task(self._refund_later(sale))
                self.refunding.add(task)

    async def _refund_later(self, sale: Sale) -> None:
        await timer(LATE_REFUND_SECONDS).wait()
        await self._refund_part(sale, None)

    async def _refund_part(self, sale: Sale, minor: int | None) -> None:
        part = {"id": f"PAY{sale.order_id[3:]}", "amount": _decimal(minor or 0)}
        body = None if minor is None else {"transactions": [part]}
        answer = await self._till(f"/v1/orders/{sale.order_id}/refund", body, expected=REFUSED_REFUNDS)
        if answer.status == 201:
            sale.refunds.append(answer.body["transactions"]["refunds"][0]["id"])

    async def _till(self, path: str, body: Any, *, expected: tuple[str, ...] = ()) -> Answer:
        headers = {**self._token(self.access_token), "X-Idempotency-Key": str(uuid.uuid4())}
        return await self.caller.known("POST", path, body, headers=headers, expected=expected, timeout_seconds=9.0)

    async def _device(
        self, method: str, path: str, body: Any, *, expected: tuple[str, ...] = (), timeout_seconds: float = 4.0
    ) -> Answer:
        headers = self._token(self.device_token)
        return await self.caller.known(
            method, f"/device/v1{path}", body, headers=headers, expected=expected, timeout_seconds=timeout_seconds
        )

    @staticmethod
    def _token(token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}


def _decimal(minor: int) -> str:
    return f"{minor // 100}.{minor % 100:02}"
