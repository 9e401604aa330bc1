"""The example of a receiver of operators' notifications as a process: the worker's deliveries, and what it refuses."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
import requests

from free_port import free_port
from notified_scene import notified
from paydesk.platform import operator_events
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Database
from receiver_process import receiver
from waiting import wait_until

LATE = OperatorEvent("late_approval", "ORD01J67CQQH5904WDBVZEM4JMEP3", "An approval came late.")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_it_prints_what_is_signed_with_its_secret(database: Database, tmp_path: Path) -> None:
    """With the page of the console about it. A request without a valid signature is refused."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/operators"
    async with notified(database) as one:
        made = await one.subscribe(url=url)
        with receiver("notified.py", tmp_path, port=port, WEBHOOK_SECRET=made["secret"].reveal()) as process:
            await database.write(partial(operator_events.record, event=LATE, now_ms=one.now_ms))
            await one.step()
            expected = f"event.late_approval  {LATE.message} https://desk.example/console/orders/{LATE.subject}"
            wait_until(lambda: expected in process.printed, lambda: process.printed)
            unsigned = partial(requests.post, url, "{}", headers={"webhook-id": "1"}, timeout=30, proxies={"http": ""})
            assert (await asyncio.to_thread(unsigned)).status_code == 401
