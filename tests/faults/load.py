"""Clients under faults: each repeats what it does not know until it knows it, and keeps a record of its answers."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from service import Device, Reply, Service, approved, order_body

CREATED, AT_TERMINAL, PROCESSED, FAILED, CANCELED = "created", "at_terminal", "processed", "failed", "canceled"
DECLINED = {"outcome": "declined", "status_detail": "insufficient_amount"}
CANCELED_ON_TERMINAL = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
REPEATABLE_MAX = 3
UNKNOWN = {(503, "service_unavailable"), (423, "resource_locked")}

Request = Callable[[], Awaitable[Reply]]
Again = Callable[[], Awaitable[None]]
"""What a client does before it repeats a request whose outcome it does not know."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request and the part of its answer that every repeat must bring again."""

    what: str
    request: Request
    status: int
    content: object


@dataclass
class Record:
    """What one client was answered."""

    orders: dict[str, list[str]] = field(default_factory=dict)
    """The statuses that each order was answered with, one a version."""
    asked: tuple[str, str] | None = None
    """The order whose change is under way, and the status it would have; a new order has no id yet."""
    answered: deque[Answered] = field(default_factory=lambda: deque(maxlen=REPEATABLE_MAX))
    acknowledged: Counter[str] = field(default_factory=Counter)
    unknown: int = 0


class Client:
    """A client that sends one request after another until `stop` is set."""

    def __init__(self, service: Service, chance: random.Random, again: Again) -> None:
        self.service, self.chance, self._again = service, chance, again
        self.record = Record()
        self.stopping = False

    async def run(self) -> None:
        """Run until `stop` is set; complete the request in progress."""
        await self.begin()
        while not self.stopping:
            await self.turn()

    async def begin(self) -> None:
        """Whatever comes first."""

    async def turn(self) -> None:
        """One order, or one refresh."""
        raise NotImplementedError

    async def known(self, what: str, request: Request) -> Reply:
        """Repeat the very same request until its answer says what became of it."""
        while True:
            try:
                reply = await request()
            except (aiohttp.ClientError, TimeoutError):
                reply = None
            if reply is not None and reply.status < 500 and reply.status != 423:
                self.record.acknowledged[what] += reply.status < 300
                return reply
            if reply is not None:
                assert (reply.status, reply.code) in UNKNOWN, reply
            self.record.unknown += 1
            await self._again()


class Till(Client):
    """A till and its terminal in one: orders that are canceled, paid, declined or given up."""

    def __init__(self, device: Device, chance: random.Random, again: Again) -> None:
        super().__init__(device.service, chance, again)
        self.device = device

    async def begin(self) -> None:
        """The terminal says hello."""
        hello = {"boot_id": self.device.boot_id, "app_version": "1", "journal": []}
        greeted = await self.known("hello", lambda: self.device.post("/hello", hello))
        assert greeted.status == 200, greeted

    async def turn(self) -> None:
        """One order from its creation to its end."""
        order_id = await self._created()
        if self.chance.random() < 0.2:
            await self._canceled(order_id)
            return
        await self._taken(order_id)
        await self._ended(order_id)

    async def _created(self) -> str:
        key, body = str(uuid.uuid4()), order_body(self.device.terminal.id)
        reply = await self._change("create", "", CREATED, lambda: self._post("/v1/orders", body, key))
        order_id: str = reply.body["id"]
        self.record.orders[order_id] = [CREATED]
        return order_id

    async def _canceled(self, order_id: str) -> None:
        key, path = str(uuid.uuid4()), f"/v1/orders/{order_id}/cancel"
        await self._change("cancel", order_id, CANCELED, lambda: self._post(path, None, key))

    async def _taken(self, order_id: str) -> None:
        lease_id = order_id[3:]
        polled = await self.known("poll", self.device.next)
        while polled.status == 200 and polled.body["type"] == "mode":
            # A node that has just started returns the mode first.
            polled = await self.known("poll", self.device.next)
        assert (polled.status, polled.body["lease_id"]) == (200, lease_id), polled
        await self._change("acknowledge", order_id, AT_TERMINAL, lambda: self.device.ack(lease_id), again=False)

    async def _ended(self, order_id: str) -> None:
        lease_id, result_id = order_id[3:], str(uuid.uuid4())
        content, end = CANCELED_ON_TERMINAL, CANCELED
        if self.chance.random() < 0.8:
            granted = await self.known("authorizing", lambda: self.device.authorizing(lease_id))
            assert granted.status == 200, granted
            content, end = (approved(), PROCESSED) if self.chance.random() < 0.7 else (DECLINED, FAILED)
        await self._change("result", order_id, end, lambda: self.device.result(lease_id, result_id, **content))

    async def _change(self, what: str, order_id: str, end: str, request: Request, *, again: bool = True) -> Reply:
        self.record.asked = order_id, end
        reply = await self.known(what, request)
        assert reply.status == (201 if what == "create" else 200), (what, reply)
        self.record.asked = None
        self.record.orders.setdefault(order_id or reply.body["id"], []).append(end)
        if again:
            self.record.answered.append(Answered(what, request, reply.status, reply.raw))
        return reply

    def _post(self, path: str, body: Any, key: str) -> Awaitable[Reply]:
        return self.service.request("POST", path, body, key=key)


class Refresher(Client):
    """An application that refreshes its tokens, each time with the newest refresh token."""

    def __init__(self, service: Service, tokens: dict[str, Any], chance: random.Random, again: Again) -> None:
        super().__init__(service, chance, again)
        self.tokens = tokens

    async def turn(self) -> None:
        """One refresh, and a look whether what it brought is good."""
        body = self.service.scene.refresh(self.tokens["refresh_token"])

        def refresh() -> Awaitable[Reply]:
            return self.service.request("POST", "/oauth/token", body, token=None, key=None)

        reply = await self.known("refresh", refresh)
        assert reply.status == 200, reply
        self.tokens = reply.body
        self.record.answered.append(Answered("refresh", refresh, 200, tokens_of(reply)))
        used = await self.known("use", self.use)
        assert used.status == 404, used

    def use(self) -> Awaitable[Reply]:
        """A request with the newest access token: good enough to learn that there is no such order."""
        return self.service.request("GET", f"/v1/orders/ORD{'0' * 26}", token=self.tokens["access_token"])


def tokens_of(reply: Reply) -> object:
    """What a repeated refresh must answer again; what is left of the lifetime is less each time."""
    return {name: reply.body.get(name) for name in ("access_token", "refresh_token", "scope")}


async def at_once() -> None:
    """Repeat soon."""
    await asyncio.sleep(0.05)
