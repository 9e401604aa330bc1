"""Bearers: the caller of an access token, what invalidates it, and how soon a node sees that."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from oauth_scene import DAY_MS, SECOND_MS, Scene, authorizations_of
from paydesk.core.errors import Refusal
from paydesk.core.secrets import digest
from paydesk.engine.oauth import authorizations, store
from paydesk.engine.oauth.bearer import Bearers
from paydesk.engine.oauth.clients import applications
from paydesk.engine.sellers import store as sellers
from paydesk.platform.operation import Caller
from paydesk.platform.storage.database import Transaction, Work

CACHE_SECONDS = 5


@pytest.fixture
def bearers(scene: Scene) -> Bearers:
    """The bearers of a node with its cache."""
    return Bearers(scene.database, CACHE_SECONDS)


async def write(scene: Scene, work: Work[bool]) -> None:
    """Make a change as an operator, up to the notification of its topics.

    The wakes are delivered in a turn of the loop of their own, which comes before any answer can have left.
    """
    assert await scene.database.write(work)
    await asyncio.sleep(0)


async def withdraw(seller_id: int, authorization_id: str, now_ms: int, tx: Transaction) -> bool:
    """The seller takes a consent back."""
    return await authorizations.withdraw(tx, seller_id=seller_id, authorization_id=authorization_id, now_ms=now_ms)


async def refused(bearers: Bearers, token: str | None, now_ms: int) -> tuple[int, str]:
    """Status and reason of the refusal that this must bring."""
    with pytest.raises(Refusal) as caught:
        await bearers.caller(token, now_ms)
    return caught.value.kind.status, caught.value.reason


async def test_a_token_identifies_its_caller(scene: Scene, bearers: Bearers) -> None:
    """Seller, application, mode, scopes, currency and country, also from the cache."""
    token = (await scene.tokens(scope="read offline_access", test_token=True))["access_token"]
    expected = Caller(
        seller_id=scene.seller.seller_id,
        application_id=scene.application.application_id,
        live=False,
        scopes=frozenset({"offline_access", "read"}),
        currency="BRL",
        country="BRA",
        token_digest=digest(token),
    )
    for _ in range(2):
        assert await bearers.caller(token, scene.clock.now_ms()) == expected


@pytest.mark.parametrize("token", [None, ""])
async def test_a_missing_token_is_refused(scene: Scene, bearers: Bearers, token: str | None) -> None:
    """The message is the one that existing clients expect."""
    with pytest.raises(Refusal) as caught:
        await bearers.caller(token, scene.clock.now_ms())
    assert (caught.value.kind.status, caught.value.public_message) == (401, "authorization value not present")


async def test_an_unknown_token_is_looked_up_again(scene: Scene, bearers: Bearers) -> None:
    """A failed look-up is not cached; codes and refresh tokens are no bearer tokens."""
    body = await scene.tokens()
    now_ms = scene.clock.now_ms()
    await scene.run("UPDATE access_tokens SET seller_id = seller_id + 1")
    assert await refused(bearers, body["access_token"], now_ms) == (401, "unknown token")
    await scene.run("UPDATE access_tokens SET seller_id = seller_id - 1")
    await bearers.caller(body["access_token"], now_ms)
    assert await refused(bearers, body["refresh_token"], now_ms) == (401, "unknown token")
    assert await refused(bearers, "PDT-x", now_ms) == (401, "unknown token")


async def test_a_token_outlives_the_refresh_of_its_family(scene: Scene, bearers: Bearers) -> None:
    """The access token of a refreshed generation is valid until it expires."""
    body = await scene.tokens()
    await scene.answer(scene.refresh(body["refresh_token"]))
    await bearers.caller(body["access_token"], scene.clock.now_ms())


async def test_an_expired_token_stays_expired(scene: Scene, bearers: Bearers) -> None:
    """The cache does not outlive the token, also if the clock is set back."""
    token = (await scene.tokens())["access_token"]
    now_ms = scene.clock.now_ms()
    end_ms = now_ms + 180 * DAY_MS
    await bearers.caller(token, end_ms - 1)
    assert await refused(bearers, token, end_ms) == (401, "expired")
    assert await refused(Bearers(scene.database, CACHE_SECONDS), token, now_ms) == (401, "expired")


async def test_a_revoked_family_stops_at_once(scene: Scene, bearers: Bearers) -> None:
    """On its node the cache drops the family with the commit that revokes it, and no other family."""
    token, other = [(await scene.tokens())["access_token"] for _ in range(2)]
    now_ms = scene.clock.now_ms()
    for good in (token, other):
        await bearers.caller(good, now_ms)
    family_id = await scene.value("SELECT family_id FROM token_families ORDER BY family_id LIMIT 1")
    await write(scene, lambda tx: store.revoke_family(tx, scene.seller.seller_id, family_id, now_ms, "test"))
    outcomes = []
    for either in (token, other):
        try:
            await bearers.caller(either, now_ms)
        except Refusal as refusal:
            outcomes.append(refusal.reason)
    assert outcomes == ["revoked"]


async def test_an_access_token_can_be_revoked_alone(scene: Scene, bearers: Bearers) -> None:
    """The other tokens of its family stay valid."""
    body = await scene.tokens()
    await scene.run("UPDATE access_tokens SET revoked_ms = 1")
    assert await refused(bearers, body["access_token"], scene.clock.now_ms()) == (401, "revoked")
    second = await scene.answer(scene.refresh(body["refresh_token"]))
    await bearers.caller(second["access_token"], scene.clock.now_ms())


async def test_a_withdrawn_authorization_stops_at_once(scene: Scene, bearers: Bearers) -> None:
    """A withdrawal invalidates every token of the authorization, and its codes."""
    token = (await scene.tokens())["access_token"]
    code = await scene.code()
    seller_id, now_ms = scene.seller.seller_id, scene.clock.now_ms()
    await bearers.caller(token, now_ms)
    granted = await scene.database.read(lambda tx: authorizations_of(tx, seller_id))
    for authorization_id in [authorization.authorization_id for authorization in granted]:
        await write(scene, partial(withdraw, seller_id, authorization_id, now_ms))
    assert await refused(bearers, token, now_ms) == (401, "authorization withdrawn")
    assert await scene.refusal(scene.exchange(code)) == ("unauthorized_client", "authorization withdrawn")


@pytest.mark.on_postgres
async def test_suspension_stops_tokens_and_resumption_restores_them(scene: Scene, bearers: Bearers) -> None:
    """A suspended seller or application gets 403 at once; its tokens are valid again afterwards."""
    token = (await scene.tokens())["access_token"]
    seller_id, application_id = scene.seller.seller_id, scene.application.application_id
    now_ms = scene.clock.now_ms()
    await bearers.caller(token, now_ms)
    await write(scene, lambda tx: sellers.suspend(tx, seller_id, now_ms))
    assert await refused(bearers, token, now_ms) == (403, "seller suspended")
    await write(scene, lambda tx: sellers.resume(tx, seller_id))
    await bearers.caller(token, now_ms)
    await write(scene, lambda tx: applications.suspend(tx, application_id, now_ms))
    assert await refused(bearers, token, now_ms) == (403, "application suspended")
    await write(scene, lambda tx: applications.resume(tx, application_id))
    await bearers.caller(token, now_ms)


async def test_another_node_may_be_seconds_behind(scene: Scene, bearers: Bearers) -> None:
    """A change without a signal on this node is seen when the cached look-up expires."""
    token = (await scene.tokens())["access_token"]
    now_ms = scene.clock.now_ms()
    await bearers.caller(token, now_ms)
    await scene.run("UPDATE token_families SET revoked_ms = 1")
    await bearers.caller(token, now_ms + SECOND_MS)
    assert await refused(Bearers(scene.database, 0), token, now_ms) == (401, "revoked")
