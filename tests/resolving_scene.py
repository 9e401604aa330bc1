"""Orders with unknown outcomes and late approvals for operators to resolve, with a scripted acquirer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from command_line import command
from jobs_scene import FakeAcquirer
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.storage.database import Database
from service import Device, Service, running
from waiting import HANGS_SECONDS

THREE_MINUTES_MS = 180_000
REASON = "The acquirer's portal has nothing of it."


@asynccontextmanager
async def scene(
    database: Database, clock: MovableClock, acquirer: FakeAcquirer | None
) -> AsyncIterator[tuple[Service, Device, Operator]]:
    """Yield a running service with the acquirer, a terminal and an operator."""
    clock.freeze()
    async with running(database, clock=clock, acquirers=Acquirers(test=acquirer)) as service:
        yield service, await service.device(await service.terminal()), await operator(service, "operator")
        assert await check.check(database, clock.now_ms()) == []


async def unknown(service: Service, device: Device) -> str:
    """Create an order whose terminal reports an unknown outcome; return its id."""
    order_id: str = (await service.create(device.terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    assert (await device.authorizing(order_id[3:])).status == 200
    assert (await device.result(order_id[3:], outcome="unknown")).status == 200
    return order_id


async def until(service: Service, order_id: str, **wanted: Any) -> dict[str, Any]:
    """Return the order's inquiry or reversal once it has the given values."""
    asking = await operator(service, "support")
    async with asyncio.timeout(HANGS_SECONDS):
        while True:
            for noun in ("inquiries", "reversals"):
                for one in (await asking.did("GET", noun))["data"]:
                    if one["order_id"] == order_id and wanted.items() <= one.items():
                        return dict(one)
            await asyncio.sleep(0.02)


async def advancing(service: Service, clock: MovableClock, awaited: Coroutine[Any, Any, dict[str, Any]]) -> Any:
    """Await it while the clock advances: an attempt that was in progress at a first advance is repeated later."""
    task = asyncio.create_task(awaited)
    while not task.done():
        clock.advance(THREE_MINUTES_MS)
        service.database.signals.notify(["clock"])
        await asyncio.wait({task}, timeout=0.5)
    return task.result()


async def typed(person: Operator, folder: Path, *words: str) -> str:
    """Return the command line's output, or its exit code and error."""
    ended = await asyncio.to_thread(
        lambda: command(
            *words, folder=folder, PAYDESK_BASE_URL=person.service.base_url, PAYDESK_OPERATOR_TOKEN=person.token
        )
    )
    return ended.stdout if ended.returncode == 0 else f"{ended.returncode}: {ended.stderr}"
