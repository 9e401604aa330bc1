"""Concurrent token requests: a code mints once and a refresh token has one successor."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from conftest import short_and_long
from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.platform.storage.database import Database
from service import Reply, Service
from waiting import until_found

pytestmark = pytest.mark.usefixtures("batching", "patient_database")

MANY = 24
CODES = 3
REPEAT_MS = 60_000


async def token(service: Service, body: dict[str, Any]) -> Reply:
    """Request the token endpoint."""
    return await service.request("POST", "/oauth/token", body, token=None, key=None)


async def lives(service: Service, access_token: str) -> bool:
    """Return whether the service accepts the access token."""
    reply = await service.request("GET", "/terminals/v1/list", token=access_token)
    assert reply.status in (200, 401), reply
    return reply.status == 200


async def test_a_code_mints_tokens_once(database: Database, database_url: str) -> None:
    """Of 24 exchanges of a code one returns tokens; the others are rejected without revoking them."""
    clock = MovableClock(frozen_ms=MovableClock().now_ms())
    async with two_nodes(database, database_url, clock=clock) as nodes:
        nodes[0].scene.clock = clock
        await asyncio.gather(*(_exchange_at_once(nodes) for _ in range(CODES)))
    assert await check.check(database) == []


async def _exchange_at_once(nodes: tuple[Service, Service]) -> None:
    service = nodes[0]
    exchange = service.scene.exchange(await service.scene.code())
    replies = await asyncio.gather(*(token(nodes[place % 2], exchange) for place in range(MANY)))
    (minted,) = (reply.body for reply in replies if reply.status == 200)
    refused = [(reply.status, reply.code) for reply in replies if reply.status != 200]
    assert refused == [(400, "invalid_grant")] * (MANY - 1)
    assert await lives(service, minted["access_token"])
    refreshed = await token(service, service.scene.refresh(minted["refresh_token"]))
    assert refreshed.status == 200
    assert await lives(service, refreshed.body["access_token"])


@pytest.mark.parametrize("families", short_and_long(3, 20))
async def test_a_refresh_token_has_one_successor_for_all(database: Database, database_url: str, families: int) -> None:
    """24 refreshes of one token return the same tokens, which are active; for many families at once."""
    clock = MovableClock(frozen_ms=MovableClock().now_ms())
    async with two_nodes(database, database_url, clock=clock) as nodes:
        nodes[0].scene.clock = clock
        await asyncio.gather(*(_refresh_at_once(nodes) for _ in range(families)))
    assert await check.check(database) == []


async def _refresh_at_once(nodes: tuple[Service, Service]) -> None:
    service = nodes[0]
    first = (await token(service, service.scene.exchange(await service.scene.code()))).body
    refresh = service.scene.refresh(first["refresh_token"])
    replies = await asyncio.gather(*(token(nodes[place % 2], refresh) for place in range(MANY)))
    assert {(reply.status, reply.raw) for reply in replies} == {(200, replies[0].raw)}
    successor = replies[0].body
    assert successor["refresh_token"] != first["refresh_token"]
    assert await lives(service, successor["access_token"])
    assert await lives(service, first["access_token"]), "a refresh leaves the earlier access token alone"


async def test_a_replay_revokes_its_family_during_refreshes(database: Database, database_url: str) -> None:
    """Replays beside refreshes of the newest token: one successor or none, then all tokens are revoked."""
    clock = MovableClock(frozen_ms=MovableClock().now_ms())
    async with two_nodes(database, database_url, clock=clock) as nodes:
        service, scene = nodes[0], nodes[0].scene
        scene.clock = clock
        line = [(await token(service, scene.exchange(await scene.code()))).body]
        for _ in range(2):
            line.append((await token(service, scene.refresh(line[-1]["refresh_token"]))).body)
        clock.advance(REPEAT_MS)
        replay, refresh = (scene.refresh(tokens["refresh_token"]) for tokens in (line[0], line[-1]))
        asked = [refresh if place % 4 == 0 else replay for place in range(MANY)]
        replies = await asyncio.gather(*(token(nodes[place % 2], body) for place, body in enumerate(asked)))
        for body, reply in zip(asked, replies, strict=True):
            assert reply.status == 200 or reply.code == "invalid_grant", reply
            assert reply.status == 400 or body is refresh, "a replay brought tokens"
        brought = {reply.raw: reply.body for reply in replies if reply.status == 200}
        assert len(brought) <= 1
        for tokens in (*line, *brought.values()):
            assert (await token(nodes[1], scene.refresh(tokens["refresh_token"]))).code == "invalid_grant"
            for node in nodes:
                await until_found(partial(_is_refused, node, tokens["access_token"]))
    assert await check.check(database) == []


async def _is_refused(node: Service, access_token: str) -> bool:
    """Return whether the node refuses the token: it learns of a revocation with a delay."""
    return not await lives(node, access_token)
