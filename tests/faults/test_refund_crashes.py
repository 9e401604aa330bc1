"""A node dies between every two steps of a refund: repeated, it is one refund, and the acquirer's book is ours."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from conftest import first_and_others, short_and_long
from node_process import NodeProcess
from oauth_scene import make_scene
from paydesk.core.clock import SystemClock
from paydesk.core.crash_points import LABELS, STEP_LABELS
from paydesk.platform.storage.connect import open_database
from refund_scene import DECLINED, LOST, UNHEARD, expire_leases, ledgers_agree, only, pay, refund
from service import Device, Reply, Service, access_token
from webhooks_scene import subscribe

SIGKILLED = -9
END_SECONDS_MAX = 30

# Each is reached by the request itself; a number says for which time: the acquirer's own commits count as well.
OF_THE_REQUEST = (
    "before_claim",
    "after_claim",
    "after_effect",
    "before_commit",
    "after_commit",
    "intent_committed",
    "before_commit:2",
    "after_commit:2",
    "asked",
    "before_commit:3",
    "after_commit:3",
    "outcome_committed",
    "before_answer",
)
# And these by the worker, after the node restarts.
OF_THE_WORKER = ("claimed", "answer_stored", "asked:2", "outcome_committed:2")
TWICE = (("intent_committed", "claimed"), ("asked", "answer_stored"), ("before_commit:3", "asked"))


@dataclass
class Scenario:
    """One node with a terminal; what is paid there is refunded while the node dies."""

    node: NodeProcess
    service: Service
    device: Device
    database_url: str

    async def crash(self, order_id: str, key: str, label: str) -> None:
        """Ask for a refund, of which the node dies, or its worker when it was answered."""
        with suppress(aiohttp.ClientError):
            await refund(self.service, order_id, "5.00", key=key, headers={"X-Crash-At": label})
        assert await asyncio.to_thread(self.node.died) == SIGKILLED

    async def start_again(self, *, crash_at: str = "") -> None:
        """Start the node when all claims have run out; it may die again, of its worker's doing."""
        database = await open_database(self.database_url)
        self.service.scene.database = database
        await expire_leases(self.service)
        await database.close()
        await asyncio.to_thread(self.node.start, crash_at=crash_at)
        if crash_at:
            assert await asyncio.to_thread(self.node.died) == SIGKILLED

    async def ended(self, order_id: str) -> dict[str, Any]:
        """The order, when none of its refunds is under way any more."""
        async with asyncio.timeout(END_SECONDS_MAX):
            while True:
                order = await self.service.get(order_id)
                refunds = order["transactions"].get("refunds", ())
                if all(shown["status"] != "processing" for shown in refunds):
                    return order
                await asyncio.sleep(0.02)


@asynccontextmanager
async def _scenario(database_url: str, folder: Path) -> AsyncIterator[Scenario]:
    database = await open_database(database_url)
    scene, clock = await make_scene(database), SystemClock()
    token = await access_token(scene, clock.now_ms(), live=False)
    with closing(NodeProcess(database_url, folder)) as node:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session:
            service = Service(node.base_url, database, clock, scene, session, token, token)
            await subscribe(database, "https://shop.example/hook", application_id=scene.application.application_id)
            terminal = await service.terminal()
            await database.close()
            await asyncio.to_thread(node.start)
            yield Scenario(node, service, await service.device(terminal), database_url)
        await asyncio.to_thread(node.end)
    database = await open_database(database_url)
    try:
        await ledgers_agree(database)
    finally:
        await database.close()


def test_every_crash_point_of_a_refund_is_tested() -> None:
    """Every crash point that a refund reaches is one that it dies of here."""
    dying = {label.partition(":")[0] for label in (*OF_THE_REQUEST, *OF_THE_WORKER)}
    assert {*LABELS} <= dying <= {*LABELS, *STEP_LABELS}


@pytest.mark.parametrize("labels", short_and_long(("after_commit", "asked"), OF_THE_REQUEST), ids=["two", "all"])
async def test_a_refund_retried_after_a_crash_has_one_effect(
    database_url: str, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    """At each step of the request: the retry returns 201, the amount is refunded once and one webhook is sent."""
    async with _scenario(database_url, tmp_path) as scenario:
        for label in labels:
            order_id, key = await pay(scenario.device, "10.00"), str(uuid.uuid4())
            await scenario.crash(order_id, key, label)
            await scenario.start_again()
            await _given_back_once(scenario, order_id, key)


async def _given_back_once(scenario: Scenario, order_id: str, key: str) -> Reply:
    reply = await refund(scenario.service, order_id, "5.00", key=key)
    assert reply.status == 201, reply
    order = await scenario.ended(order_id)
    (shown,) = order["transactions"]["refunds"]
    assert (shown["status"], shown["id"], order["version"]) == ("processed", only(reply)["id"], 4)
    assert (await refund(scenario.service, order_id, "5.00", key=key)).raw == reply.raw
    return reply


@pytest.mark.parametrize("amount", first_and_others(LOST, UNHEARD))
async def test_a_refund_survives_a_crash_of_the_worker(sqlite_url: str, tmp_path: Path, amount: str) -> None:
    """At each of its steps: the next start brings the refund to its end, and the till's answer stays."""
    async with _scenario(sqlite_url, tmp_path) as scenario:
        for label in OF_THE_WORKER:
            order_id, key = await pay(scenario.device, amount), str(uuid.uuid4())
            await scenario.crash(order_id, key, label)
            await scenario.start_again()
            await _given_back_once(scenario, order_id, key)


@pytest.mark.parametrize("labels", short_and_long(TWICE[:1], TWICE), ids=["one", "all"])
async def test_a_refund_survives_crashes_of_request_and_worker(
    database_url: str, tmp_path: Path, labels: tuple[tuple[str, str], ...]
) -> None:
    """Two crashes in a row, at any two steps: one refund all the same."""
    async with _scenario(database_url, tmp_path) as scenario:
        for first, second in labels:
            order_id, key = await pay(scenario.device, "10.00"), str(uuid.uuid4())
            await scenario.crash(order_id, key, first)
            await scenario.start_again(crash_at=second)
            await scenario.start_again()
            assert only(await _given_back_once(scenario, order_id, key))["status"] == "processing"


async def test_a_decline_after_a_crash_fails_the_refund(database_url: str, tmp_path: Path) -> None:
    """The response is `processing`; later the refund is `failed`."""
    async with _scenario(database_url, tmp_path) as scenario:
        order_id = await pay(scenario.device, DECLINED)
        await scenario.crash(order_id, "key", "asked")
        await scenario.start_again()
        reply = await refund(scenario.service, order_id, "5.00", key="key")
        assert (reply.status, only(reply)["status"]) == (201, "processing")
        order = await scenario.ended(order_id)
        (shown,) = order["transactions"]["refunds"]
        assert (shown["status"], order["status"], order["version"]) == ("failed", "processed", 4)
        assert (await refund(scenario.service, order_id, "5.00", key="key")).raw == reply.raw
