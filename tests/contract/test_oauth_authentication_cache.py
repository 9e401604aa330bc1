"""The cache of authenticated clients: it saves look-ups and never causes a refusal."""

from __future__ import annotations

import asyncio

import pytest

from oauth_scene import DAY_MS, SECOND_MS, Scene, make_scene
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.clients.authentication import AuthenticationCache, Entry
from paydesk.platform.operation import Answer
from paydesk.platform.storage.database import Database, Work

SOMEWHERE_ELSE = "https://elsewhere.example/callback"


@pytest.fixture
async def scene(database: Database) -> Scene:
    """A node that remembers clients, and one who has shown its secret a moment ago."""
    made = await make_scene(database)
    made.authentication_cache = AuthenticationCache(database.signals, 5)
    await made.tokens()
    return made


def known(scene: Scene, *, after_ms: int = 0) -> bool:
    """Whether the node still takes the client's own credentials from memory."""
    cache = scene.shared.objects[AuthenticationCache]
    now_ms = scene.clock.now_ms() + after_ms
    return cache.find(str(scene.application.application_id), scene.secret, now_ms) is not None


async def as_an_operator(scene: Scene, work: Work[bool]) -> None:
    """Make a change, up to the notification of its topics."""
    assert await scene.database.write(work)
    await asyncio.sleep(0)


async def the_secret(scene: Scene) -> str:
    """The id of the application's one secret."""
    return str(await scene.value("SELECT secret_id FROM application_secrets WHERE application_id = $1", own_id(scene)))


def own_id(scene: Scene) -> int:
    """The application's number."""
    return scene.application.application_id


async def test_a_valid_secret_is_looked_up_once(scene: Scene) -> None:
    """Then it is cached: on a node that missed a change, even after the row is gone."""
    tokens = await scene.tokens()
    await scene.run("UPDATE application_secrets SET digest = $1 WHERE application_id = $2", b"x" * 32, own_id(scene))
    assert isinstance(await scene.call(scene.refresh(tokens["refresh_token"])), Answer)


async def test_another_secret_is_refused(scene: Scene) -> None:
    """Also while the client is cached; the client stays authenticated."""
    tokens = await scene.tokens()
    forged = {**scene.refresh(tokens["refresh_token"]), "client_secret": "0" * 64}
    assert await scene.refusal(forged) == ("invalid_client", "secret differs")
    assert isinstance(await scene.call(scene.refresh(tokens["refresh_token"])), Answer)


async def test_a_suspended_client_stops_at_once(scene: Scene) -> None:
    """Its node drops it with the commit of the suspension, and caches it again after the resumption."""
    tokens, number, now_ms = await scene.tokens(), own_id(scene), scene.clock.now_ms()
    await as_an_operator(scene, lambda tx: applications.suspend(tx, number, now_ms))
    for _ in range(2):
        refusal = await scene.refusal(scene.refresh(tokens["refresh_token"]))
        assert refusal == ("forbidden", "application suspended")
    await as_an_operator(scene, lambda tx: applications.resume(tx, number))
    assert isinstance(await scene.call(scene.refresh(tokens["refresh_token"])), Answer)
    assert known(scene)


@pytest.mark.on_postgres
async def test_a_secret_expires_on_time(scene: Scene) -> None:
    """A secret with an expiry is looked up again, is valid until then and refused afterwards, whatever the clock."""
    tokens, secret_id = await scene.tokens(), await the_secret(scene)
    end_ms = scene.clock.now_ms() + SECOND_MS
    await as_an_operator(scene, lambda tx: applications.expire_secret(tx, own_id(scene), secret_id, end_ms))
    assert not known(scene)
    tokens = await scene.answer(scene.refresh(tokens["refresh_token"]))
    assert known(scene)
    assert not known(scene, after_ms=SECOND_MS)
    refused = ("invalid_client", "secret expired")
    assert await scene.refusal(scene.refresh(tokens["refresh_token"]), end_ms) == refused
    await asyncio.sleep(0)
    assert await scene.refusal(scene.refresh(tokens["refresh_token"])) == refused


async def test_an_outdated_cache_entry_refuses_no_request(scene: Scene) -> None:
    """A change by another node applies here, although this node has not heard of it."""
    await scene.run(
        "UPDATE applications SET redirect_uris = $1 WHERE application_id = $2", f'["{SOMEWHERE_ELSE}"]', own_id(scene)
    )
    tokens = await scene.tokens()
    refreshed = await scene.call(scene.refresh(tokens["refresh_token"], redirect_uri=SOMEWHERE_ELSE))
    assert isinstance(refreshed, Answer)


async def test_a_refusal_after_the_cache_changes_nothing(scene: Scene) -> None:
    """A request refused with the cached client and again after the look-up leaves the family valid."""
    tokens = await scene.tokens()
    refusal = await scene.refusal(scene.refresh(tokens["refresh_token"], scope="read other"))
    assert refusal == ("invalid_scope", "scope is unknown")
    assert isinstance(await scene.call(scene.refresh(tokens["refresh_token"])), Answer)


async def test_a_client_read_before_a_change_is_not_cached(scene: Scene) -> None:
    """A change between the read and the store keeps it out of the cache."""
    cache, application = AuthenticationCache(scene.database.signals, 5), scene.application
    client_id = str(application.application_id)
    before = cache.changes
    scene.database.signals.notify(("applications",))
    cache.store(client_id, Entry(application, b"d" * 32, None), changes=before)
    assert cache.find(client_id, scene.secret, DAY_MS) is None
