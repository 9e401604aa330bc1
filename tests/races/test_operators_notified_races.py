"""Operators are notified once of each event and item: by several nodes, and by one that is killed in between."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

import webhooks_scene as hooks
from forks import Forks
from notified_scene import context_of, notified
from paydesk.core.clock import MovableClock
from paydesk.operators.attention import notifying
from paydesk.platform import operator_events
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Row

SIGKILLED = -9
EVENTS, NODES = 12, 3
MADE = """
SELECT e.action, d.order_id, d.version FROM deliveries d
  JOIN order_events e ON e.seller_id = d.seller_id AND e.order_id = d.order_id AND e.version = d.version
 WHERE d.seller_id = 1 ORDER BY e.action, d.version"""
FAIL = "UPDATE subscriptions SET failing_since_ms = $2 WHERE subscription_id = $1"
ITEM, EVENT = "attention.subscription_failing", "event.late_approval"

_forks = Forks("notifying_process")


async def made(database: Database) -> list[str]:
    """Return the actions of all deliveries for operators; each has its event."""
    rows: list[Row] = await database.read(lambda tx: tx.all(MADE))
    return [row[0] for row in rows]


async def record(database: Database, count: int, now_ms: int) -> None:
    """Record events, each in a transaction of its own."""
    for _ in range(count):
        event = OperatorEvent("late_approval", "ORD01J67CQQH5904WDBVZEM4JMEP3", "Late.")
        await database.write(partial(operator_events.record, event=event, now_ms=now_ms))


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_nodes_notify_once(database: Database, database_url: str) -> None:
    """Three nodes that look at the same moment make one notification of each event, of an item and of its end."""
    async with notified(database) as one:
        application = await one.application()
        await one.subscribe()
        others = [await open_database(database_url) for _ in range(NODES - 1)]
        nodes = [one.context, *(context_of(one.service, other) for other in others)]

        async def look() -> None:
            one.clock.advance(60_000)
            await asyncio.gather(*(notifying.step(node) for node in nodes for _ in range(2)))

        await look()
        await record(database, EVENTS, one.now_ms)
        await one.fail(application, one.now_ms)
        await look()
        await look()
        assert await made(database) == [ITEM] + [EVENT] * EVENTS
        await one.fail(application, None)
        await look()
        assert await made(database) == [ITEM] * 2 + [EVENT] * EVENTS
        for other in others:
            await other.close()


@pytest.mark.on_postgres
@pytest.mark.parametrize("label", ["before_commit", "after_commit"])
async def test_a_kill_between_event_and_delivery_loses_nothing(database_url: str, tmp_path: Path, label: str) -> None:
    """Wherever the worker dies, the next one goes on: each event and item has one notification."""
    clock = MovableClock(frozen_ms=1_800_000_000_000)
    now_ms = clock.now_ms()
    database = await open_database(database_url)
    application, _ = await hooks.subscribe(database, "https://8.8.8.8/hook")
    await hooks.subscribe(database, "https://8.8.8.8/hook", application_id=1, topic="operators")
    await database.close()
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    log = tmp_path / "worker.log"

    async def step(after_ms: int, at: str = "", times: int = 1) -> int:
        child = _forks.start([database_url, str(now_ms + after_ms), at, str(times)], environment, log)
        return await asyncio.to_thread(child.wait, 60)

    assert await step(0) == 0, log.read_text()[-2000:]
    database = await open_database(database_url)
    await record(database, 1, now_ms)
    await database.write(lambda tx: tx.run(FAIL, application, now_ms))
    await database.close()
    # The commits of a step: the events, and the comparison.
    for turn, times in enumerate((1, 2), start=2):
        assert await step(turn * 60_000, label, times) == SIGKILLED
    assert await step(300_000) == 0, log.read_text()[-2000:]
    assert await step(360_000) == 0, log.read_text()[-2000:]
    database = await open_database(database_url)
    assert await made(database) == [ITEM, EVENT]
    await database.close()
