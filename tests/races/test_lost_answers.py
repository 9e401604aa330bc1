"""A client disconnects after sending its refresh: at any moment, it can continue with the token it has."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

from cut_wire import Cut, CutWire
from event_loops import turns
from nodes import two_nodes
from oauth_scene import DAY_MS, Scene, make_scene
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from raw_http import head, wire
from seeds import seeded
from service import Reply, Service, running
from waiting import until_found

TIMES = int(os.environ.get("PAYDESK_TEST_LOST_ANSWERS", "80"))
TILLS = 4
CUTS: tuple[Cut, ...] = ("before", "after")

FAMILY = "SELECT generation, revoked_ms FROM token_families WHERE seller_id = $1"
TOKENS = "SELECT generation FROM refresh_tokens WHERE seller_id = $1 ORDER BY generation"


class Till:
    """An application with one token family that loses responses. `held` is what it has stored."""

    def __init__(self, nodes: tuple[Service, Service], scene: Scene, choices: random.Random) -> None:
        self._nodes, self._scene, self._choices = nodes, scene, choices
        self.held: dict[str, Any] = {}
        self.answered, self.lost = 0, 0

    async def begin(self) -> None:
        """Get the first tokens."""
        self.held = (await self._ask(self._scene.exchange(await self._scene.code()))).body

    async def lose_a_response(self) -> None:
        """Send a refresh and disconnect after some turns of the loop, or once the successor is committed."""
        node, body = self._choices.choice(self._nodes), json.dumps(self._refresh()).encode()
        fields = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        async with wire(node) as connection:
            await connection.send(head("POST", "/oauth/token", *fields) + body)
            if self._choices.random() < 0.7:
                await turns(self._choices.randrange(60))
            else:
                await until_found(self.made_one_more)
            connection.cut()

    async def continue_(self) -> None:
        """Refresh with the stored token until there is a response with new tokens."""
        while (reply := await self._ask(self._refresh())).status == 503:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)
        assert reply.status == 200, reply
        assert reply.body["refresh_token"] != self.held["refresh_token"]
        self.held = reply.body
        self.answered += 1

    async def has_one_successor_each(self) -> None:
        """Return whether each token had exactly one successor."""
        generations = list(range(1, self.answered + 2))
        assert await self._generation() == (len(generations), None)
        rows = await self._scene.database.read(lambda tx: tx.all(TOKENS, self._scene.seller.seller_id))
        assert [row[0] for row in rows] == generations
        reply = await self._nodes[0].request("GET", "/terminals/v1/list", token=self.held["access_token"])
        assert reply.status == 200

    async def made_one_more(self) -> bool:
        """Return whether a refresh without a response was made."""
        return (await self._generation())[0] > self.answered + 1

    async def _generation(self) -> tuple[int, int | None]:
        row = await self._scene.database.read(lambda tx: tx.one(FAMILY, self._scene.seller.seller_id))
        assert row is not None
        return row[0], row[1]

    async def _ask(self, body: dict[str, Any]) -> Reply:
        return await self._choices.choice(self._nodes).request("POST", "/oauth/token", body, token=None, key=None)

    def _refresh(self) -> dict[str, Any]:
        return self._scene.refresh(self.held["refresh_token"])


async def test_a_client_without_responses_continues(database: Database, database_url: str) -> None:
    """Disconnected 80 times, also several times in a row, on any node, with pauses of up to a day."""
    clock, choices = MovableClock(frozen_ms=MovableClock().now_ms()), seeded()

    async def loses(till: Till, times: int) -> int:
        await till.begin()
        lost = 0
        for _ in range(times):
            await till.lose_a_response()
            if choices.random() < 0.3:
                continue
            lost += await till.made_one_more()
            if choices.random() < 0.1:
                clock.advance(choices.randrange(DAY_MS))
            await till.continue_()
        await till.continue_()
        return lost

    async with two_nodes(database, database_url, clock=clock) as nodes:
        scenes = [await make_scene(database) for _ in range(TILLS)]
        for scene in scenes:
            scene.clock = clock
        tills = [Till(nodes, scene, choices) for scene in scenes]
        lost = sum(await asyncio.gather(*(loses(till, TIMES // TILLS) for till in tills)))
        for till in tills:
            await till.has_one_successor_each()
    print(f"{lost} refreshes were done whose answer was lost")  # noqa: T201 - the figure of a run with -s
    assert lost > 0, "of no refresh was the answer lost"
    assert await check.check(database, clock.now_ms()) == []


async def test_a_node_that_loses_its_database_continues(postgres_url: str, tmp_path: Path) -> None:
    """Wherever between node and PostgreSQL the response is lost."""
    choices = seeded()
    async with CutWire(postgres_url, tmp_path).laid() as cut:
        database = await open_database(cut.url, timeout_seconds=5)
        async with running(database, workers=False) as service:
            scene = await make_scene(database)
            scene.clock = MovableClock()
            till, lost = Till((service, service), scene, choices), 0
            await till.begin()
            for _ in range(TIMES // 10):
                cut.plan(choices.choice(CUTS), choices.choice((b"token_families", b"COMMIT", b"")))
                await till.continue_()
                lost += cut.times == 0
            cut.times = 0
            await till.has_one_successor_each()
        assert lost > 0, "the wire was never cut"
        assert await check.check(database) == []
        await database.close()
