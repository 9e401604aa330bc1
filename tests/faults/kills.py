"""`kill -9` at random moments: a node under load is killed and comes back, and every notification arrives."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from faults.account import findings
from faults.load import Client, Refresher, Till, at_once
from faults.machine import Tally
from faults.unreliable_run import expire_leases
from node_process import NodeProcess
from oauth_scene import make_scene
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.connect import open_database
from service import Device, Service, access_token
from waiting import until
from webhooks_scene import Receiver, receiver, subscribe

TILLS, REFRESHERS = 12, 4
ANSWERS = (10, 200)
"""How many requests are answered between two kills."""
STANDSTILL_SECONDS_MAX = 20.0
# Attempts are short, so that a claim whose node was killed runs out soon, and many, as a killed node's counts as one.
VARIABLES = {"PAYDESK_WEBHOOK_TIMEOUT_SECONDS": "2", "PAYDESK_WEBHOOK_RETRY_SECONDS": ",".join("1" * 40)}


@dataclass
class Killed(Tally):
    """What was seen of kills."""

    deliveries: int = 0


async def kill_often(
    kills: int,
    database_url: str,
    folder: Path,
    chance: random.Random,
    *,
    seen: Callable[[], object] = lambda: None,
    waits_for_leases: bool = True,
) -> Killed:
    """Kill a node on a new, migrated database so often, let everything come to its end, and hold it to account.

    `waits_for_leases`: as in `unreliable_run.Plan`.
    """
    timeout = aiohttp.ClientTimeout(5)
    with closing(NodeProcess(database_url, folder, **VARIABLES)) as node:
        async with receiver() as inbox, aiohttp.ClientSession(timeout=timeout) as session:
            clients = await _seeded(database_url, node.base_url, session, inbox, chance)
            await asyncio.to_thread(node.start)
            tasks = [asyncio.create_task(client.run()) for client in clients]
            for _ in range(kills):
                answers = _answers(clients) + chance.randint(*ANSWERS)
                await until(lambda: _answers(clients) >= answers)  # noqa: B023 - called in this round
                node.kill()
                if not waits_for_leases:
                    await expire_leases(database_url)
                await asyncio.to_thread(node.start)
                seen()
            await until(lambda: any(client.record.acknowledged["create"] for client in clients))
            for client in clients:
                client.stopping = True
            await asyncio.gather(*tasks)
            found = await _undelivered(clients, inbox)
            database = await open_database(database_url, exclusive=False)
            try:
                found += await findings(database, clients)
            finally:
                await database.close()
            await asyncio.to_thread(node.end)
    return Killed(
        faults=kills,
        acknowledged=sum((client.record.acknowledged for client in clients), Counter()),
        unknown=sum(client.record.unknown for client in clients),
        findings=found,
        faults_with_findings=int(bool(found)),
        deliveries=len(inbox.got),
    )


async def _seeded(
    database_url: str, base_url: str, session: aiohttp.ClientSession, inbox: Receiver, chance: random.Random
) -> list[Client]:
    database = await open_database(database_url)
    scene = await make_scene(database)
    scene.clock = clock = MovableClock()
    token = await access_token(scene, clock.now_ms(), live=False)
    service = Service(base_url, database, clock, scene, session, token, token)
    await subscribe(database, inbox.url, application_id=scene.application.application_id)
    devices = [Device(service, await service.terminal(), str(uuid.uuid4())) for _ in range(TILLS)]
    tokens = [await scene.tokens() for _ in range(REFRESHERS)]
    await database.close()
    return [
        *(Till(device, random.Random(chance.random()), at_once) for device in devices),
        *(Refresher(service, first, random.Random(chance.random()), at_once) for first in tokens),
    ]


def _answers(clients: list[Client]) -> int:
    return sum(client.record.acknowledged.total() for client in clients)


async def _undelivered(clients: list[Client], inbox: Receiver) -> list[str]:
    """Wait for every order's events, versions without a gap and in order; what did not come so."""
    expected = {
        order_id: list(range(1, len(statuses) + 1))
        for client in clients
        for order_id, statuses in client.record.orders.items()
    }
    # Another process sends them, so there is nothing to wait on but time.
    deadline = time.monotonic() + STANDSTILL_SECONDS_MAX
    received = 0
    while (came := _first_seen(inbox)) != expected and time.monotonic() < deadline:
        if len(inbox.got) > received:
            received, deadline = len(inbox.got), time.monotonic() + STANDSTILL_SECONDS_MAX
        await asyncio.sleep(0.2)
    return [
        f"{order_id}: the notifications of versions {came.get(order_id)} came, in this order; expected {versions}"
        for order_id, versions in expected.items()
        if came.get(order_id) != versions
    ]


def _first_seen(inbox: Receiver) -> dict[str, list[int]]:
    """The versions of each order as they came; one that came twice may come late."""
    versions: dict[str, list[int]] = defaultdict(list)
    for request in inbox.got:
        order_id, version = request.order_and_version
        if version not in versions[order_id]:
            versions[order_id].append(version)
    return versions
