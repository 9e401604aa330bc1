"""Which mode an exchange has: the field `test_token`, the mode of the code, and the application's `test_tokens`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from oauth_scene import CHALLENGE, DAY_MS, SECOND_MS, VERIFIER, Scene, frozen_clock
from operator_calls import operator
from page_scene import Browser, authorization, browser
from paydesk.core.secrets import digest
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.clients.authentication import AuthenticationCache
from paydesk.engine.oauth.tokens import new_code
from paydesk.platform.storage.database import Database, Transaction
from service import Reply, Service, running
from tables import each

REFUSED = "refused"
MATRIX = [
    # the field, the mode of the code, the application's setting, live_mode
    (None, None, False, True),
    (None, None, True, False),
    (None, True, False, False),
    (None, True, True, False),
    (None, False, False, True),
    (None, False, True, True),
    ("true", None, False, False),
    ("true", None, True, False),
    ("true", True, False, False),
    ("true", True, True, False),
    ("true", False, False, REFUSED),
    ("true", False, True, REFUSED),
    (False, None, False, True),
    (False, None, True, True),
    (False, True, False, REFUSED),
    (False, True, True, REFUSED),
    (False, False, False, True),
    (False, False, True, True),
]


async def set_test_tokens(scene: Scene, *, value: bool) -> None:
    """Change the application's setting."""
    application = scene.application

    async def work(tx: Transaction) -> bool:
        return await applications.change(
            tx,
            application.application_id,
            name=application.name,
            redirect_uris=application.redirect_uris,
            scopes=application.scopes,
            pkce_required=application.pkce_required,
            on_replay=application.on_replay,
            test_tokens=value,
        )

    assert await scene.database.write(work)


@each("field, bound, setting, expected", MATRIX)
async def test_mode_of_an_exchange(
    scene: Scene, field: Any, expected: Any, *, bound: bool | None, setting: bool
) -> None:
    """A refused exchange does not use up the code; the refresh has the mode of the exchange, whatever changes then."""
    await set_test_tokens(scene, value=setting)
    code, given = await scene.code(test_token=bound), {} if field is None else {"test_token": field}
    if expected == REFUSED:
        reason = "test_token differs from the code's mode"
        assert await scene.refusal(scene.exchange(code, **given)) == ("invalid_grant", reason)
        assert (await scene.answer(scene.exchange(code)))["live_mode"] is not bound
        return
    first = await scene.answer(scene.exchange(code, **given))
    assert first["live_mode"] is expected
    assert first["access_token"].startswith("APP_USR-" if expected else "TEST-")
    assert first["public_key"] == scene.application.public_key(live=expected)
    await set_test_tokens(scene, value=not setting)
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    assert second["live_mode"] is expected
    scene.clock.advance(DAY_MS)
    retried = await scene.answer(scene.refresh(first["refresh_token"]))
    assert (retried["access_token"], retried["live_mode"]) == (second["access_token"], expected)
    assert (await scene.introspect(second["access_token"]))["live_mode"] is expected


async def test_wrong_mode_of_an_exchanged_code_is_reuse(scene: Scene) -> None:
    """Within 10 s it is only refused; later it revokes the tokens, as any reuse by the client does."""
    code = await scene.code(test_token=True)
    tokens = await scene.answer(scene.exchange(code))
    contradicting = scene.exchange(code, test_token="false")
    assert await scene.refusal(contradicting) == ("invalid_grant", "code exchanged already")
    assert (await scene.introspect(tokens["access_token"]))["active"] is True
    scene.clock.advance(10 * SECOND_MS)
    assert await scene.refusal(contradicting) == ("invalid_grant", "code presented again")
    assert await scene.introspect(tokens["access_token"]) == {"active": False}


async def test_mode_of_a_code_with_a_challenge(scene: Scene) -> None:
    """The mode does not replace the verifier."""
    code = await scene.code(challenge=CHALLENGE, test_token=True)
    assert (await scene.refusal(scene.exchange(code)))[1] == "code_verifier is missing"
    assert (await scene.answer(scene.exchange(code, code_verifier=VERIFIER)))["live_mode"] is False


async def test_cached_client_sees_a_change_of_the_setting(scene: Scene) -> None:
    """Where the change was made at once, since it empties the cache; elsewhere once the cached entry has expired."""
    cache = AuthenticationCache(scene.database.signals, 60)
    scene.authentication_cache = cache
    for value in (True, False, True):
        await set_test_tokens(scene, value=value)
        assert (await scene.tokens())["live_mode"] is not value
        assert (await scene.tokens())["live_mode"] is not value
    assert cache.find(str(scene.application.application_id), scene.secret, scene.clock.now_ms()) is not None
    # As on another node, which has not heard of the change yet.
    await scene.run("UPDATE applications SET test_tokens = 0")
    assert (await scene.tokens())["live_mode"] is False
    scene.authentication_cache, scene._shared = AuthenticationCache(scene.database.signals, 60), None
    assert (await scene.tokens())["live_mode"] is True


async def test_nodes_of_the_previous_version_keep_working(scene: Scene) -> None:
    """Their statements, which name neither column, keep the setting and create codes of no mode."""
    await set_test_tokens(scene, value=True)
    application, now_ms = scene.application, scene.clock.now_ms()
    await scene.run(
        "UPDATE applications SET name = $2, redirect_uris = $3, scopes = $4, pkce_required = $5, on_replay = $6"
        " WHERE application_id = $1",
        application.application_id,
        "Renamed",
        json.dumps(application.redirect_uris),
        application.scopes,
        0,
        "revoke",
    )
    code = await scene.code(test_token=False)
    await scene.run(
        "INSERT INTO codes (seller_id, digest, authorization_id, application_id, redirect_uri, scope, challenge,"
        " created_ms, expires_ms) SELECT seller_id, $2, authorization_id, application_id, redirect_uri, scope,"
        " challenge, created_ms, expires_ms FROM codes WHERE digest = $1",
        digest(code),
        digest(theirs := new_code(scene.seller.seller_id)),
    )
    assert (await scene.answer(scene.exchange(theirs), now_ms))["live_mode"] is False
    await scene.run(
        "INSERT INTO applications (application_id, name, redirect_uris, scopes, pkce_required, on_replay,"
        " public_key_live, public_key_test, suspended_ms, created_ms) SELECT 1, name, redirect_uris, scopes,"
        " pkce_required, on_replay, public_key_live, public_key_test, suspended_ms, created_ms FROM applications"
        " WHERE application_id = $1",
        application.application_id,
    )
    created = await scene.database.read(lambda tx: applications.get(tx, 1))
    assert created is not None
    assert created.test_tokens is False


async def exchanged(service: Service, code: str, **parameters: Any) -> Reply:
    """Exchange the code over HTTP."""
    return await service.request(
        "POST", "/oauth/token", service.scene.exchange(code, **parameters), token=None, key=None
    )


@pytest.mark.on_postgres
async def test_consent_page_says_that_the_application_is_for_tests(service: Service) -> None:
    """In every language, and only while the setting is on, which decides about the seller's code."""
    owner, seller = await operator(service), await browser(service)
    path = f"applications/{service.scene.application.application_id}"
    await seller.consent()
    sentences = {"en": "set up for testing", "pt": "configurado para testes", "es": "configurada para pruebas"}
    for value in (True, False):
        assert (await owner.did("PATCH", path, {"test_tokens": value}))["test_tokens"] is value
        for language, sentence in sentences.items():
            page = await Browser(service, {"Accept-Language": language}, seller.cookies).get(authorization(service))
            assert page.form("/authorization")
            assert (sentence in page.text) is value, language
        agreed = await seller.submit(await seller.consent(), decision="agree")
        reply = await exchanged(service, agreed.query["code"])
        assert (reply.status, reply.body["live_mode"]) == (200, not value)


async def test_change_of_the_setting_during_exchanges_is_harmless(database: Database) -> None:
    """Each exchange has one of the two modes in all its parts, and its refresh keeps it."""
    async with running(database, clock=frozen_clock(), workers=False) as service:
        owner, scene = await operator(service), service.scene
        path = f"applications/{scene.application.application_id}"

        async def change() -> None:
            for number in range(10):
                await owner.did("PATCH", path, {"test_tokens": number % 2 == 0})

        async def exchange() -> bool:
            first = await exchanged(service, await scene.code())
            assert first.status == 200, first.body
            live: bool = first.body["live_mode"]
            assert first.body["access_token"].startswith("APP_USR-" if live else "TEST-")
            assert first.body["public_key"] == scene.application.public_key(live=live)
            body = scene.refresh(first.body["refresh_token"])
            second = await service.request("POST", "/oauth/token", body, token=None, key=None)
            assert (second.status, second.body["live_mode"]) == (200, live)
            return live

        await asyncio.gather(change(), *(exchange() for _ in range(40)))
        # The last change turned it off.
        assert await exchange() is True
