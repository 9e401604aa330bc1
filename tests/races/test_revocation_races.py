"""A refresh concurrent with the revocation of its family, on two nodes: afterwards no token of the family is valid."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from nodes import two_nodes
from oauth_scene import Scene
from paydesk.core.clock import MovableClock
from paydesk.platform.storage.database import Database
from service import Reply, Service
from waiting import until_found

ROUNDS = 6
REFRESHES = 4

Tokens = dict[str, Any]


def in_time(service: Service) -> Scene:
    """The scene, by the service's own clock."""
    service.scene.clock = MovableClock()
    return service.scene


async def post(service: Service, path: str, body: dict[str, Any]) -> Reply:
    """A request to a token endpoint of a node."""
    return await service.request("POST", path, body, token=None, key=None)


async def is_dead(service: Service, tokens: Tokens) -> None:
    """No token of the pair is good on this node, and it says so; an access token is remembered for 5 s at most."""
    scene = service.scene
    refused = await post(service, "/oauth/token", scene.refresh(tokens["refresh_token"]))
    assert (refused.status, refused.code) == (400, "invalid_grant")
    for kind in ("access_token", "refresh_token"):
        answer = await post(service, "/oauth/introspect", scene.presented(tokens[kind]))
        assert answer.body == {"active": False}

    async def is_refused() -> bool:
        reply = await service.request("GET", "/terminals/v1/list", token=tokens["access_token"])
        assert reply.status in (200, 401)
        return reply.status == 401

    await until_found(is_refused)


async def race(nodes: tuple[Service, Service], tokens: Tokens, revoked: str) -> list[Tokens]:
    """Refreshes on both nodes and the revocation on one of them, all at once; the tokens that came out."""
    scene = nodes[0].scene
    refresh = scene.refresh(tokens["refresh_token"])
    either = itertools.cycle(nodes)
    asked = [post(next(either), "/oauth/token", refresh) for _ in range(REFRESHES)]
    asked.insert(REFRESHES // 2, post(nodes[1], "/oauth/revoke", scene.presented(revoked)))
    replies = await asyncio.gather(*asked)
    ended = replies.pop(REFRESHES // 2)
    assert (ended.status, ended.body) == (200, {})
    for reply in replies:
        assert (reply.status, reply.body.get("error")) in ((200, None), (400, "invalid_grant"))
    return [reply.body for reply in replies if reply.status == 200]


async def test_after_a_revocation_nothing_of_the_family_works(database: Database, database_url: str) -> None:
    """Refreshes return the same tokens or invalid_grant; afterwards all of them are invalid."""
    async with two_nodes(database, database_url) as nodes:
        scene = in_time(nodes[0])
        for number in range(ROUNDS):
            first = (await post(nodes[0], "/oauth/token", scene.exchange(await scene.code()))).body
            second = (await post(nodes[0], "/oauth/token", scene.refresh(first["refresh_token"]))).body
            # Every other time the token that is revoked is a used one.
            brought = await race(nodes, second, (first, second)[number % 2]["refresh_token"])
            assert len({tokens["refresh_token"] for tokens in brought}) <= 1
            for tokens in (first, second, *brought[:1]):
                for node in nodes:
                    await is_dead(node, tokens)


async def test_an_access_token_that_is_revoked_while_it_is_used(database: Database, database_url: str) -> None:
    """Requests authenticated before the commit finish; later ones are refused, and the family stays valid."""
    async with two_nodes(database, database_url) as nodes:
        scene = in_time(nodes[0])
        for _ in range(ROUNDS):
            tokens = (await post(nodes[0], "/oauth/token", scene.exchange(await scene.code()))).body
            token, either = tokens["access_token"], itertools.cycle(nodes)
            uses = [next(either).request("GET", "/terminals/v1/list", token=token) for _ in range(8)]
            revocation = post(nodes[0], "/oauth/revoke", scene.presented(token))
            replies = await asyncio.gather(*uses[:4], revocation, *uses[4:])
            assert {reply.status for reply in replies} <= {200, 401}
            assert replies[4].status == 200
            own = await nodes[0].request("GET", "/terminals/v1/list", token=token)
            assert own.status == 401, "on the node that revoked it, at once"
            refreshed = await post(nodes[1], "/oauth/token", scene.refresh(tokens["refresh_token"]))
            assert refreshed.status == 200
