"""Server keys are rotated on running nodes: added everywhere, then activated; existing tokens stay the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from paydesk.core import keys
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.platform.storage.database import Database
from service import Reply, Service, running


@pytest.fixture
async def first(database: Database, tmp_path: Path) -> AsyncIterator[Service]:
    """A node that has read the file of keys, with one key in it."""
    keys.add(file_in(tmp_path), activate=True)
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False, keys=keys.read(file_in(tmp_path))) as service:
        service.scene.clock = clock
        yield service


def file_in(folder: Path) -> Path:
    """The file of keys that every node has a copy of."""
    return folder / "keys.json"


@asynccontextmanager
async def node(first: Service, held: Keys) -> AsyncIterator[Service]:
    """One more node of the same service, started with these keys."""
    async with running(first.database, clock=first.clock, workers=False, keys=held) as service:
        yield replace(first, base_url=service.base_url)


async def post(service: Service, body: dict[str, Any]) -> Reply:
    """A request for tokens."""
    return await service.request("POST", "/oauth/token", body, token=None, key=None)


async def refreshed(service: Service, tokens: Reply) -> Reply:
    """What the node answers a refresh, which must succeed."""
    reply = await post(service, service.scene.refresh(tokens.body["refresh_token"]))
    assert reply.status == 200, reply
    return reply


async def accepts(service: Service, tokens: Reply) -> bool:
    """Whether the node takes the access token."""
    return (await service.request("GET", "/terminals/v1/list", token=tokens.body["access_token"])).status == 200


async def version_of_newest(service: Service) -> int:
    """Under which key the newest token was made."""
    version: int = await service.scene.value(
        "SELECT key_version FROM refresh_tokens ORDER BY generation DESC, key_version DESC LIMIT 1"
    )
    return version


@pytest.mark.on_postgres
async def test_a_key_is_rotated(first: Service, tmp_path: Path) -> None:
    """An added key changes nothing; after its activation tokens of the old key are still returned byte for byte."""
    exchanged = await post(first, first.scene.exchange(await first.scene.code()))
    second = await refreshed(first, exchanged)
    keys.add(file_in(tmp_path), activate=False)
    async with node(first, keys.read(file_in(tmp_path))) as added:
        assert (await refreshed(added, exchanged)).raw == second.raw
        third = await refreshed(added, second)
        assert await version_of_newest(first) == 1
        assert (await refreshed(first, second)).raw == third.raw
        keys.activate(file_in(tmp_path), 2)
        async with node(first, keys.read(file_in(tmp_path))) as activated:
            for repeated, brought in ((exchanged, second), (second, third)):
                assert (await refreshed(activated, repeated)).raw == brought.raw
            fourth = await refreshed(activated, third)
            assert await version_of_newest(first) == 2
            assert (await refreshed(added, third)).raw == fourth.raw, "it has the key, though it makes nothing with it"
            for tokens in (exchanged, second, third, fourth):
                for one in (first, added, activated):
                    assert await accepts(one, tokens)


async def test_a_node_without_a_key_answers_503(first: Service, tmp_path: Path) -> None:
    """Nothing is revoked or used up; the error is logged, but not for every request."""
    exchanged = await post(first, first.scene.exchange(await first.scene.code()))
    keys.add(file_in(tmp_path), activate=True)
    async with node(first, keys.read(file_in(tmp_path))) as ahead:
        second = await refreshed(ahead, exchanged)
        with capture_logs() as lines:
            for _ in range(5):
                reply = await post(first, first.scene.refresh(exchanged.body["refresh_token"]))
                assert (reply.status, reply.code, reply.headers["retry-after"]) == (503, "service_unavailable", "1")
                assert "lacks a server key" in reply.body["message"]
        said = [line for line in lines if line["event"] == "server_key_missing"]
        assert [(line["log_level"], line["key_version"]) for line in said] == [("error", 2)]
        assert (await refreshed(ahead, exchanged)).raw == second.raw
        assert await accepts(first, second), "a bearer needs no key"
        await refreshed(first, second)


async def test_a_node_with_another_key_of_that_version_answers_503(first: Service) -> None:
    """Keys that were created on each node, not copied: a retry must not return different tokens."""
    exchanged = await post(first, first.scene.exchange(await first.scene.code()))
    second = await refreshed(first, exchanged)
    async with node(first, Keys(1, {1: b"x" * 32})) as other:
        reply = await post(other, first.scene.refresh(exchanged.body["refresh_token"]))
        assert (reply.status, reply.code) == (503, "service_unavailable")
        assert (await refreshed(first, exchanged)).raw == second.raw
