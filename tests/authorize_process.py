"""A node in a process of its own that handles one authorize request, so that a test can kill it between two steps."""

from __future__ import annotations

import asyncio
import json

from authorize_scene import request_of
from device_scene import START_MS, Desk
from paydesk.core import crash_points
from paydesk.core.clock import MovableClock
from paydesk.engine.device.authorization.handlers import authorize
from paydesk.engine.device.schemas import AuthorizeRequest
from paydesk.platform.operation import Answer
from paydesk.platform.storage.connect import open_database
from shared_objects import make_shared


async def _authorize(database_url: str, about: dict[str, int | str], lease_id: str) -> None:
    database = await open_database(database_url)
    desk = Desk(database, **about, clock=MovableClock(frozen_ms=START_MS + 1000))  # type: ignore[arg-type]  # as JSON
    # The simulated acquirer follows the same clock.
    desk._shared = make_shared(database, clock=desk.clock)
    request = AuthorizeRequest.model_validate(request_of(desk.boot_id, tip_amount="1.25"))
    answer = await desk.handle(authorize, request, paths=[lease_id], in_transaction=False)
    assert isinstance(answer, Answer), answer
    await database.close()


def main(arguments: list[str]) -> None:
    """Handle the request, and die at the label."""
    database_url, about, lease_id, label = arguments
    for known in crash_points.STEP_LABELS:
        if known == label:
            crash_points.arm(known)
    asyncio.run(_authorize(database_url, json.loads(about), lease_id))
