"""Tills and terminals that sell; an answer after which a client must repeat is an error, unless they do repeat."""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from faults.scene import TerminalSeed
from service import approved, order_body

POLL_SECONDS = 20
REQUEST_SECONDS_MAX = 90
REPEAT_SECONDS = 0.3
UNAVAILABLE = frozenset({502, 503, 504})


class Failed(Exception):
    """A request had another answer than it must have."""


@dataclass
class Load:
    """What a load has seen. `offered` has the seconds from the request for an order to its arrival at the terminal."""

    base_url: str
    terminals_url: str = ""
    """The URL that terminals call, if it is another."""
    host: str = ""
    trust: ssl.SSLContext | None = None
    pause_seconds: float = 0.0
    """Between the sales of a terminal: without one the machine is busy, and all takes long."""
    offered: list[float] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    sold: int = 0
    repeats: bool = False
    """Whether a request is sent again, with its idempotency key, while the proxy says that no node takes it."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def median_offer_ms(self) -> float:
        """The median time until an order is offered."""
        return statistics.median(self.offered) * 1000

    async def run(self, terminals: Sequence[TerminalSeed]) -> None:
        """Sell at all terminals until `stop` is set."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self.trust or True)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*[self._sell(session, terminal) for terminal in terminals])

    async def _sell(self, session: aiohttp.ClientSession, terminal: TerminalSeed) -> None:
        device, boot_id = terminal.device_token, str(uuid.uuid4())
        try:
            hello = {"boot_id": boot_id, "app_version": "1", "journal": []}
            await self._ask(session, "POST", "/device/v1/hello", device, hello)
            while not self.stop.is_set():
                await self._sale(session, terminal, boot_id)
                await asyncio.sleep(self.pause_seconds)
        except Failed as error:
            self.errors.append(str(error))
        except (aiohttp.ClientError, TimeoutError) as error:
            self.errors.append(repr(error))

    async def _sale(self, session: aiohttp.ClientSession, terminal: TerminalSeed, boot_id: str) -> None:
        device, boot = terminal.device_token, {"boot_id": boot_id}
        polling = asyncio.create_task(self._offer(session, device, boot_id))
        began = time.monotonic()
        body = order_body(terminal.terminal_id)
        try:
            order = await self._ask(session, "POST", "/v1/orders", terminal.access_token, body, expected=201)
        except BaseException:
            polling.cancel()
            raise
        lease_id = await polling
        self.offered.append(time.monotonic() - began)
        if lease_id != order["id"][3:]:
            raise Failed(f"{order['id']} was created, {lease_id} offered")
        lease = f"/device/v1/leases/{lease_id}"
        await self._ask(session, "POST", f"{lease}/ack", device, boot)
        await self._ask(session, "POST", f"{lease}/progress", device, {**boot, "seq": 1, "step": "authorizing"})
        await self._ask(session, "PUT", f"{lease}/results/{uuid.uuid4()}", device, {**boot, **approved()})
        paid = await self._ask(session, "GET", f"/v1/orders/{order['id']}", terminal.access_token)
        if paid["status"] != "processed":
            raise Failed(f"{order['id']} is {paid['status']}")
        self.sold += 1

    async def _offer(self, session: aiohttp.ClientSession, device: str, boot_id: str) -> str:
        """Poll until an order is offered; return its lease."""
        path = f"/device/v1/next?boot_id={boot_id}&wait={POLL_SECONDS}"
        while True:
            message = await self._ask(session, "GET", path, device, expected=(200, 204))
            if message is not None and "lease_id" in message:
                lease_id: str = message["lease_id"]
                return lease_id

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        token: str,
        body: Any = None,
        *,
        expected: int | tuple[int, ...] = 200,
    ) -> Any:
        headers = {"Authorization": f"Bearer {token}", **({"Host": self.host} if self.host else {})}
        if method == "POST" and path.startswith("/v1/"):
            headers["X-Idempotency-Key"] = str(uuid.uuid4())
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX)
        base_url = self.terminals_url if path.startswith("/device/") else ""
        url = (base_url or self.base_url) + path
        name = self.host or None
        while True:
            async with session.request(
                method, url, json=body, headers=headers, timeout=timeout, server_hostname=name
            ) as answer:
                self.answers[answer.status] += 1
                raw = await answer.read()
            if self.repeats and answer.status in UNAVAILABLE:
                await asyncio.sleep(REPEAT_SECONDS)
                continue
            if answer.status not in (expected if isinstance(expected, tuple) else (expected,)):
                raise Failed(f"{method} {path.partition('?')[0]}: {answer.status} {raw[:300].decode(errors='replace')}")
            return json.loads(raw) if raw else None
