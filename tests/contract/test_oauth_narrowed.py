"""An operator narrows an application's scopes: a token has the scopes that both it and the application have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oauth_scene import ALL_SCOPES, SECOND_MS, frozen_clock
from operator_calls import Operator
from paydesk.core.clock import MovableClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Reply, Service, order_body, running

READ, WRITE = "/terminals/v1/list", "/v1/orders"
REMEMBERS_SECONDS = 600.0
"""Longer than a test: what holds at once holds because memory was dropped."""


@pytest.fixture
def clock() -> MovableClock:
    """A clock that stands still."""
    return frozen_clock()


@pytest.fixture
async def service(database: Database, clock: MovableClock) -> AsyncIterator[Service]:
    """A node that remembers tokens and clients for long."""
    settings = Settings().model_copy(update={"bearer_cache_seconds": REMEMBERS_SECONDS})
    async with running(database, clock=clock, settings=settings, workers=False) as service:
        service.scene.clock = clock
        yield service


async def narrow(owner: Operator, scopes: str) -> None:
    """Set the application's scopes."""
    await owner.did("PATCH", f"applications/{owner.service.scene.application.application_id}", {"scopes": scopes})


async def may(service: Service, token: str) -> set[str]:
    """What an access token may do. Everything else is refused as `insufficient_scope`."""
    terminal = await service.terminal()
    replies = {
        "read": await service.request("GET", READ, token=token),
        "write": await service.request("POST", WRITE, order_body(terminal.id), token=token),
    }
    refused = {name: reply for name, reply in replies.items() if reply.status == 403}
    assert {reply.code for reply in refused.values()} <= {"insufficient_scope"}
    assert all(reply.status in (200, 201) for name, reply in replies.items() if name not in refused)
    return replies.keys() - refused.keys()


async def posted(service: Service, path: str, body: dict[str, Any]) -> Reply:
    """A request at an OAuth endpoint."""
    return await service.request("POST", f"/oauth/{path}", body, token=None, key=None)


async def issued(service: Service, body: dict[str, Any]) -> dict[str, Any]:
    """The tokens that this request must bring."""
    reply = await posted(service, "token", body)
    assert reply.status == 200, reply.body
    tokens: dict[str, Any] = reply.body
    return tokens


async def test_a_token_loses_a_scope_and_regains_it(service: Service, owner: Operator) -> None:
    """With the response to the operator, although token and client were cached."""
    scene = service.scene
    tokens = await issued(service, scene.exchange(await scene.code(), test_token=True))
    token = tokens["access_token"]
    assert tokens["scope"] == ALL_SCOPES
    for scopes, allowed in (
        (ALL_SCOPES, {"read", "write"}),
        ("offline_access read", {"read"}),
        ("offline_access write", {"write"}),
        ("offline_access", set()),
        ("read", {"read"}),
        (ALL_SCOPES, {"read", "write"}),
    ):
        await narrow(owner, scopes)
        assert await may(service, token) == allowed, scopes
        answer = await posted(service, "introspect", scene.presented(token))
        assert answer.body["scope"] == scopes


async def test_a_wider_application_adds_no_scope_to_a_token(service: Service, owner: Operator) -> None:
    """A token has at most the scopes that the seller granted."""
    scene = service.scene
    await narrow(owner, "read")
    tokens = await issued(service, scene.exchange(await scene.code(scope="read"), test_token=True))
    await narrow(owner, ALL_SCOPES)
    assert await may(service, tokens["access_token"]) == {"read"}
    assert (await posted(service, "introspect", scene.presented(tokens["access_token"]))).body["scope"] == "read"


async def test_introspection_leaves_out_an_empty_scope(service: Service, owner: Operator) -> None:
    """The token is active, without a member `scope`."""
    scene = service.scene
    tokens = await issued(service, scene.exchange(await scene.code(scope="read"), test_token=True))
    await narrow(owner, "write")
    assert await may(service, tokens["access_token"]) == set()
    answer = (await posted(service, "introspect", scene.presented(tokens["access_token"]))).body
    assert (answer["active"], "scope" in answer) == (True, False)


async def test_a_refresh_answers_what_is_left_of_the_scope(service: Service, owner: Operator) -> None:
    """Whether requested or not, and the same for a retry; the scope returns with the application's."""
    scene = service.scene
    first = await issued(service, scene.exchange(await scene.code(), test_token=True))
    await narrow(owner, "offline_access read")
    second = await issued(service, scene.refresh(first["refresh_token"]))
    assert second["scope"] == "offline_access read"
    assert await issued(service, scene.refresh(first["refresh_token"])) == second
    third = await issued(service, scene.refresh(second["refresh_token"], scope="read write"))
    assert third["scope"] == "read"
    assert await may(service, third["access_token"]) == {"read"}
    answer = await posted(service, "introspect", scene.presented(third["refresh_token"]))
    assert answer.body["scope"] == "offline_access read"
    none = await posted(service, "token", scene.refresh(third["refresh_token"], scope="write"))
    assert none.code == "invalid_scope"
    await narrow(owner, ALL_SCOPES)
    assert await may(service, third["access_token"]) == {"read", "write"}
    assert (await issued(service, scene.refresh(third["refresh_token"])))["scope"] == ALL_SCOPES


async def test_a_retry_after_the_narrowing_has_the_current_scope(
    service: Service, owner: Operator, clock: MovableClock
) -> None:
    """The tokens are the same, with the scope that they have now."""
    scene = service.scene
    first = await issued(service, scene.exchange(await scene.code(), test_token=True))
    second = await issued(service, scene.refresh(first["refresh_token"]))
    await narrow(owner, "offline_access read")
    clock.advance(SECOND_MS)
    again = await issued(service, scene.refresh(first["refresh_token"]))
    assert again["access_token"] == second["access_token"]
    assert (second["scope"], again["scope"]) == (ALL_SCOPES, "offline_access read")


async def test_without_offline_access_a_refresh_is_refused(service: Service, owner: Operator) -> None:
    """`unauthorized_client`, and the refresh token is not active until the scope is restored."""
    scene = service.scene
    first = await issued(service, scene.exchange(await scene.code(), test_token=True))
    await narrow(owner, "read write")
    refused = await posted(service, "token", scene.refresh(first["refresh_token"]))
    assert (refused.status, refused.code) == (400, "unauthorized_client")
    assert (await posted(service, "introspect", scene.presented(first["refresh_token"]))).body == {"active": False}
    assert await may(service, first["access_token"]) == {"read", "write"}
    await narrow(owner, ALL_SCOPES)
    assert (await issued(service, scene.refresh(first["refresh_token"])))["scope"] == ALL_SCOPES


async def test_a_code_with_no_scope_left_is_refused(service: Service, owner: Operator) -> None:
    """`invalid_scope`, which does not use up the code."""
    scene = service.scene
    exchange = scene.exchange(await scene.code(scope="read"), test_token=True)
    await narrow(owner, "write")
    assert (await posted(service, "token", exchange)).code == "invalid_scope"
    await narrow(owner, "read write")
    assert (await issued(service, exchange))["scope"] == "read"
