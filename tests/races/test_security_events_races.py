"""An attack that meets two nodes at once is one event for operators, and one warning in the logs of both."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from nodes import two_nodes
from oauth_scene import DAY_MS, START_MS
from page_scene import browser
from paydesk.core.clock import MovableClock
from paydesk.platform.operator_events import Kind
from paydesk.platform.storage.database import Database
from service import Device, Service
from waiting import until


@dataclass
class Nodes:
    """Two nodes, their common clock, and what both of them log."""

    here: Service
    there: Service
    clock: MovableClock
    logged: list[Any]

    async def is_one(self, kind: Kind) -> None:
        """There is one event, of this kind, and one warning."""
        sql = "SELECT kind FROM operator_events"
        # It is recorded once the answer is sent.
        await until(lambda: all(node.gauges.requests_running == 0 for node in (self.here, self.there)))
        rows = await self.here.database.read(lambda tx: tx.all(sql))
        assert [row[0] for row in rows] == [kind]
        assert [line["event"] for line in self.logged if line["log_level"] == "warning"] == [kind]


@pytest.fixture
async def nodes(database: Database, database_url: str) -> AsyncIterator[Nodes]:
    """Two nodes whose clock stands still."""
    clock = MovableClock(frozen_ms=START_MS)
    async with two_nodes(database, database_url, clock=clock) as (here, there):
        here.scene.clock = clock
        with structlog.testing.capture_logs() as logged:
            yield Nodes(here, there, clock, logged)


async def at_once(nodes: Nodes, body: dict[str, Any]) -> None:
    """The same request for tokens, refused, eight times at each node."""
    asked = [
        node.request("POST", "/oauth/token", body, token=None, key=None)
        for _ in range(8)
        for node in (nodes.here, nodes.there)
    ]
    assert {reply.code for reply in await asyncio.gather(*asked)} == {"invalid_grant"}


async def test_a_refresh_token_replayed_at_both(nodes: Nodes) -> None:
    """One of the requests revokes the family, and its transaction records the event."""
    scene = nodes.here.scene
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    await scene.answer(scene.refresh(second["refresh_token"]))
    nodes.clock.advance(DAY_MS)
    await at_once(nodes, scene.refresh(first["refresh_token"]))
    await nodes.is_one("refresh_token_replayed")


async def test_a_code_replayed_at_both(nodes: Nodes) -> None:
    """The same of a code."""
    scene = nodes.here.scene
    exchange = scene.exchange(await scene.code())
    await scene.answer(exchange)
    nodes.clock.advance(10_000)
    await at_once(nodes, exchange)
    await nodes.is_one("authorization_code_replayed")


async def test_sign_ins_that_fail_at_both(nodes: Nodes) -> None:
    """Each node counts its own; the seller has one event all the same."""

    async def fail(node: Service) -> None:
        visitor = await browser(node)
        for _ in range(5):
            assert (await visitor.sign_in("/applications", password="wrong")).status == 403

    await asyncio.gather(fail(nodes.here), fail(nodes.there))
    await nodes.is_one("sign_in_failures")


async def test_a_terminal_whose_token_is_used_at_both(nodes: Nodes) -> None:
    """Calls of its earlier session come to either."""
    first = await nodes.here.device(await nodes.here.terminal())
    await Device(nodes.here, first.terminal, str(uuid.uuid4())).post(
        "/hello", {"boot_id": str(uuid.uuid4()), "app_version": "1", "journal": []}
    )
    elsewhere = Device(nodes.there, first.terminal, first.boot_id)
    replies = await asyncio.gather(*(device.next(0) for _ in range(4) for device in (first, elsewhere)))
    assert {reply.code for reply in replies} == {"stale_session"}
    await nodes.is_one("terminal_session_conflict")
