"""POST /oauth/token: every row of its table of errors; of two faults the earlier row answers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from oauth_scene import CHALLENGE, REDIRECT_URI, SECOND_MS, VERIFIER, Scene, make_scene
from paydesk.engine.oauth.errors import OAUTH_ERRORS
from paydesk.engine.oauth.operations import TOKEN
from paydesk.platform.storage.database import Database
from tables import each

Body = dict[str, Any]
Spoil = Callable[[Scene, Body], Awaitable[Body]]
"""Makes one fault: in the body, or in what the database says."""


def given(**parameters: Any) -> Spoil:
    """The body with other parameters."""

    async def spoil(_scene: Scene, body: Body) -> Body:
        return {**body, **parameters}

    return spoil


def without(name: str) -> Spoil:
    """The body without a parameter."""

    async def spoil(_scene: Scene, body: Body) -> Body:
        return {key: value for key, value in body.items() if key != name}

    return spoil


def changed(sql: str) -> Spoil:
    """The body as it is, with something changed in the database."""

    async def spoil(scene: Scene, body: Body) -> Body:
        await scene.run(sql)
        return body

    return spoil


async def of_another_client(scene: Scene, body: Body) -> Body:
    """The body with the credentials of another application."""
    return {**body, **(await make_scene(scene.database)).credentials()}


async def later(scene: Scene, body: Body) -> Body:
    """The body when the code has expired."""
    scene.clock.advance(600 * SECOND_MS)
    return body


async def much_later(scene: Scene, body: Body) -> Body:
    """The body when the refresh token has expired."""
    scene.clock.advance(180 * 86_400 * SECOND_MS)
    return body


async def exchanged(scene: Scene, body: Body) -> Body:
    """The body when the code was exchanged just now."""
    await scene.answer(scene.exchange(body["code"]))
    return body


async def replayed(scene: Scene, body: Body) -> Body:
    """The body when its refresh token is a replay."""
    successor = await scene.answer(scene.refresh(body["refresh_token"]))
    await scene.answer(scene.refresh(successor["refresh_token"]))
    scene.clock.advance(60 * SECOND_MS)
    return body


async def of_the_other_mode(scene: Scene, body: Body) -> Body:
    """The body asks for test tokens with a code for live ones."""
    await scene.run("UPDATE codes SET test_token = 0")
    return {**body, "test_token": True}


async def refresh_token_as_code(scene: Scene, body: Body) -> Body:
    """A refresh token where a code belongs."""
    return {**body, "code": (await scene.tokens())["refresh_token"]}


async def code_as_refresh_token(scene: Scene, body: Body) -> Body:
    """A code where a refresh token belongs."""
    return {**body, "refresh_token": await scene.code()}


SUSPEND_APPLICATION = changed("UPDATE applications SET suspended_ms = 1")
SUSPEND_SELLER = changed("UPDATE sellers SET suspended_ms = 1")
WITHDRAW = changed("UPDATE authorizations SET withdrawn_ms = 1")
TAKE_OFFLINE_ACCESS = changed("UPDATE applications SET scopes = 'read write'")
TAKE_REDIRECT_URI = changed("UPDATE applications SET redirect_uris = '[]'")
REVOKE = changed("UPDATE token_families SET revoked_ms = 1, revoked_reason = 'by the seller'")

UNKNOWN_CLIENT = given(client_id="1234567890123456")
Row = tuple[float, Spoil, str, str]

OF_ALL: list[Row] = [
    (2, without("client_id"), "invalid_request", "client_id is missing"),
    (2, without("client_secret"), "invalid_request", "client_secret is missing"),
    (2, without("grant_type"), "invalid_request", "grant_type is missing"),
    (2, given(client_id=""), "invalid_request", "client_id is malformed"),
    (2, given(client_id=1.5), "invalid_request", "client_id is malformed"),
    (2, given(client_id=True), "invalid_request", "client_id is malformed"),
    (2, given(client_secret=5), "invalid_request", "client_secret is malformed"),
    (2, given(grant_type=["refresh_token"]), "invalid_request", "grant_type is malformed"),
    (2, given(scope=["read"]), "invalid_request", "scope is malformed"),
    (2, given(scope=None), "invalid_request", "a parameter is null"),
    (2, given(test_token="yes"), "invalid_request", "test_token is malformed"),
    (2, given(test_token=1), "invalid_request", "test_token is malformed"),
    (2, given(redirect_uri=7), "invalid_request", "redirect_uri is malformed"),
    (2, given(redirect_uri="https://till.example/\x00"), "invalid_request", "redirect_uri is malformed"),
    (2, given(code_verifier="short"), "invalid_request", "code_verifier is malformed"),
    (2, given(code_verifier="ü" * 43), "invalid_request", "code_verifier is malformed"),
    (2, given(state="x"), "invalid_request", "a parameter is unknown"),
    (3, given(grant_type="client_credentials"), "unsupported_grant_type", "grant_type is unknown"),
    (3, given(grant_type="Refresh_Token"), "unsupported_grant_type", "grant_type is unknown"),
    (5, UNKNOWN_CLIENT, "invalid_client", "unknown client"),
    (5, given(client_id="till"), "invalid_client", "unknown client"),
    (5, given(client_id="9" * 40), "invalid_client", "unknown client"),
    (5, given(client_id=-1), "invalid_client", "unknown client"),
    (5, given(client_secret="a guess"), "invalid_client", "secret differs"),
    (5, given(client_secret="secret of no client"), "invalid_client", "secret differs"),
    (5, changed("DELETE FROM application_secrets"), "invalid_client", "secret differs"),
    (5, changed("UPDATE application_secrets SET expires_ms = 1"), "invalid_client", "secret expired"),
    (7, SUSPEND_APPLICATION, "forbidden", "application suspended"),
    (8, of_another_client, "invalid_grant", "of another client"),
    (9, SUSPEND_SELLER, "forbidden", "seller suspended"),
    (10, WITHDRAW, "unauthorized_client", "authorization withdrawn"),
    (10, TAKE_OFFLINE_ACCESS, "unauthorized_client", "offline_access taken from the application"),
    (11, given(redirect_uri="https://else.example"), "invalid_grant", "redirect_uri"),
    (12, given(scope=" "), "invalid_scope", "scope is empty or has an extra space"),
    (12, given(scope="read  write"), "invalid_scope", "scope is empty or has an extra space"),
    (12, given(scope="read read"), "invalid_scope", "a scope is repeated"),
    (12, given(scope="read admin"), "invalid_scope", "scope is unknown"),
]
OF_AN_EXCHANGE: list[Row] = [
    (4, without("code"), "invalid_request", "code is missing"),
    (4, without("redirect_uri"), "invalid_request", "redirect_uri is missing"),
    (4, given(refresh_token="TG-1"), "invalid_request", "refresh_token is of the other grant type"),
    (8, given(code="TG-" + "0" * 40 + "-1160535239"), "invalid_grant", "unknown code"),
    (8, given(code="x"), "invalid_grant", "unknown code"),
    (8, refresh_token_as_code, "invalid_grant", "unknown code"),
    (11, TAKE_REDIRECT_URI, "invalid_grant", "redirect_uri not registered"),
    (11, given(code_verifier=VERIFIER), "invalid_grant", "code_verifier without a challenge"),
    (11, changed(f"UPDATE codes SET challenge = '{CHALLENGE}'"), "invalid_grant", "code_verifier is missing"),
    (11, later, "invalid_grant", "code expired"),
    (11, exchanged, "invalid_grant", "code exchanged already"),
    (11, of_the_other_mode, "invalid_grant", "test_token differs from the code's mode"),
    (12, given(scope="write"), "invalid_scope", "scope is wider than granted"),
]
OF_A_REFRESH: list[Row] = [
    (4, without("refresh_token"), "invalid_request", "refresh_token is missing"),
    (4, given(code="TG-1"), "invalid_request", "code is of the other grant type"),
    (4, given(code_verifier=VERIFIER), "invalid_request", "code_verifier is of the other grant type"),
    (8, given(refresh_token="TG-" + "0" * 40 + "-1160535239"), "invalid_grant", "unknown refresh token"),
    (8, given(refresh_token="TG-"), "invalid_grant", "unknown refresh token"),
    (8, code_as_refresh_token, "invalid_grant", "unknown refresh token"),
    (8.5, given(test_token=True), "invalid_request", "test_token differs from the family's mode"),
    (11, REVOKE, "invalid_grant", "refresh token revoked: by the seller"),
    (11, replayed, "invalid_grant", "refresh token replayed"),
    (11, much_later, "invalid_grant", "refresh token expired"),
    (12, given(scope="write"), "invalid_scope", "scope is wider than granted"),
]


def refused(rows: list[Row]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Call the test for each row of the two tables, named by its reason and its place."""
    table = OF_ALL + rows
    names = [f"{row[0]}-{row[3]}-{index}" for index, row in enumerate(table)]
    return each("spoil, code, reason", [row[1:] for row in table], ids=names)


async def a_body(scene: Scene, flow: str) -> Body:
    """A request without a fault, for a code or a family that lacks `write`."""
    code = await scene.code(scope="offline_access read")
    if flow == "exchange":
        return scene.exchange(code)
    return scene.refresh((await scene.answer(scene.exchange(code)))["refresh_token"])


@refused(OF_AN_EXCHANGE)
async def test_an_exchange_is_refused(database: Database, spoil: Spoil, code: str, reason: str) -> None:
    """One fault, its public code and its logged reason."""
    scene = await make_scene(database)
    await check(scene, await spoil(scene, await a_body(scene, "exchange")), code, reason)


@refused(OF_A_REFRESH)
async def test_a_refresh_is_refused(database: Database, spoil: Spoil, code: str, reason: str) -> None:
    """One fault, its public code and its logged reason."""
    scene = await make_scene(database)
    await check(scene, await spoil(scene, await a_body(scene, "refresh")), code, reason)


async def test_a_verifier_that_differs_is_refused(scene: Scene) -> None:
    """The verifier does not match the challenge of the code."""
    body = scene.exchange(await scene.code(challenge=CHALLENGE), code_verifier=VERIFIER[::-1])
    await check(scene, body, "invalid_grant", "code_verifier differs")


async def test_the_other_of_two_addresses_is_refused(scene: Scene) -> None:
    """A code is exchanged with the redirect URI of its request, not with any registered one."""
    other = "https://till.example/other"
    await scene.run("UPDATE applications SET redirect_uris = $1", json.dumps([REDIRECT_URI, other]))
    body = scene.exchange(await scene.code())
    await check(scene, {**body, "redirect_uri": other}, "invalid_grant", "redirect_uri differs")
    await scene.answer(body)


async def test_a_body_that_is_no_object_is_refused(scene: Scene) -> None:
    """An array is valid JSON, but not a request."""
    await check(scene, [], "invalid_request", "body is not an object")


async def check(scene: Scene, body: Any, code: str, reason: str) -> None:
    """The refusal is the expected one, and one that the interface declares."""
    refused_code, refused_reason = await scene.refusal(body)
    assert refused_code == code
    assert refused_reason.startswith(reason)
    assert (code, 400) in {(kind.code, kind.status) for kind in TOKEN.errors}


IN_ORDER_OF_AN_EXCHANGE: list[tuple[Spoil, str]] = [
    (given(state="x"), "a parameter is unknown"),
    (given(grant_type="client_credentials"), "grant_type is unknown"),
    (given(refresh_token="TG-1"), "refresh_token is of the other grant type"),
    (given(client_secret="a guess"), "secret differs"),
    (SUSPEND_APPLICATION, "application suspended"),
    (given(code="TG-" + "0" * 40 + "-1160535239"), "unknown code"),
    (SUSPEND_SELLER, "seller suspended"),
    (WITHDRAW, "authorization withdrawn"),
    (given(redirect_uri="https://else.example"), "redirect_uri differs"),
    (of_the_other_mode, "test_token differs from the code's mode"),
    (given(scope="read  write"), "scope is empty or has an extra space"),
]
IN_ORDER_OF_A_REFRESH: list[tuple[Spoil, str]] = [
    (given(scope=None), "a parameter is null"),
    (given(grant_type="password"), "grant_type is unknown"),
    (given(code="TG-1"), "code is of the other grant type"),
    (UNKNOWN_CLIENT, "unknown client"),
    (SUSPEND_APPLICATION, "application suspended"),
    (given(refresh_token="TG-1"), "unknown refresh token"),
    (given(test_token=True), "test_token differs from the family's mode"),
    (SUSPEND_SELLER, "seller suspended"),
    (TAKE_OFFLINE_ACCESS, "offline_access taken from the application"),
    (REVOKE, "refresh token revoked: by the seller"),
    (given(scope="admin"), "scope is unknown"),
]


@each("first", range(len(IN_ORDER_OF_AN_EXCHANGE)))
async def test_of_all_faults_of_an_exchange_the_earliest_row_answers(database: Database, first: int) -> None:
    """A request with every fault from a row on is refused for that row."""
    scene = await make_scene(database)
    body = await a_body(scene, "exchange")
    for spoil, _ in reversed(IN_ORDER_OF_AN_EXCHANGE[first:]):
        body = await spoil(scene, body)
    assert (await scene.refusal(body))[1] == IN_ORDER_OF_AN_EXCHANGE[first][1]


@each("first", range(len(IN_ORDER_OF_A_REFRESH)))
async def test_of_all_faults_of_a_refresh_the_earliest_row_answers(database: Database, first: int) -> None:
    """A request with every fault from a row on is refused for that row."""
    scene = await make_scene(database)
    body = await a_body(scene, "refresh")
    for spoil, _ in reversed(IN_ORDER_OF_A_REFRESH[first:]):
        body = await spoil(scene, body)
    assert (await scene.refusal(body))[1] == IN_ORDER_OF_A_REFRESH[first][1]


async def test_redirect_uri_of_a_refresh_may_be_any_registered_one(scene: Scene) -> None:
    """It is optional, and not compared with that of the authorization request."""
    body = scene.refresh((await scene.tokens())["refresh_token"], redirect_uri=REDIRECT_URI)
    await scene.answer(body)


async def test_a_suspended_application_keeps_its_tokens(scene: Scene) -> None:
    """A refused refresh changes nothing: after the resumption the refresh token is valid."""
    body = await a_body(scene, "refresh")
    await SUSPEND_APPLICATION(scene, body)
    await scene.refusal(body)
    await scene.run("UPDATE applications SET suspended_ms = NULL")
    await scene.answer(body)


def test_every_error_of_the_table_is_declared() -> None:
    """The codes of the interface, 429 included."""
    assert {(kind.code, kind.status) for kind in OAUTH_ERRORS} == {
        ("local_rate_limited", 429),
        ("invalid_request", 400),
        ("unsupported_grant_type", 400),
        ("invalid_client", 400),
        ("forbidden", 400),
        ("invalid_grant", 400),
        ("unauthorized_client", 400),
        ("invalid_scope", 400),
    }
