"""A node dies between a request's claim, effect, commit and answer: repeated, the request has had one effect."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import webhooks_scene
from conftest import first_and_others
from node_process import NodeProcess
from oauth_scene import make_scene
from paydesk.core import crash_points
from paydesk.core.clock import MovableClock
from paydesk.core.crash_points import LABELS, Label
from paydesk.engine.invariants import check
from paydesk.platform.storage.connect import open_database
from service import Device, Reply, Service, Terminal, access_token, approved, order_body
from waiting import until
from webhooks_scene import subscribe

SIGKILLED = -9
CREATES = 20
SOURCES = Path(crash_points.__file__).parents[2]


@dataclass
class Scenario:
    """One node with a terminal and tokens; every request can name the point where the node crashes."""

    node: NodeProcess
    service: Service
    device: Device
    tokens: dict[str, Any]
    terminals: list[Terminal]

    async def crashes(self, label: Label, request: Callable[[dict[str, str]], Awaitable[Reply]]) -> Reply:
        """The request, of which the node dies at `label` without an answer; what it is answered when repeated."""
        with pytest.raises(aiohttp.ClientError):
            await request({"X-Crash-At": label})
        assert await asyncio.to_thread(self.node.died) == SIGKILLED
        await asyncio.to_thread(self.node.start)
        return await request({})

    async def created(self, key: str = "", headers: dict[str, str] | None = None) -> Reply:
        """Create an order for the terminal."""
        body = order_body(self.device.terminal.id)
        return await self.service.request("POST", "/v1/orders", body, key=key, headers=headers)

    async def order_id(self) -> str:
        """A new order's id."""
        reply = await self.created()
        assert reply.status == 201, reply
        return str(reply.body["id"])

    async def put_away(self, order_id: str) -> None:
        """Bring the order to its end, so that the terminal is free."""
        reply = await self.device.result(order_id[3:], outcome="canceled", status_detail="canceled_on_terminal")
        assert reply.status in (200, 409), reply

    def sent(self, path: str, body: Any = None, *, method: str = "POST", **options: Any) -> Any:
        """A request that takes headers."""

        def send(headers: dict[str, str]) -> Awaitable[Reply]:
            return self.service.request(method, path, body, headers=headers, **options)

        return send


@asynccontextmanager
async def _scenario(
    database_url: str, folder: Path, *, terminals: int = 1, receiver: str = "https://shop.example/hook"
) -> AsyncIterator[Scenario]:
    database = await open_database(database_url)
    scene = await make_scene(database)
    scene.clock = clock = MovableClock()
    token, tokens = await access_token(scene, clock.now_ms(), live=False), await scene.tokens()
    with closing(NodeProcess(database_url, folder)) as node:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session:
            service = Service(node.base_url, database, clock, scene, session, token, token)
            await subscribe(database, receiver, application_id=scene.application.application_id)
            made = [await service.terminal() for _ in range(terminals)]
            await database.close()
            await asyncio.to_thread(node.start)
            yield Scenario(node, service, await service.device(made[0]), tokens, made)
        await asyncio.to_thread(node.end)
    database = await open_database(database_url)
    try:
        assert await check.integrity(database) == []
        assert await check.check(database) == []
    finally:
        await database.close()


async def _create(scenario: Scenario, label: Label) -> None:
    key = str(uuid.uuid4())
    reply = await scenario.crashes(label, lambda headers: scenario.created(key, headers))
    assert reply.status == 201, reply
    # A second order on the terminal would be refused: one effect.
    assert (await scenario.created()).code == "already_queued_order_on_terminal"
    assert (await scenario.created(key)).raw == reply.raw
    await scenario.put_away(reply.body["id"])


async def _refused(scenario: Scenario, label: Label) -> None:
    """A create that is refused claims its key before it is handled again."""
    standing, key = await scenario.order_id(), str(uuid.uuid4())
    refused = await scenario.crashes(label, lambda headers: scenario.created(key, headers))
    assert refused.code == "already_queued_order_on_terminal"
    await scenario.put_away(standing)
    reply = await scenario.created(key)
    assert reply.status == 201, reply
    assert (await scenario.created(key)).raw == reply.raw
    await scenario.put_away(reply.body["id"])


async def _cancel(scenario: Scenario, label: Label) -> None:
    order_id, key = await scenario.order_id(), str(uuid.uuid4())
    reply = await scenario.crashes(label, scenario.sent(f"/v1/orders/{order_id}/cancel", key=key))
    assert (reply.status, reply.body["status"], reply.body["version"]) == (200, "canceled", 2), reply
    assert (await scenario.service.get(order_id))["version"] == 2


async def _refresh(scenario: Scenario, label: Label) -> None:
    body = scenario.service.scene.refresh(scenario.tokens["refresh_token"])
    request = scenario.sent("/oauth/token", body, token=None, key=None)
    reply = await scenario.crashes(label, request)
    assert reply.status == 200, reply
    again = await request({})
    assert again.body["refresh_token"] == reply.body["refresh_token"]
    scenario.tokens = reply.body
    used = await scenario.service.request("GET", f"/v1/orders/ORD{'0' * 26}", token=reply.body["access_token"])
    assert used.status == 404, used


async def _acknowledge(scenario: Scenario, label: Label) -> None:
    order_id, device = await scenario.order_id(), scenario.device
    path, body = f"/device/v1/leases/{order_id[3:]}/ack", {"boot_id": device.boot_id}
    reply = await scenario.crashes(label, scenario.sent(path, body, token=device.terminal.token, key=None))
    assert reply.status == 200, reply
    order = await scenario.service.get(order_id)
    assert (order["status"], order["version"]) == ("at_terminal", 2)
    await scenario.put_away(order_id)


async def _result(scenario: Scenario, label: Label) -> None:
    order_id, device = await scenario.order_id(), scenario.device
    assert (await device.ack(order_id[3:])).status == 200
    assert (await device.authorizing(order_id[3:])).status == 200
    path = f"/device/v1/leases/{order_id[3:]}/results/{uuid.uuid4()}"
    body = {"boot_id": device.boot_id, **approved()}
    reply = await scenario.crashes(label, scenario.sent(path, body, method="PUT", token=device.terminal.token))
    assert (reply.status, reply.body["order"]["status"]) == (200, "processed"), reply
    assert (await scenario.service.get(order_id))["version"] == 3


Scene = Callable[[Scenario, Label], Awaitable[None]]
REQUESTS: tuple[Scene, ...] = (_create, _cancel, _refresh, _acknowledge, _result)
FAST: tuple[Label, ...] = ("before_commit", "after_commit")
"""The crash points of `make test`."""


@pytest.mark.parametrize(
    "label", [pytest.param(label, marks=() if label in FAST else pytest.mark.slow) for label in LABELS]
)
async def test_a_retry_after_a_crash_has_one_effect(label: Label, database_url: str, tmp_path: Path) -> None:
    """The node dies of a create, a cancel, a refresh, an ack, a result; each repeat finds or makes the one effect."""
    requests: tuple[Scene, ...] = (_refused,) if label == "after_claim" else REQUESTS
    if len(requests) > 1 and not database_url.startswith("sqlite:"):
        # Its nodes take longer to start: two of them a label, each with several labels.
        turn = LABELS.index(label)
        requests = (requests[turn % len(requests)], requests[(turn + 1) % len(requests)])
    async with _scenario(database_url, tmp_path) as scenario:
        for request in requests:
            await request(scenario, label)


@pytest.mark.parametrize("label", first_and_others("after_commit", "after_effect", "before_answer"))
async def test_many_requests_lost_in_a_crash_have_one_effect_each(
    label: Label, sqlite_url: str, tmp_path: Path
) -> None:
    """The node dies in the midst of creates that share commits; answered or not, each of them repeated is one order."""
    async with _scenario(sqlite_url, tmp_path, terminals=CREATES) as scenario:
        bodies = {str(uuid.uuid4()): order_body(terminal.id) for terminal in scenario.terminals}
        send = scenario.service.request
        times = 1 if label == "after_commit" else CREATES // 2
        await send("GET", f"/v1/orders/ORD{'0' * 26}", headers={"X-Crash-At": f"{label}:{times}"})
        first = await asyncio.gather(
            *(send("POST", "/v1/orders", body, key=key) for key, body in bodies.items()),
            return_exceptions=True,
        )
        assert await asyncio.to_thread(scenario.node.died) == SIGKILLED
        await asyncio.to_thread(scenario.node.start)
        again = [await send("POST", "/v1/orders", body, key=key) for key, body in bodies.items()]
        assert {reply.status for reply in again} == {201}
        answered = [(one, other) for one, other in zip(first, again, strict=True) if isinstance(one, Reply)]
        assert len(answered) < CREATES
        assert [one.raw for one, _ in answered] == [other.raw for _, other in answered]


async def test_a_delivery_keeps_the_trace_of_a_request_whose_node_died(database_url: str, tmp_path: Path) -> None:
    """It is with the event, so the node that delivers it later has it."""
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    traced = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01", "tracestate": "shop=1"}
    async with webhooks_scene.receiver() as receiver, _scenario(database_url, tmp_path, receiver=receiver.url) as scene:
        key = str(uuid.uuid4())
        reply = await scene.crashes("after_commit", lambda headers: scene.created(key, {**traced, **headers}))
        assert reply.status == 201, reply
        await until(lambda: bool(receiver.got))
    sent = receiver.got[0].headers
    assert re.fullmatch(f"00-{trace_id}-(?!b7ad6b7169203331)[0-9a-f]{{16}}-01", sent["traceparent"])
    assert sent["tracestate"] == "shop=1"


def test_nothing_in_the_package_arms_a_crash_point() -> None:
    """No setting, variable or header of a service can arm a crash point; tests can, and the engine that a kit kills."""
    arming = [
        path.name
        for path in SOURCES.rglob("*.py")
        if path.name != "crash_points.py" and re.search(r"crash_points\.arm|import arm\b|_armed", path.read_text())
    ]
    assert arming == ["victim.py"]
    assert "environ" not in Path(crash_points.__file__).read_text()


def test_an_unarmed_crash_point_does_nothing() -> None:
    """A service reaches them with every request."""
    for label in LABELS:
        crash_points.reached(label)
