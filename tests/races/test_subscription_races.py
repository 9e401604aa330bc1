"""Concurrent changes of one subscription: never three valid secrets, never none that is primary."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from nodes import two_nodes
from operator_calls import Operator, audited, operator
from paydesk.platform.storage.database import Database
from service import Service

URL = "https://93.184.216.34/hooks"
ROUNDS = 6
UNSOUND = """
SELECT s.subscription_id, COUNT(k.generation), SUM(CASE WHEN k.generation = s.secret_generation THEN 1 ELSE 0 END)
  FROM subscriptions s LEFT JOIN subscription_secrets k
       ON k.subscription_id = s.subscription_id AND k.dropped_ms IS NULL
 GROUP BY s.subscription_id
HAVING COUNT(k.generation) NOT BETWEEN 1 AND 2
    OR SUM(CASE WHEN k.generation = s.secret_generation THEN 1 ELSE 0 END) <> 1
"""


async def subscribed(owner: Operator) -> str:
    """Subscribe the application; return the path."""
    body = {"client_id": owner.service.scene.application.application_id, "url": URL}
    return f"subscriptions/{(await owner.did('POST', 'subscriptions', body))['id']}"


async def operators(first: Service, second: Service) -> tuple[Operator, Operator]:
    """Return the same operator at each node."""
    one = await operator(first)
    return one, Operator(second, one.operator_id, one.token)


async def at_once(*requests: tuple[Operator, str, str]) -> list[int]:
    """Send the requests concurrently; return their statuses."""
    replies = await asyncio.gather(*(one.ask(method, path) for one, method, path in requests))
    return [reply.status for reply in replies]


@pytest.mark.parametrize("count", [2, 8])
async def test_concurrent_additions_never_make_three_secrets(database: Database, database_url: str, count: int) -> None:
    """One is added; the others are refused, and their secrets are never used."""
    async with two_nodes(database, database_url) as nodes:
        both = await operators(*nodes)
        for _ in range(ROUNDS):
            path = await subscribed(both[0])
            statuses = await at_once(*((both[number % 2], "POST", f"{path}/secrets") for number in range(count)))
            assert Counter(statuses) == {201: 1, 409: count - 1}
            assert [secret["id"] for secret in (await both[0].did("GET", path))["secrets"]] == ["1", "2"]
        assert await nodes[0].scene.value(f"SELECT COUNT(*) FROM ({UNSOUND}) AS found") == 0


async def test_promotion_and_drop_leave_a_primary_secret(database: Database, database_url: str) -> None:
    """Whatever comes first of: promote and drop the second, drop the first, and add another."""
    async with two_nodes(database, database_url) as nodes:
        both = await operators(*nodes)
        seen = Counter[tuple[Any, ...]]()
        for turn in range(ROUNDS * 2):
            path = await subscribed(both[0])
            await both[0].did("POST", f"{path}/secrets")
            requests = [
                (both[turn % 2], "POST", f"{path}/secrets/2/promote"),
                (both[1 - turn % 2], "DELETE", f"{path}/secrets/2"),
                (both[turn % 2], "DELETE", f"{path}/secrets/1"),
                (both[1 - turn % 2], "POST", f"{path}/secrets"),
            ]
            statuses = await at_once(*(requests[turn % 4 :] + requests[: turn % 4]))
            assert set(statuses) <= {200, 201, 404, 409}, statuses
            secrets = (await both[1].did("GET", path))["secrets"]
            assert [secret["is_primary"] for secret in secrets].count(True) == 1
            seen[tuple(secret["id"] for secret in secrets)] += 1
        assert await nodes[0].scene.value(f"SELECT COUNT(*) FROM ({UNSOUND}) AS found") == 0


async def test_one_of_concurrent_deletions_takes_effect(database: Database, database_url: str) -> None:
    """It is audited once, and nothing is changed after it."""
    async with two_nodes(database, database_url) as nodes:
        both = await operators(*nodes)
        for _ in range(ROUNDS):
            path = await subscribed(both[0])
            statuses = await at_once(
                (both[0], "DELETE", path), (both[1], "DELETE", path), (both[0], "POST", f"{path}/pause")
            )
            assert sorted(statuses[:2]) == [204, 404]
            assert statuses[2] in (200, 404)
            subject = path.partition("/")[2]
            lines = [line for line in await audited(nodes[0]) if line.subject == subject]
            (deleted,) = [line for line in lines if line.action == "subscriptions.delete"]
            assert (deleted.before["status"] == "paused") is (statuses[2] == 200)
            assert len(lines) == (3 if statuses[2] == 200 else 2)


async def test_concurrent_pauses_are_audited_once(database: Database, database_url: str) -> None:
    """Pause, and pause again, from both nodes; then resume likewise."""
    async with two_nodes(database, database_url) as nodes:
        both = await operators(*nodes)
        path = await subscribed(both[0])
        for verb in ("pause", "resume"):
            assert set(await at_once(*((one, "POST", f"{path}/{verb}") for one in both * 2))) == {200}
        lines = [line.action for line in await audited(nodes[0])]
        assert lines == ["subscriptions.create", "subscriptions.pause", "subscriptions.resume"]
