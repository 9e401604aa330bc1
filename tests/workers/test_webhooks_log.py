"""The log lines of deliveries: their facts in production, and what was sent in development."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

import webhooks_scene as scene
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.database import Database

SENT = ["delivery", "seller_id", "order", "request_id", "attempt", "status", "milliseconds"]
FAILED = [*SENT, "subscription", "address", "error", "next_attempt"]


async def _lines(
    database: Database, clock: MovableClock, *, development: bool
) -> tuple[list[dict[str, Any]], str, str]:
    """Return the lines of a failure and a success, the order and the receiver's address."""
    order = scene.order_id()
    with structlog.testing.capture_logs() as logged:
        async with (
            scene.receiver() as good,
            scene.receiver(scene.failing(500)) as bad,
            scene.worker(database, clock, development=development) as worker,
        ):
            for receiver in (good, bad):
                await scene.subscribe(database, receiver.url)
            await scene.announce(database, clock.now_ms(), order)
            assert await scene.step(worker) == 2
    lines = [dict(line) for line in logged if line["event"] in ("webhook_sent", "delivery_failed")]
    for line in lines:
        del line["log_level"]
    return sorted(lines, key=lambda line: str(line["event"])), order, good.url.partition("?")[0]


@pytest.mark.on_postgres
async def test_lines_of_production_do_not_change(database: Database, clock: MovableClock) -> None:
    """Their field names are an interface."""
    (failed, sent), _, _ = await _lines(database, clock, development=False)
    assert [name for name in sent if name != "event"] == SENT
    assert [name for name in failed if name != "event"] == FAILED


async def test_lines_of_development_say_what_was_sent(database: Database, clock: MovableClock) -> None:
    """And where, without the query of the URL, which may have credentials of the receiver."""
    (failed, sent), order, address = await _lines(database, clock, development=True)
    assert (sent["action"], sent["order"], sent["address"]) == ("order.created", order, address)
    assert (failed["action"], failed["order"]) == ("order.created", order)
    assert "shop=7" not in f"{failed}{sent}"
