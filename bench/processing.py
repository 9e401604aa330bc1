"""Process orders over the interfaces: a till creates each one, and a terminal takes the payment."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import aiohttp

from bench.load import BenchError, memory_mb
from bench.running import Running
from bench.seed import FIRST_SERIAL, TERMINAL_PREFIX, Sizes

SAMPLES = 20


async def process(
    running: Running, orders: int, tills: int, sizes: Sizes, on_progress: Callable[[int], object]
) -> list[tuple[int, float]]:
    """Process `orders` at several terminals concurrently; return the memory in MB by the number of orders."""
    numbers, step = iter(range(1, orders + 1)), max(orders // SAMPLES, 1)
    samples = [(0, memory_mb(running.pid))]

    def done(number: int) -> None:
        on_progress(number)
        if number % step == 0:
            samples.append((number, memory_mb(running.pid)))

    connector = aiohttp.TCPConnector(limit=tills)
    devices = running.seeded["devices"][:tills]
    async with aiohttp.ClientSession(running.url, connector=connector) as session, asyncio.TaskGroup() as group:
        for place, device in enumerate(devices, start=sizes.terminals - sizes.pollers):
            terminal_id = f"{TERMINAL_PREFIX}{FIRST_SERIAL + place}"
            group.create_task(Till(session, running.seeded["access_token"], terminal_id, device).work(numbers, done))
    return samples


class Till:
    """A till with a terminal, which process one order after the other."""

    def __init__(
        self, session: aiohttp.ClientSession, access_token: str, terminal_id: str, device: dict[str, str]
    ) -> None:
        self._session, self._terminal_id, self._boot_id = session, terminal_id, device["boot_id"]
        self._till = {"Authorization": f"Bearer {access_token}"}
        self._terminal = {"Authorization": f"Bearer {device['token']}"}

    async def work(self, numbers: Any, done: Callable[[int], None]) -> None:
        """Create and process orders until the total is reached."""
        for number in numbers:
            await self._one(number)
            done(number)

    async def _one(self, number: int) -> None:
        body = {
            "type": "point",
            "transactions": {"payments": [{"amount": "24.90"}]},
            "config": {"point": {"terminal_id": self._terminal_id}},
        }
        headers = {**self._till, "X-Idempotency-Key": str(uuid.uuid4())}
        order = await self._ask("POST", "/v1/orders", body, headers, 201)
        lease = f"/device/v1/leases/{order['id'][3:]}"
        await self._offer()
        await self._ask("POST", f"{lease}/ack", {"boot_id": self._boot_id}, self._terminal)
        step = {"boot_id": self._boot_id, "seq": 1, "step": "authorizing"}
        await self._ask("POST", f"{lease}/progress", step, self._terminal)
        result = {"boot_id": self._boot_id, **APPROVED, "reference_id": f"{number:012}"}
        await self._ask("PUT", f"{lease}/results/{uuid.uuid4()}", result, self._terminal)

    async def _offer(self) -> None:
        """Poll until the order is offered; the first message of a new terminal is its mode."""
        path = f"/device/v1/next?wait=20&boot_id={self._boot_id}"
        while (await self._ask("GET", path, None, self._terminal))["type"] != "order":
            pass

    async def _ask(self, method: str, path: str, body: Any, headers: dict[str, str], expected: int = 200) -> Any:
        async with self._session.request(method, path, json=body, headers=headers) as answer:
            if answer.status != expected:
                raise BenchError(f"{method} {path}: {answer.status} {await answer.text()}")
            return await answer.json()


APPROVED = {
    "outcome": "approved",
    "status_detail": "accredited",
    "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
    "card": {"first_digits": "503175", "last_digits": "6351", "entry_mode": "contactless"},
    "paid_amount": "24.90",
    "authorization_code": "831000",
}
