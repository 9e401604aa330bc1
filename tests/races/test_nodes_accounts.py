"""Operators' changes on one node take effect on the other: at once by notification, otherwise when caches expire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodes import two_nodes
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from service import Reply, Service
from waiting import until_found

NEVER_SECONDS = 600.0
"""Longer than a test: a cache entry is evicted by a notification or not at all."""
OTHER_URI = "https://shop.example/other"

Nodes = tuple[Service, Service]
Change = Callable[[Operator], Awaitable[None]]


def own(owner: Operator) -> str:
    """Return the path of the application that is authorized for the service's seller."""
    return f"applications/{owner.service.scene.application.application_id}"


async def suspend_application(owner: Operator) -> None:
    """Suspend the application."""
    await owner.did("POST", f"{own(owner)}/suspend")


async def remove_secret(owner: Operator) -> None:
    """Remove the application's only secret."""
    (secret,) = (await owner.did("GET", own(owner)))["secrets"]
    await owner.did("DELETE", f"{own(owner)}/secrets/{secret['id']}")


async def end_secret(owner: Operator) -> None:
    """Replace the application's only secret without an overlap."""
    await owner.did("POST", f"{own(owner)}/secrets", {"others_expire_in": "0s"})


async def remove_redirect_uri(owner: Operator) -> None:
    """Remove the redirect URI that the codes were issued for."""
    await owner.did("PATCH", own(owner), {"redirect_uris": [OTHER_URI]})


async def remove_offline_access(owner: Operator) -> None:
    """Remove the scope `offline_access`."""
    await owner.did("PATCH", own(owner), {"scopes": "read write"})


async def suspend_seller(owner: Operator) -> None:
    """Suspend the seller."""
    await owner.did("POST", f"sellers/{owner.service.seller_id}/suspend")


CHANGES: list[tuple[Change, str, int]] = [
    (suspend_application, "forbidden", 403),
    (remove_secret, "invalid_client", 200),
    (end_secret, "invalid_client", 200),
    (remove_redirect_uri, "invalid_grant", 200),
    (remove_offline_access, "unauthorized_client", 200),
    (suspend_seller, "forbidden", 403),
]
"""The change, the error of exchanging a code afterwards, and the status of a request with an access token."""


@asynccontextmanager
async def nodes_of(postgres_url: str, settings: Settings, wakes_url: str | None = None) -> AsyncIterator[Nodes]:
    """Run two nodes with these settings; the second gets notifications by way of `wakes_url`."""
    opened, clock = await open_database(postgres_url), MovableClock()
    try:
        async with two_nodes(opened, postgres_url, clock=clock, settings=settings, wakes_url=wakes_url) as nodes:
            nodes[0].scene.clock = clock
            yield nodes
    finally:
        await opened.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds."""
    await until_found(condition)


async def exchanged(service: Service) -> Reply:
    """Exchange a new code and return the reply."""
    body = service.scene.exchange(await service.scene.code())
    return await service.request("POST", "/oauth/token", body, token=None, key=None)


async def bearer_status(service: Service) -> int:
    """Return the status of a request with the service's first access token."""
    return (await service.request("GET", "/terminals/v1/list")).status


async def takes_effect_everywhere(nodes: Nodes, change: Change, code: str, status: int) -> None:
    """Assert that the change takes effect at once on its node, and soon on the other, where both are cached."""
    here, there = nodes
    owner = await operator(here)
    for node in nodes:
        assert (await exchanged(node)).status == 200
        assert await bearer_status(node) == 200
    await change(owner)
    refused = await exchanged(here)
    assert (refused.status, refused.code) == (400, code)
    assert await bearer_status(here) == status

    async def takes_effect_there() -> bool:
        reply = await exchanged(there)
        return reply.status == 400 and reply.code == code and await bearer_status(there) == status

    await until(takes_effect_there)


@pytest.mark.parametrize(("change", "code", "status"), CHANGES, ids=[row[0].__name__ for row in CHANGES])
async def test_a_change_takes_effect_on_the_other_node_by_notification(
    postgres_url: str, change: Change, code: str, status: int
) -> None:
    """The notification evicts the cache entries long before they expire."""
    settings = Settings().model_copy(update={"bearer_cache_seconds": NEVER_SECONDS})
    async with nodes_of(postgres_url, settings) as nodes:
        await takes_effect_everywhere(nodes, change, code, status)


@pytest.mark.parametrize(("change", "code", "status"), [CHANGES[1], CHANGES[-1]], ids=["secret", "seller"])
async def test_without_notifications_a_change_takes_effect_when_caches_expire(
    postgres_url: str, tmp_path: Path, change: Change, code: str, status: int
) -> None:
    """Entries expire after 5 s by default; here after 0.3 s."""
    nowhere = f"postgresql://paydesk@/paydesk?host={tmp_path}"
    async with nodes_of(postgres_url, Settings(bearer_cache_seconds=0.3), nowhere) as nodes:
        await takes_effect_everywhere(nodes, change, code, status)


async def remove_write(owner: Operator) -> None:
    """Remove the scope `write`."""
    await owner.did("PATCH", own(owner), {"scopes": "offline_access read"})


async def restore_write(owner: Operator) -> None:
    """Add the scope `write` again."""
    await owner.did("PATCH", own(owner), {"scopes": "offline_access read write"})


async def may_write(node: Service) -> bool:
    """Return whether creating an order with the service's first access token passes the scope check."""
    reply = await node.request("POST", "/v1/orders", {"type": "point"})
    assert (reply.status, reply.code) in ((400, "required_properties"), (403, "insufficient_scope"))
    return reply.status == 400


async def introspected(node: Service) -> str:
    """Return the scope of that token by introspection."""
    body = node.scene.presented(node.access_token)
    scope: str = (await node.request("POST", "/oauth/introspect", body, token=None, key=None)).body["scope"]
    return scope


async def scope_is_removed_and_restored(nodes: Nodes) -> None:
    """Assert that both changes take effect at once on their node, and soon on the other, where the token is cached."""
    here, there = nodes
    owner = await operator(here)
    assert [await may_write(node) for node in nodes] == [True, True]
    for change, scope, expected in (
        (remove_write, "offline_access read", False),
        (restore_write, "offline_access read write", True),
    ):
        await change(owner)
        assert await may_write(here) is expected

        async def takes_effect_there(expected: bool = expected) -> bool:  # noqa: FBT001 - bound in a loop
            return await may_write(there) is expected

        await until(takes_effect_there)
        assert [await introspected(node) for node in nodes] == [scope, scope]


async def test_a_scope_change_takes_effect_on_the_other_node_by_notification(postgres_url: str) -> None:
    """The notification evicts the cache entries long before they expire."""
    settings = Settings().model_copy(update={"bearer_cache_seconds": NEVER_SECONDS})
    async with nodes_of(postgres_url, settings) as nodes:
        await scope_is_removed_and_restored(nodes)


async def test_without_notifications_a_scope_change_takes_effect_when_caches_expire(
    postgres_url: str, tmp_path: Path
) -> None:
    """Entries expire after 5 s by default; here after 0.3 s."""
    nowhere = f"postgresql://paydesk@/paydesk?host={tmp_path}"
    async with nodes_of(postgres_url, Settings(bearer_cache_seconds=0.3), nowhere) as nodes:
        await scope_is_removed_and_restored(nodes)
