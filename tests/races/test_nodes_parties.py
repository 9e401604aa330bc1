"""What an operator changes on one node holds on the other: at once by a hint, and without it when memory ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodes import two_nodes
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.settings import Settings
from paydesk.storage.connect import open_database
from service import Reply, Service

NEVER_SECONDS = 600.0
"""Longer than a test: memory that ends then ends by a hint, or not at all."""
OTHER_URI = "https://shop.example/other"

Nodes = tuple[Service, Service]
Change = Callable[[Operator], Awaitable[None]]


def own(owner: Operator) -> str:
    """The path of the application that acts for the service's seller."""
    return f"applications/{owner.service.scene.application.application_id}"


async def suspend_application(owner: Operator) -> None:
    """The application is suspended."""
    await owner.did("POST", f"{own(owner)}/suspend")


async def remove_secret(owner: Operator) -> None:
    """The application's one secret is removed."""
    (secret,) = (await owner.did("GET", own(owner)))["secrets"]
    await owner.did("DELETE", f"{own(owner)}/secrets/{secret['id']}")


async def end_secret(owner: Operator) -> None:
    """Another secret takes the place of the application's one at once."""
    await owner.did("POST", f"{own(owner)}/secrets", {"others_expire_in": "0s"})


async def remove_address(owner: Operator) -> None:
    """The address that codes were sent to is one of the application's no more."""
    await owner.did("PATCH", own(owner), {"redirect_uris": [OTHER_URI]})


async def take_offline_access(owner: Operator) -> None:
    """The application may not have refresh tokens any more."""
    await owner.did("PATCH", own(owner), {"scopes": "read write"})


async def suspend_seller(owner: Operator) -> None:
    """The seller is suspended."""
    await owner.did("POST", f"sellers/{owner.service.seller_id}/suspend")


CHANGES: list[tuple[Change, str, int]] = [
    (suspend_application, "forbidden", 403),
    (remove_secret, "invalid_client", 200),
    (end_secret, "invalid_client", 200),
    (remove_address, "invalid_grant", 200),
    (take_offline_access, "unauthorized_client", 200),
    (suspend_seller, "forbidden", 403),
]
"""What is done, what a code's exchange is answered then, and what an access token is."""


@asynccontextmanager
async def nodes_of(postgres_url: str, settings: Settings, wakes_url: str | None = None) -> AsyncIterator[Nodes]:
    """Two nodes with these settings; the second hears of the first by way of `wakes_url`."""
    opened, clock = await open_database(postgres_url), MovableClock()
    try:
        async with two_nodes(opened, postgres_url, clock=clock, settings=settings, wakes_url=wakes_url) as nodes:
            nodes[0].scene.clock = clock
            yield nodes
    finally:
        await opened.close()


async def until(come: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it has come."""
    async with asyncio.timeout(20):
        while not await come():  # noqa: ASYNC110 - another node gives no sign of its own
            await asyncio.sleep(0.02)


async def exchanged(service: Service) -> Reply:
    """What a new code is exchanged for."""
    body = service.scene.exchange(await service.scene.code())
    return await service.request("POST", "/oauth/token", body, token=None, key=None)


async def bearer_status(service: Service) -> int:
    """What the access token that the service began with is answered."""
    return (await service.request("GET", "/terminals/v1/list")).status


async def holds_everywhere(nodes: Nodes, change: Change, code: str, status: int) -> None:
    """At once where it was made; where client and token were good a moment ago, as soon as it is heard of."""
    here, there = nodes
    owner = await operator(here)
    for node in nodes:
        assert (await exchanged(node)).status == 200
        assert await bearer_status(node) == 200
    await change(owner)
    refused = await exchanged(here)
    assert (refused.status, refused.code) == (400, code)
    assert await bearer_status(here) == status

    async def holds_there() -> bool:
        reply = await exchanged(there)
        return reply.status == 400 and reply.code == code and await bearer_status(there) == status

    await until(holds_there)


@pytest.mark.parametrize(("change", "code", "status"), CHANGES, ids=[row[0].__name__ for row in CHANGES])
async def test_a_change_is_heard_of_on_the_other_node(
    postgres_url: str, change: Change, code: str, status: int
) -> None:
    """By the hint, long before memory ends."""
    remembers = Settings().model_copy(update={"bearer_cache_seconds": NEVER_SECONDS})
    async with nodes_of(postgres_url, remembers) as nodes:
        await holds_everywhere(nodes, change, code, status)


@pytest.mark.parametrize(("change", "code", "status"), [CHANGES[1], CHANGES[-1]], ids=["secret", "seller"])
async def test_without_hints_it_holds_when_memory_ends(
    postgres_url: str, tmp_path: Path, change: Change, code: str, status: int
) -> None:
    """After five seconds at the latest; here after a third of one."""
    nowhere = f"postgresql://paydesk@/paydesk?host={tmp_path}"
    async with nodes_of(postgres_url, Settings(bearer_cache_seconds=0.3), nowhere) as nodes:
        await holds_everywhere(nodes, change, code, status)


async def take_write(owner: Operator) -> None:
    """The application may only read."""
    await owner.did("PATCH", own(owner), {"scopes": "offline_access read"})


async def give_write(owner: Operator) -> None:
    """The application may write again."""
    await owner.did("PATCH", own(owner), {"scopes": "offline_access read write"})


async def may_write(node: Service) -> bool:
    """Whether an order of the access token that the service began with gets as far as its fields."""
    reply = await node.request("POST", "/v1/orders", {"type": "point"})
    assert (reply.status, reply.code) in ((400, "required_properties"), (403, "insufficient_scope"))
    return reply.status == 400


async def introspected(node: Service) -> str:
    """The scope that introspection answers for that token."""
    body = node.scene.presented(node.access_token)
    scope: str = (await node.request("POST", "/oauth/introspect", body, token=None, key=None)).body["scope"]
    return scope


async def a_scope_is_taken_and_given_back(nodes: Nodes) -> None:
    """At once where it was done; on the other node, where the token was good a moment ago, soon."""
    here, there = nodes
    owner = await operator(here)
    assert [await may_write(node) for node in nodes] == [True, True]
    for change, scope, expected in (
        (take_write, "offline_access read", False),
        (give_write, "offline_access read write", True),
    ):
        await change(owner)
        assert await may_write(here) is expected

        async def holds_there(expected: bool = expected) -> bool:  # noqa: FBT001 - bound in a loop
            return await may_write(there) is expected

        await until(holds_there)
        assert [await introspected(node) for node in nodes] == [scope, scope]


async def test_a_narrowed_application_is_heard_of_on_the_other_node(postgres_url: str) -> None:
    """By the hint, long before memory ends."""
    remembers = Settings().model_copy(update={"bearer_cache_seconds": NEVER_SECONDS})
    async with nodes_of(postgres_url, remembers) as nodes:
        await a_scope_is_taken_and_given_back(nodes)


async def test_without_hints_a_narrowed_application_holds_when_memory_ends(postgres_url: str, tmp_path: Path) -> None:
    """After five seconds at the latest; here after a third of one."""
    nowhere = f"postgresql://paydesk@/paydesk?host={tmp_path}"
    async with nodes_of(postgres_url, Settings(bearer_cache_seconds=0.3), nowhere) as nodes:
        await a_scope_is_taken_and_given_back(nodes)
