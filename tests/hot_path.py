"""Everything that is done again and again, done once: what tills, terminals and workers ask of the database."""

from __future__ import annotations

import asyncio
from typing import Any

from oauth_scene import DAY_MS, SECOND_MS
from page_scene import Browser, session_of
from paydesk.core.clock import MovableClock
from paydesk.engine.device.polling import missed_wakeups
from paydesk.engine.events import relay
from paydesk.engine.orders import expiry
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from paydesk.service.retention import Sweep
from recording_database import RecordingDatabase
from refund_scene import DECLINED, LATE_DECLINED, paid, refund, work
from refund_scene import worker as worker_of_refunds
from service import KEYS, Device, Service, Terminal, running
from webhooks_scene import failing, receiver, step, subscribe, worker


async def statements(database: Database) -> dict[str, tuple[Any, ...]]:
    """The statements of the hot path, each with arguments it was asked with."""
    recording, clock = RecordingDatabase(database), MovableClock()
    clock.freeze()
    settings = Settings(bearer_cache_seconds=0)
    async with (
        receiver() as good,
        receiver(failing(500)) as bad,
        running(recording, clock=clock, settings=settings, workers=False) as service,
    ):
        service.scene.clock = clock
        for receiving in (good, bad):
            for topic in ("orders", "mp-connect"):
                application_id = service.scene.application.application_id
                await subscribe(database, receiving.url, application_id=application_id, topic=topic)
        recording.asked.clear()
        await _pages(service)
        await _tokens(service)
        await _refunds(service, clock)
        await _orders(service, clock)
        await _workers(recording, clock)
        clock.advance(181 * DAY_MS)
        assert (await service.request("GET", "/terminals/v1/list")).status == 401
        clock.advance(31 * DAY_MS)
        await Sweep(_context(recording, clock), asyncio.Event()).run()
    return recording.asked


async def _pages(service: Service) -> None:
    """A seller agrees, clicks twice, looks at who acts for them, and signs out."""
    seller = Browser(service, cookies={"paydesk_session": await session_of(service)})
    form = await seller.consent()
    for _ in range(2):
        assert (await seller.submit(form, decision="agree")).query["code"]
    page = await seller.get("/applications")
    assert (await seller.submit(page.form("/sign-out"))).status == 303


async def _tokens(service: Service) -> None:
    scene = service.scene
    code = await scene.code()

    async def token(body: dict[str, Any], status: int = 200) -> Any:
        reply = await service.request("POST", "/oauth/token", body, token=None, key=None)
        assert reply.status == status, reply
        return reply.body

    first = await token(scene.exchange(code))
    second = await token(scene.refresh(first["refresh_token"]))
    assert await token(scene.refresh(first["refresh_token"])) == second
    await token(scene.exchange(code), 400)
    third = await token(scene.refresh(second["refresh_token"]))
    await token(scene.refresh(third["refresh_token"]))
    service.scene.clock.advance(61 * SECOND_MS)
    await token(scene.refresh(first["refresh_token"]), 400)


async def _orders(service: Service, clock: MovableClock) -> None:
    """One is canceled, one paid, one expires, one is not released, and one has an unknown outcome."""
    terminal, key = await service.terminal(), {"key": "till-1"}
    order = (await service.create(terminal, **key)).body["id"]
    assert (await service.create(terminal, **key)).body["id"] == order
    await service.get(order)
    assert (await service.cancel(order)).status == 200
    device = await service.device(terminal)
    lease = await _at_terminal(service, terminal, device)
    assert (await device.authorizing(lease)).status == 200
    assert (await device.approve(lease)).status == 200
    assert (await device.next(0)).status == 204
    assert (await service.request("GET", "/terminals/v1/list")).status == 200
    wanted = await service.terminal()
    kept = await _at_terminal(service, wanted, await service.device(wanted))
    asked = await service.cancel(f"ORD{kept}", headers={"X-Allow-Cancelable-Status": "at_terminal"})
    assert asked.status == 202
    doubtful = await service.terminal()
    player = await service.device(doubtful)
    assert (await player.authorizing(await _at_terminal(service, doubtful, player))).status == 200
    assert (await service.create(terminal, expiration_time="PT30S")).status == 201
    assert (await service.request("GET", "/v1/events")).body["data"]
    clock.advance(45 * SECOND_MS)


async def _refunds(service: Service, clock: MovableClock) -> None:
    """A part is refunded, and requested twice; one is declined at once, one late; the worker comes for that."""
    order_id = await paid(service)
    for _ in range(2):
        assert (await refund(service, order_id, "1.00", key="refund-1")).status == 201
    assert (await refund(service, await paid(service, DECLINED))).status == 409
    assert (await refund(service, await paid(service, LATE_DECLINED))).status == 201
    for _ in range(2):
        assert await work(service) == 1
        clock.advance(30 * SECOND_MS)
    await worker_of_refunds(service)._pause_seconds()


async def _at_terminal(service: Service, terminal: Terminal, device: Device) -> str:
    """The lease of a new order that its terminal has acknowledged."""
    lease: str = (await service.create(terminal)).body["id"][3:]
    offered = await device.next(0)
    assert offered.body["lease_id"] == lease
    assert (await device.ack(lease)).status == 200
    return lease


async def _workers(database: Database, clock: MovableClock) -> None:
    context = _context(database, clock)
    for one in (expiry.EXPIRY.step, expiry.CANCEL_TIMEOUT.step, expiry.UNKNOWN_OUTCOME.step):
        assert await one(context) == 1
    await missed_wakeups.scan(context, asyncio.Event())
    await relay.sweep(context, asyncio.Event())
    async with worker(database, clock, webhook_retry_seconds=(1,)) as delivering:
        await step(delivering)
        clock.advance(2 * SECOND_MS)
        assert await step(delivering)
        await delivering._pause_seconds()


def _context(database: Database, clock: MovableClock) -> WorkerContext:
    return WorkerContext(database, Settings(), clock, KEYS, loopback_allowed=True)
