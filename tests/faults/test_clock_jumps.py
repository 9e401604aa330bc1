"""Wall clocks that jump under load, forward by hours and back by hours: what was refused as expired stays so."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from faults.clock_jumps import HOUR_MS, KINDS, JumpingClock, Kind, Watch
from faults.in_process import InProcessService
from faults.machine import NO_SESSION, Machine, log_watched
from oauth_scene import make_scene
from paydesk.engine.invariants import check
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from paydesk.service.workers import WORKERS, run_all
from service import KEYS, access_token
from waiting import until

JUMPS = 60
USES_A_JUMP = 24
WATCHES_OF_A_KIND = 3
EXPIRY = tuple(worker for worker in WORKERS if worker.name == "orders.expiry")


async def test_expired_stays_expired_when_clocks_jump(database: Database, chance: random.Random) -> None:
    """Tokens, codes and orders, whatever the clock says afterwards; the histories have no gap."""
    clock = JumpingClock()
    service = await _service(database, clock)
    watches = {kind: [Watch(service, clock) for _ in range(WATCHES_OF_A_KIND)] for kind in KINDS}
    with log_watched() as defects:
        await _jump_about(service, clock, watches, chance)
    assert defects == []
    clock.offset_ms = 0
    assert await check.check(database) == []
    for kind, of_a_kind in watches.items():
        assert [finding for watch in of_a_kind for finding in watch.findings] == []
        assert sum(watch.refused for watch in of_a_kind) > 0, f"of kind {kind.__name__} nothing expired"
        assert sum(watch.accepted for watch in of_a_kind) > 0, f"of kind {kind.__name__} nothing was good"


async def _jump_about(
    service: InProcessService, clock: JumpingClock, watches: dict[Kind, list[Watch]], chance: random.Random
) -> None:
    """Let everybody use what they have, beside the worker that expires orders, and move the clock again and again."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(watch.run(kind)) for kind, of_a_kind in watches.items() for watch in of_a_kind]
    workers = asyncio.create_task(run_all(WorkerContext(service.database, Settings(), clock, KEYS), stop, EXPIRY))
    for _ in range(JUMPS):
        uses = _uses(watches) + USES_A_JUMP
        await until(lambda: _uses(watches) >= uses or clock.waiting == len(tasks))  # noqa: B023 - called in this round
        clock.jump(chance)
    for of_a_kind in watches.values():
        for watch in of_a_kind:
            watch.stopping = True
    await asyncio.gather(*tasks)
    stop.set()
    await workers


def _uses(watches: dict[Kind, list[Watch]]) -> int:
    return sum(watch.accepted + watch.refused for of_a_kind in watches.values() for watch in of_a_kind)


async def _service(database: Database, clock: JumpingClock) -> InProcessService:
    scene = await make_scene(database)
    # A frozen clock of its own would make codes that are long expired.
    scene.clock = clock  # type: ignore[assignment] # only its time is used
    token = await access_token(scene, clock.now_ms(), live=False)
    service = InProcessService("", database, clock, scene, NO_SESSION, token, token)
    service.take(database, clock, Settings())
    return service


async def test_a_watched_clock_that_jumps_changes_nothing(
    migrated: bytes, chance: random.Random, tmp_path: Path
) -> None:
    """While the clock is hours off nothing is judged by it; once it is back everything goes on as if nothing was."""
    offset_ms = 0
    clock = WatchedClock(wall_ns=lambda: time.time_ns() + offset_ms * 1_000_000)
    async with Machine(tmp_path, migrated, chance, clock) as machine:
        machine.serve()
        for jump_ms in (3 * HOUR_MS, -3 * HOUR_MS, 400 * 24 * HOUR_MS):
            answers = machine.acknowledged + 50
            await machine.until(lambda enough=answers: machine.acknowledged >= enough)  # type: ignore[misc]
            offset_ms, refusals = jump_ms, machine.unknown + 50
            await machine.until(lambda enough=refusals: machine.unknown >= enough)  # type: ignore[misc]
            offset_ms = 0
        machine.halting = True
        offset_ms = HOUR_MS
        await machine.until_still()
        offset_ms, machine.halting = 0, False
        await machine.hold_to_account()
        assert machine.tally.findings == []
