"""A client that has just proven who it is need not be looked up again, and is never refused for what was remembered."""

from __future__ import annotations

import asyncio

import pytest

from oauth_scene import DAY_MS, SECOND_MS, Scene, make_scene
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.authentication_cache import AuthenticationCache
from paydesk.operation import Answer
from paydesk.storage.database import Database, Work

SOMEWHERE_ELSE = "https://elsewhere.example/callback"


@pytest.fixture
async def scene(database: Database) -> Scene:
    """A node that remembers clients, and one who has shown its secret a moment ago."""
    made = await make_scene(database)
    made.state = {"authentication_cache": AuthenticationCache(database.signals, 5)}
    await made.tokens()
    return made


def known(scene: Scene, *, after_ms: int = 0) -> bool:
    """Whether the node still takes the client's own credentials from memory."""
    proven: AuthenticationCache = scene.state["authentication_cache"]
    now_ms = scene.clock.now_ms() + after_ms
    return proven.find(str(scene.application.application_id), scene.secret, now_ms) is not None


async def as_an_operator(scene: Scene, work: Work[bool]) -> None:
    """Change something, up to the moment when somebody could read of it."""
    assert await scene.database.write(work)
    await asyncio.sleep(0)


async def the_secret(scene: Scene) -> str:
    """The id of the application's one secret."""
    return str(await scene.value("SELECT secret_id FROM application_secrets WHERE application_id = $1", own_id(scene)))


def own_id(scene: Scene) -> int:
    """The application's number."""
    return scene.application.application_id


async def test_a_good_secret_is_looked_up_once(scene: Scene) -> None:
    """Once proven it is taken from memory: on a node that is behind, even after the row is gone."""
    tokens = await scene.tokens()
    await scene.run("UPDATE application_secrets SET digest = $1 WHERE application_id = $2", b"x" * 32, own_id(scene))
    assert isinstance(await scene.call(scene.refresh(tokens["refresh_token"])), Answer)


async def test_another_secret_proves_nothing(scene: Scene) -> None:
    """Whoever knows the client's number alone is refused as ever, and the client goes on."""
    tokens = await scene.tokens()
    forged = {**scene.refresh(tokens["refresh_token"]), "client_secret": "0" * 64}
    assert await scene.refusal(forged) == ("invalid_client", "secret differs")
    assert isinstance(await scene.call(scene.refresh(tokens["refresh_token"])), Answer)


async def test_a_suspended_client_stops_at_once(scene: Scene) -> None:
    """On its node it is forgotten with the commit that suspends it, and remembered again once it is resumed."""
    tokens, number, now_ms = await scene.tokens(), own_id(scene), scene.clock.now_ms()
    await as_an_operator(scene, lambda tx: applications.suspend(tx, number, now_ms))
    for _ in range(2):
        refusal = await scene.refusal(scene.refresh(tokens["refresh_token"]))
        assert refusal == ("forbidden", "application suspended")
    await as_an_operator(scene, lambda tx: applications.resume(tx, number))
    assert isinstance(await scene.call(scene.refresh(tokens["refresh_token"])), Answer)
    assert known(scene)


async def test_a_secret_ends_when_it_ends(scene: Scene) -> None:
    """One that is given an end is looked up anew, is good until then, and refused from then on, whatever clocks do."""
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


async def test_nobody_is_refused_for_what_is_remembered(scene: Scene) -> None:
    """What another node allowed a moment ago is allowed here, though this one knows nothing of it yet."""
    await scene.run(
        "UPDATE applications SET redirect_uris = $1 WHERE application_id = $2", f'["{SOMEWHERE_ELSE}"]', own_id(scene)
    )
    tokens = await scene.tokens()
    refreshed = await scene.call(scene.refresh(tokens["refresh_token"], redirect_uri=SOMEWHERE_ELSE))
    assert isinstance(refreshed, Answer)


async def test_a_refusal_undoes_nothing_twice(scene: Scene) -> None:
    """What is refused from memory and again from the rows changes nothing; the family goes on."""
    tokens = await scene.tokens()
    refusal = await scene.refusal(scene.refresh(tokens["refresh_token"], scope="read other"))
    assert refusal == ("invalid_scope", "scope is unknown")
    assert isinstance(await scene.call(scene.refresh(tokens["refresh_token"])), Answer)


async def test_what_was_read_before_a_change_is_not_remembered(scene: Scene) -> None:
    """A change that comes while the rows are on their way to memory keeps them out of it."""
    proven, application = AuthenticationCache(scene.database.signals, 5), scene.application
    client_id = str(application.application_id)
    before = proven.changes
    scene.database.signals.notify(("applications",))
    proven.remember(client_id, application, b"d" * 32, None, changes=before)
    assert proven.find(client_id, scene.secret, DAY_MS) is None
