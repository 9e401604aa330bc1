"""A clock that jumps by hours under load, and clients who note what was refused as expired: it must stay so."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from event_loops import turns
from faults.in_process import InProcessService
from oauth_scene import SECOND_MS
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.tokens import Lifetimes, Pair
from paydesk.platform.storage.database import Transaction
from service import KEYS, Device, Reply, order_body
from waiting import until

MINUTE_MS, HOUR_MS = 60 * SECOND_MS, 3600 * SECOND_MS
LIFETIME_SECONDS = 3600
TRIES_AFTER_REFUSAL = 4
"""After a jump each."""

NO_ORDER = f"/v1/orders/ORD{'0' * 26}"


class JumpingClock:
    """The machine's clock and a shift of either sign."""

    def __init__(self) -> None:
        self.offset_ms = 0
        self.jumps = 0
        self.waiting = 0
        """How many wait for the next jump."""

    def now_ms(self) -> int:
        """Return its milliseconds since 1970 in UTC."""
        return time.time_ns() // 1_000_000 + self.offset_ms

    def jump(self, chance: random.Random) -> None:
        """Anywhere within some hours or some minutes of the machine's time."""
        self.jumps += 1
        self.waiting = 0
        reach_ms = chance.choice((5 * HOUR_MS, 30 * MINUTE_MS))
        self.offset_ms = chance.randint(-reach_ms, reach_ms)


class Watch:
    """Uses one thing after another until it is refused as expired, and then again and again: it must stay refused."""

    def __init__(self, service: InProcessService, clock: JumpingClock) -> None:
        self.service, self.clock = service, clock
        self.kept = 0
        self.refused = 0
        self.accepted = 0
        self.findings: list[str] = []
        self.stopping = False

    async def run(self, one: Callable[[Watch], Awaitable[None]]) -> None:
        """Run until `stop` is set."""
        while not self.stopping:
            await one(self)

    async def keep(self) -> None:
        """Keep something for some turns of the loop, every other time until the clock has jumped."""
        self.kept += 1
        await (turns(20) if self.kept % 2 else self.until_jumped())

    async def until_jumped(self) -> None:
        """Wait until the clock has jumped."""
        jumps = self.clock.jumps
        self.clock.waiting += 1
        await until(lambda: self.stopping or self.clock.jumps > jumps)

    async def until_refused(self, what: str, use: Callable[[], Awaitable[bool]]) -> None:
        """Use it until it is refused; `use` says whether it was accepted."""
        while await use():
            self.accepted += 1
            if self.stopping:
                return
            await asyncio.sleep(0)
        self.refused += 1
        for _ in range(TRIES_AFTER_REFUSAL):
            await self.until_jumped()
            if await use():
                self.findings.append(f"{what} was refused as expired, and accepted afterwards")
                return


async def access_token(watch: Watch) -> None:
    """An access token of an hour."""
    pair = await _pair(watch.service)

    async def use() -> bool:
        reply = await watch.service.request("GET", NO_ORDER, token=pair.access_token)
        assert reply.status in (404, 401), reply
        return reply.status == 404

    await watch.until_refused("an access token", use)


async def refresh_token(watch: Watch) -> None:
    """A refresh token of an hour, kept for a moment and redeemed once."""
    pair = await _pair(watch.service)
    await _once(watch, "a refresh token", watch.service.scene.refresh(pair.refresh_token or ""))


async def code(watch: Watch) -> None:
    """A code of ten minutes, kept for a moment and exchanged once."""
    scene = watch.service.scene
    await _once(watch, "a code", scene.exchange(await scene.code()))


async def _once(watch: Watch, what: str, body: dict[str, Any]) -> None:
    await watch.keep()
    if (await _token(watch.service, body)).status == 200:
        watch.accepted += 1
        return

    async def use() -> bool:
        return (await _token(watch.service, body)).status == 200

    await watch.until_refused(what, use)


async def order(watch: Watch) -> None:
    """An order of half a minute, which its terminal acknowledges or finds canceled."""
    service = watch.service
    device = Device(service, await service.terminal(), "6f0d5b0e-0000-4000-8000-000000000000")
    hello = await device.post("/hello", {"boot_id": device.boot_id, "app_version": "1", "journal": []})
    assert hello.status == 200, hello
    body = order_body(device.terminal.id, expiration_time="PT30S")
    created = await service.request("POST", "/v1/orders", body)
    assert created.status == 201, created
    order_id = created.body["id"]
    await watch.keep()

    async def use() -> bool:
        taken = await device.ack(order_id[3:])
        assert taken.status == 200 or taken.code == "order_canceled", taken
        return taken.status == 200

    if await use():
        watch.accepted += 1
        ended = await device.result(order_id[3:], outcome="canceled", status_detail="canceled_on_terminal")
        assert ended.status in (200, 409), ended
        return
    await watch.until_refused("an order", use)
    assert (await service.get(order_id))["status_detail"] == "expired"


async def _token(service: InProcessService, body: dict[str, Any]) -> Reply:
    reply = await service.request("POST", "/oauth/token", body, token=None, key=None)
    assert reply.status == 200 or (reply.status, reply.code) == (400, "invalid_grant"), reply
    return reply


async def _pair(service: InProcessService) -> Pair:
    async def work(tx: Transaction) -> Pair:
        return await authorizations.mint_family(
            tx,
            KEYS,
            application_id=service.scene.application.application_id,
            seller_id=service.seller_id,
            scope="offline_access read write",
            live=False,
            now_ms=service.clock.now_ms(),
            lifetimes=Lifetimes(LIFETIME_SECONDS, LIFETIME_SECONDS),
        )

    return await service.database.write(work)


Kind = Callable[[Watch], Awaitable[None]]
KINDS: tuple[Kind, ...] = (access_token, refresh_token, code, order)
