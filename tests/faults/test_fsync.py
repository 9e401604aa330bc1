"""Failing and slow syncs: after a failed sync the process ends, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from faults.fsync import fail_syncs
from faults.machine import NO_SESSION, Machine
from node_process import NodeProcess
from oauth_scene import make_scene
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.platform.storage.connect import open_database
from service import Service, access_token, order_body

ROUNDS = 5
SLOW_SYNC_SECONDS = (0.008, 0.2)


@pytest.mark.slow
async def test_a_sync_that_fails_loses_nothing_acknowledged(migrated: bytes, chance: random.Random) -> None:
    """The process is ended each time; what it built on afterwards is on the disk, also when the power fails later."""
    seen = await fail_syncs(ROUNDS, migrated, chance)
    assert seen.findings == []
    assert seen.ends == ROUNDS
    assert seen.acknowledged["create"] > ROUNDS


@pytest.mark.slow
async def test_slow_syncs_change_no_answer(migrated: bytes, chance: random.Random, tmp_path: Path) -> None:
    """With syncs of up to 200 ms everything is as right as ever, when the power fails, too."""
    async with Machine(tmp_path, migrated, chance) as machine:
        machine.disk.sync_seconds = SLOW_SYNC_SECONDS
        for _ in range(2):
            machine.disk.operations_until_cut = 400
            await machine.live_through_a_fault()
        assert machine.tally.findings == []
        assert machine.tally.acknowledged["create"] > 0


@pytest.mark.slow
async def test_slow_syncs_do_not_delay_reads(migrated: bytes, chance: random.Random, tmp_path: Path) -> None:
    """While one commit waits for its disk, many reads are answered."""
    async with Machine(tmp_path, migrated, chance) as machine:
        terminal = await machine.service.terminal()
        order_id = (await machine.service.create(terminal)).body["id"]
        machine.disk.sync_seconds = (0.5, 0.5)
        cancel = asyncio.create_task(machine.service.cancel(order_id))
        answered = 0
        while not cancel.done():
            answered += (await machine.service.get(order_id))["status"] == "created"
            await asyncio.sleep(0)
        assert (await machine.service.get(order_id))["status"] == "canceled"
        assert answered >= 10


async def test_a_node_ends_when_its_disk_fails_a_sync(sqlite_url: str, tmp_path: Path) -> None:
    """It exits with 1 and answers nothing more; started again, it has every order that it had answered, once."""
    failing = NodeProcess(sqlite_url, tmp_path, module="faults.failing_node", FAILING_SYNC="25")
    node = NodeProcess(sqlite_url, tmp_path)
    with closing(failing), closing(node):
        service, bodies = await _seeded(sqlite_url)
        await asyncio.to_thread(failing.start)
        answered = await _answered(replace(service, base_url=failing.base_url), bodies)
        assert await asyncio.to_thread(failing.died) == 1
        await asyncio.to_thread(node.start)
        repeated = await _answered(replace(service, base_url=node.base_url), bodies)
        await asyncio.to_thread(node.end)
    assert 0 < len(answered) < len(bodies)
    assert repeated[: len(answered)] == answered
    assert len(set(repeated)) == len(bodies)
    database = await open_database(sqlite_url)
    try:
        assert await check.check(database) == []
    finally:
        await database.close()


async def _seeded(sqlite_url: str) -> tuple[Service, dict[str, Any]]:
    """A service without an address yet, and by their keys the orders that are to be created, a terminal each."""
    database = await open_database(sqlite_url)
    scene, clock = await make_scene(database), MovableClock()
    token = await access_token(scene, clock.now_ms(), live=False)
    service = Service("", database, clock, scene, NO_SESSION, token, token)
    terminals = [await service.terminal() for _ in range(60)]
    await database.close()
    return service, {str(uuid.uuid4()): order_body(terminal.id) for terminal in terminals}


async def _answered(service: Service, bodies: dict[str, Any]) -> list[str]:
    """Create the orders one after the other, until there is no answer any more; the ids that were answered."""
    answered = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session:
        reached = replace(service, session=session)
        with contextlib.suppress(aiohttp.ClientError):
            for key, body in bodies.items():
                reply = await reached.request("POST", "/v1/orders", body, key=key)
                assert reply.status == 201, reply
                answered.append(reply.body["id"])
    return answered
