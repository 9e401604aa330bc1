"""An attempt is recorded once the clock is trusted again."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

import webhooks_scene as scene
from paydesk.core.clock import MovableClock
from paydesk.platform.health.clock import ClockJumped
from paydesk.platform.storage.database import Database
from skipped_waits import skipped_waits


class UntrustedClock(MovableClock):
    """A clock that can be made untrusted."""

    is_trusted = True

    def now_ms(self) -> int:
        """Return the time. Raises `ClockJumped`."""
        if not self.is_trusted:
            raise ClockJumped("the wall clock jumped by 3600 s")
        return super().now_ms()


@pytest.mark.on_postgres
async def test_attempt_is_recorded_after_a_jump_of_the_clock(database: Database) -> None:
    """The receiver gets the notification once, although the clock jumped while it answered."""
    clock = UntrustedClock()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        clock.is_trusted = False
        asyncio.get_running_loop().call_later(0.5, setattr, clock, "is_trusted", True)
        return web.Response()

    order_id = scene.order_id()
    async with scene.receiver(answer) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        await scene.announce(database, clock.now_ms(), order_id)
        with skipped_waits(database):
            await worker.start_due()
            await worker.settle()
        assert len(receiver.got) == 1
    found = await scene.deliveries(database, order_id)
    assert [(one.status, one.attempts) for one in found] == [("delivered", 1)]
