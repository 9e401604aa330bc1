"""Nodes of one PostgreSQL whose clocks are ahead, behind or jumping: they judge nothing by time until it is right."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from faults.cluster import Cluster, cluster
from oauth_scene import ALL_SCOPES
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.tokens import Lifetimes, Pair
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Transaction
from service import KEYS, Service, running

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
ORDERS, FAMILIES = 6, 4
LIFETIME_SECONDS = 600
"""Of tokens, shorter than what the clocks are wrong by; an order lives for 15 minutes."""
JUMPS_MS = (-3 * HOUR_MS, -10 * MINUTE_MS, -45_000, 0, 45_000, 10 * MINUTE_MS, 3 * HOUR_MS)
ROUNDS = 15
RECOVERY_SECONDS_MAX = 30.0

HARM = """
SELECT (SELECT COUNT(*) FROM orders WHERE status <> 'created'),
       (SELECT COUNT(*) FROM token_families WHERE expired_ms IS NOT NULL OR revoked_ms IS NOT NULL),
       (SELECT COUNT(*) FROM access_tokens WHERE expired_ms IS NOT NULL OR revoked_ms IS NOT NULL),
       (SELECT COUNT(*) FROM idempotency_keys)"""


@dataclass(frozen=True, slots=True)
class Family:
    """Tokens of one family: an access token, a refresh token that was used twice ago, and the newest."""

    access_token: str
    used: str
    newest: str


@pytest.fixture
async def service(postgres_url: str) -> AsyncIterator[Service]:
    """A node whose clock is right, without workers."""
    database = await open_database(postgres_url)
    async with running(database, workers=False) as service:
        yield service
    await database.close()


@pytest.fixture
async def nodes(postgres_url: str, tmp_path: Path, chance: random.Random) -> AsyncIterator[Cluster]:
    """Three nodes with the settings of a new installation."""
    async with cluster(postgres_url, tmp_path, nodes=3, wires=False, chance=chance, variables={}) as nodes:
        yield nodes


@pytest.mark.slow
async def test_nodes_with_wrong_clocks_do_no_harm(service: Service, nodes: Cluster, chance: random.Random) -> None:
    """No order expires, no token is refused as expired, no family ends; with the right time they serve again."""
    orders = [(await service.create(await service.terminal())).body["id"] for _ in range(ORDERS)]
    families = [await _family(service) for _ in range(FAMILIES)]
    ahead, behind, jumping = nodes.nodes
    ahead.move_clock(30 * MINUTE_MS)
    # One starts with a wrong clock, the others' go wrong while they run.
    await ahead.restart()
    behind.move_clock(-30 * MINUTE_MS)
    refused = {node.name: 0 for node in nodes.nodes}
    for _ in range(ROUNDS):
        jumping.move_clock(chance.choice(JUMPS_MS))
        for node in nodes.nodes:
            statuses = await _use(replace(service, base_url=node.address), chance.choice(orders), families)
            refused[node.name] += statuses.count(503)
            assert set(statuses) <= ({200, 201, 503} if node is jumping else {503}), (node.name, statuses)
        await asyncio.sleep(0.1)
    assert refused[jumping.name] > 0
    created = 0
    for node in nodes.nodes:
        node.move_clock(0)
        created += await _until_it_serves(replace(service, base_url=node.address))
    for order_id in orders:
        assert (await service.get(order_id))["status_detail"] == "created"
    row = await service.database.read(lambda tx: tx.one(HARM))
    assert row is not None
    assert tuple(row[:3]) == (0, 0, 0)
    assert row[3] >= ORDERS + created
    for node, event in ((ahead, "clock_differs"), (behind, "clock_jumped")):
        assert f'"event":"{event}"' in node.log.read_text(), node.name
    assert [await _newest_is_good(service, family) for family in families] == [200] * FAMILIES


@pytest.mark.slow
async def test_a_small_difference_is_logged_and_harmless(nodes: Cluster, service: Service) -> None:
    """A node that starts 10 s ahead serves, and its log says by how much it differs."""
    node = nodes.nodes[0]
    node.move_clock(10_000)
    await node.restart()
    assert (await replace(service, base_url=node.address).request("GET", "/readyz", token=None)).status == 200
    line = next(line for line in node.log.read_text().splitlines() if '"event":"clock_differs"' in line)
    assert '"level":"warning"' in line
    assert '"seconds":10.0' in line or '"seconds":9.9' in line


async def test_readyz_reports_the_clock_difference(nodes: Cluster, service: Service) -> None:
    """`/readyz` has the seconds and their direction; requests are refused as unavailable."""
    node = nodes.nodes[0]
    there = replace(service, base_url=node.address)
    node.move_clock(-31_000)
    reply = await there.request("GET", "/readyz", token=None)
    assert (reply.status, reply.details) == (503, ["clock: the wall clock is 31 s behind the database's"])
    refused = await there.create(await service.terminal())
    assert (refused.status, refused.code) == (503, "service_unavailable")
    assert "clock" in refused.body["message"]


async def _family(service: Service) -> Family:
    async def work(tx: Transaction) -> Pair:
        return await authorizations.mint_family(
            tx,
            KEYS,
            application_id=service.scene.application.application_id,
            seller_id=service.seller_id,
            scope=ALL_SCOPES,
            live=False,
            now_ms=service.clock.now_ms(),
            lifetimes=Lifetimes(LIFETIME_SECONDS, LIFETIME_SECONDS),
        )

    first = await service.database.write(work)
    used = newest = first.refresh_token or ""
    for _ in range(2):
        reply = await service.request("POST", "/oauth/token", service.scene.refresh(newest), token=None, key=None)
        assert reply.status == 200, reply
        newest = reply.body["refresh_token"]
    return Family(first.access_token, used, newest)


async def _use(there: Service, order_id: str, families: list[Family]) -> list[int]:
    """Use an access token and a used refresh token of each family, and create an order."""
    replies = [await there.create(await there.terminal())]
    for family in families:
        replies.append(await there.request("GET", f"/v1/orders/{order_id}", token=family.access_token))
        body = there.scene.refresh(family.used)
        replies.append(await there.request("POST", "/oauth/token", body, token=None, key=None))
    return [reply.status for reply in replies]


async def _until_it_serves(there: Service) -> int:
    async with asyncio.timeout(RECOVERY_SECONDS_MAX):
        while (await there.request("GET", "/readyz", token=None)).status != 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    assert (await there.create(await there.terminal())).status == 201
    return 1


async def _newest_is_good(service: Service, family: Family) -> int:
    body = service.scene.refresh(family.newest)
    return (await service.request("POST", "/oauth/token", body, token=None, key=None)).status
