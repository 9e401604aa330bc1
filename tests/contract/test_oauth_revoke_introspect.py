"""POST /oauth/revoke and POST /oauth/introspect."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oauth_scene import ALL_SCOPES, DAY_MS, SECOND_MS, START_MS, Scene, make_scene
from paydesk.core.errors import Refusal
from paydesk.engine.oauth import handlers
from paydesk.engine.oauth.bearer import Bearers
from paydesk.platform.operation import Handler
from paydesk.platform.storage.database import Database
from service import running

INACTIVE = {"active": False}
NOBODYS = "TG-" + "0" * 40 + "-1160535239"
NOBODYS_ACCESS_TOKEN = "APP_USR-3676047501096810-091211-" + "0" * 32 + "-1160535239"
NO_TOKENS = ("x", "TG-", "-", "Bearer APP_USR-1", NOBODYS, NOBODYS_ACCESS_TOKEN, "TG-" + "0" * 40 + "-" + "9" * 15)

both = pytest.mark.parametrize("handler", [handlers.revoke, handlers.introspect])
either_kind = pytest.mark.parametrize("kind", ["access_token", "refresh_token"])


async def works(scene: Scene, access_token: str) -> bool:
    """Whether the token opens a door."""
    try:
        await Bearers(scene.database, 0).caller(access_token, scene.clock.now_ms())
    except Refusal:
        return False
    return True


async def test_an_access_token_is_described(scene: Scene) -> None:
    """With every member of RFC 7662 that this service has."""
    body = await scene.tokens(scope="read offline_access")
    assert await scene.introspect(body["access_token"]) == {
        "active": True,
        "scope": "offline_access read",
        "client_id": str(scene.application.application_id),
        "token_type": "bearer",
        "exp": START_MS // 1000 + 15_552_000,
        "iat": START_MS // 1000,
        "sub": str(scene.seller.seller_id),
        "iss": scene.settings.issuer,
        "user_id": scene.seller.seller_id,
        "live_mode": True,
    }


async def test_a_refresh_token_is_described_and_is_no_bearer(scene: Scene) -> None:
    """It has the scope of its family, also if its access token has less, and no token_type."""
    first = await scene.tokens(test_token=True)
    scene.clock.advance(DAY_MS)
    second = await scene.answer(scene.refresh(first["refresh_token"], scope="read"))
    answer = await scene.introspect(second["refresh_token"])
    assert "token_type" not in answer
    assert answer["scope"] == ALL_SCOPES
    assert answer["live_mode"] is False
    assert answer["iat"] == START_MS // 1000 + 86_400
    assert (await scene.introspect(second["access_token"]))["scope"] == "read"


async def test_a_revoked_access_token_ends_alone(scene: Scene) -> None:
    """The rest of its family stays valid, and so does the next access token."""
    body = await scene.tokens()
    await scene.revoke(body["access_token"])
    assert not await works(scene, body["access_token"])
    assert await scene.introspect(body["access_token"]) == INACTIVE
    assert (await scene.introspect(body["refresh_token"]))["active"] is True
    second = await scene.answer(scene.refresh(body["refresh_token"]))
    assert await works(scene, second["access_token"])


@pytest.mark.parametrize("generation", [0, 2])
async def test_a_revoked_refresh_token_ends_its_family(scene: Scene, generation: int) -> None:
    """Also a used one; every token of the family is invalid, and those of other families are not."""
    other, family = await scene.tokens(), [await scene.tokens()]
    for _ in range(2):
        family.append(await scene.answer(scene.refresh(family[-1]["refresh_token"])))
    await scene.revoke(family[generation]["refresh_token"])
    for body in family:
        refused = await scene.refusal(scene.refresh(body["refresh_token"]))
        assert refused == ("invalid_grant", "refresh token revoked: by the application")
        assert not await works(scene, body["access_token"])
        for kind in ("access_token", "refresh_token"):
            assert await scene.introspect(body[kind]) == INACTIVE
    assert await works(scene, other["access_token"])
    await scene.answer(scene.refresh(other["refresh_token"]))


async def test_a_revoked_access_token_leaves_the_cache(scene: Scene) -> None:
    """With the commit, on the node of the revocation."""
    bearers, now_ms = Bearers(scene.database, 600), scene.clock.now_ms()
    token = (await scene.tokens())["access_token"]
    await bearers.caller(token, now_ms)
    await scene.revoke(token)
    await asyncio.sleep(0)
    with pytest.raises(Refusal, match="revoked"):
        await bearers.caller(token, now_ms)


@either_kind
async def test_revoking_twice_is_no_error(scene: Scene, kind: str) -> None:
    """The first instant and the first reason stay."""
    token = (await scene.tokens())[kind]
    await scene.revoke(token)
    scene.clock.advance(SECOND_MS)
    await scene.revoke(token)
    table = "access_tokens" if kind == "access_token" else "token_families"
    assert await scene.value(f"SELECT revoked_ms FROM {table}") == START_MS


async def test_a_refresh_token_stays_revoked_for_its_first_reason(scene: Scene) -> None:
    """The reason in the log is that of the first revocation."""
    token = (await scene.tokens())["refresh_token"]
    await scene.run("UPDATE token_families SET revoked_ms = 1, revoked_reason = 'refresh token replayed'")
    await scene.revoke(token)
    assert await scene.value("SELECT revoked_reason FROM token_families") == "refresh token replayed"


async def test_an_unknown_token_gets_the_same_answer(scene: Scene) -> None:
    """No error shows whether a guess was close."""
    for token in NO_TOKENS:
        await scene.revoke(token)
        assert await scene.introspect(token) == INACTIVE


async def test_a_code_is_no_token(scene: Scene) -> None:
    """It is unknown to both endpoints, and can be exchanged afterwards."""
    code = await scene.code()
    await scene.revoke(code)
    assert await scene.introspect(code) == INACTIVE
    await scene.answer(scene.exchange(code))


@either_kind
async def test_a_token_of_another_client_is_unknown(scene: Scene, kind: str) -> None:
    """Revoking it has no effect, and introspection doesn't show that it exists or has expired."""
    other, token = await make_scene(scene.database), (await scene.tokens())[kind]
    await other.revoke(token)
    assert await other.introspect(token) == INACTIVE
    assert await other.introspect(token, START_MS + 181 * DAY_MS) == INACTIVE
    assert (await scene.introspect(token))["active"] is True


@either_kind
async def test_a_hint_changes_nothing(scene: Scene, kind: str) -> None:
    """Right, wrong or unknown."""
    for hint in ("access_token", "refresh_token", "urn:of:another", ""):
        body = scene.presented((await scene.tokens())[kind], token_type_hint=hint)
        assert (await scene.answer(body, handler=handlers.introspect))["active"] is True
        await scene.answer(body, handler=handlers.revoke)
        assert await scene.answer(body, handler=handlers.introspect) == INACTIVE


@either_kind
async def test_a_token_introspected_as_expired_stays_expired(scene: Scene, kind: str) -> None:
    """Also if the clock is set back: it is not accepted and not refreshed."""
    body = await scene.tokens()
    end_ms = START_MS + 180 * DAY_MS
    assert (await scene.introspect(body[kind], end_ms - 1))["active"] is True
    assert await scene.introspect(body[kind], end_ms) == INACTIVE
    assert await scene.introspect(body[kind], START_MS) == INACTIVE
    if kind == "access_token":
        assert not await works(scene, body[kind])
    else:
        assert (await scene.refusal(scene.refresh(body[kind])))[1] == "refresh token expired"


async def test_a_used_refresh_token_is_not_active(scene: Scene) -> None:
    """Introspection changes nothing, neither within the grace period nor after it."""
    first = await scene.tokens()
    second = await scene.answer(scene.refresh(first["refresh_token"]))
    assert await scene.introspect(first["refresh_token"]) == INACTIVE
    assert await scene.answer(scene.refresh(first["refresh_token"])) == second
    third = await scene.answer(scene.refresh(second["refresh_token"]))
    scene.clock.advance(DAY_MS)
    assert await scene.introspect(first["refresh_token"]) == INACTIVE
    assert (await scene.introspect(third["refresh_token"]))["active"] is True


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE sellers SET suspended_ms = {}",
        "UPDATE authorizations SET withdrawn_ms = {}",
        "UPDATE token_families SET revoked_ms = {}",
    ],
)
async def test_a_suspended_withdrawn_or_revoked_token_is_inactive(scene: Scene, sql: str) -> None:
    """Introspection changes nothing."""
    body = await scene.tokens()
    for kind in ("access_token", "refresh_token"):
        await scene.run(sql.format(1))
        assert await scene.introspect(body[kind]) == INACTIVE
        await scene.run(sql.format("NULL"))
        assert (await scene.introspect(body[kind]))["active"] is True


async def test_a_refresh_token_without_offline_access_is_inactive(scene: Scene) -> None:
    """An operator has taken the scope from the application; its access tokens stay valid."""
    body = await scene.tokens()
    await scene.run("UPDATE applications SET scopes = 'read write'")
    assert await scene.introspect(body["refresh_token"]) == INACTIVE
    assert (await scene.introspect(body["access_token"]))["active"] is True


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"state": "x"}, "invalid_request", "a parameter is unknown"),
    ({"grant_type": "refresh_token"}, "invalid_request", "a parameter is unknown"),
    ({"client_id": ""}, "invalid_request", "client_id is malformed"),
    ({"client_secret": 7}, "invalid_request", "client_secret is malformed"),
    ({"token": ["x"]}, "invalid_request", "token is malformed"),
    ({"token": None}, "invalid_request", "a parameter is null"),
    ({"token": "TG-\x00"}, "invalid_request", "token is malformed"),
    ({"token": ""}, "invalid_request", "token is missing"),
    ({"token_type_hint": 1}, "invalid_request", "token_type_hint is malformed"),
    ({"client_id": "1234567890123456"}, "invalid_client", "unknown client"),
    ({"client_secret": "a guess"}, "invalid_client", "secret differs"),
    ({"client_secret": "a guess", "token": ""}, "invalid_request", "token is missing"),
]


@both
async def test_a_request_is_refused(scene: Scene, handler: Handler) -> None:
    """As at the token endpoint, in the same order, and the token stays valid."""
    token = (await scene.tokens())["refresh_token"]
    for parameters, code, reason in REFUSED:
        body = {**scene.presented(token), **parameters}
        assert await scene.refusal(body, handler=handler) == (code, reason)
    for missing in ("client_id", "client_secret"):
        body = {name: value for name, value in scene.presented(token).items() if name != missing}
        assert await scene.refusal(body, handler=handler) == ("invalid_request", f"{missing} is missing")
    await scene.answer(scene.refresh(token))


@both
async def test_a_suspended_application_is_forbidden(scene: Scene, handler: Handler) -> None:
    """Only after its secret was verified."""
    body = scene.presented((await scene.tokens())["refresh_token"])
    await scene.run("UPDATE applications SET suspended_ms = 1")
    assert await scene.refusal(body, handler=handler) == ("forbidden", "application suspended")
    assert (await scene.refusal({**body, "client_secret": "a guess"}, handler=handler))[0] == "invalid_client"


async def test_over_http(database: Database) -> None:
    """JSON and form, `no-store`, flat errors; a revocation on one node reaches the other."""
    async with running(database, workers=False) as service:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        body = service.scene.presented(service.access_token, token_type_hint="access_token")
        encoded = "&".join(f"{name}={value}" for name, value in body.items()).encode()
        answer = await service.request("POST", "/oauth/introspect", data=encoded, headers=form, key=None)
        assert (answer.status, answer.body["active"]) == (200, True)
        assert answer.headers.getall("cache-control") == ["no-store"]
        assert (await service.request("GET", "/terminals/v1/list")).status == 200
        ended = await service.request("POST", "/oauth/revoke", body, token="ignored", key=None)
        assert (ended.status, ended.raw, ended.headers.getall("cache-control")) == (200, b"{}", ["no-store"])
        assert (await service.request("GET", "/terminals/v1/list")).status == 401
        answer = await service.request("POST", "/oauth/introspect", body, key=None)
        assert answer.body == INACTIVE
        refused = await service.request("POST", "/oauth/revoke?token=x", body, key=None)
        assert (refused.status, refused.body["error"], refused.body["cause"]) == (400, "invalid_request", [])
