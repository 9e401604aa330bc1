"""401 and 403: which tokens open which door, and what is said to those that don't."""

from __future__ import annotations

import uuid

import pytest

from accounts import other_application, with_scope
from paydesk.core.clock import MovableClock
from paydesk.operators.accounts import credentials
from paydesk.platform.storage.database import Database
from raw_http import exchange, head
from service import Reply, Service, running

ORDER = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"
NEEDED = "an access token (APP_USR-… or TEST-…) of POST /oauth/token"
MISSING, INVALID = "authorization value not present", "invalid access token"


UNKNOWN = "the token is unknown; send an access token (APP_USR-… or TEST-…) of POST /oauth/token, unchanged"


def _refused(reply: Reply, message: str) -> str:
    """Check the response, and return its only detail."""
    assert (reply.status, reply.code, reply.headers["www-authenticate"]) == (401, "unauthorized", "Bearer")
    (detail,) = reply.details
    assert reply.body["errors"] == [{"code": "unauthorized", "message": message, "details": [detail]}]
    assert (reply.body["code"], reply.body["message"], reply.body["status"]) == ("unauthorized", message, 401)
    assert reply.body["cause"] == [{"code": "unauthorized", "description": f"{message}: {detail}."}]
    return detail


async def _with(service: Service, *authorization: str) -> Reply:
    return await exchange(service, head("GET", ORDER, *(f"Authorization: {value}" for value in authorization)))


async def test_no_bearer(service: Service) -> None:
    """Nothing, an empty header, another scheme: the value is not present, and the detail says what is missing."""
    token = service.access_token
    for authorization, expected in (
        ([], "send the header Authorization: Bearer with an access token"),
        ([""], "the header Authorization does not begin with Bearer; "),
        (["Bearer"], "the header Authorization has no token; "),
        (["Bearer "], "the header Authorization has no token; "),
        (["Basic dTpw"], "the header Authorization does not begin with Bearer; "),
        ([token], "the header Authorization does not begin with Bearer; "),
    ):
        reply = await _with(service, *authorization)
        assert _refused(reply, MISSING).startswith(expected)
        assert b"dTpw" not in reply.raw
        assert token.encode() not in reply.raw


async def test_an_invalid_token_returns_401(service: Service) -> None:
    """Garbage, a wrong digit, another seller's number, a token with something after it: one answer for all guesses."""
    token = service.access_token
    changed = token.replace(token[-30], "0" if token[-30] != "0" else "1")
    for given in ("x", changed, token[:-1], f"{token}0", f"{token} x", "a" * 4000):
        assert _refused(await _with(service, f"Bearer {given}"), INVALID) == UNKNOWN


async def test_the_bearer_scheme_is_case_insensitive(service: Service) -> None:
    """`bearer` is as good as `Bearer`; the token itself is taken as it is."""
    assert (await _with(service, f"bearer {service.access_token}")).status == 404
    _refused(await _with(service, f"Bearer {service.access_token.lower()}"), INVALID)


async def test_a_token_of_another_surface(service: Service) -> None:
    """401 on every surface but its own; the detail says which kind was sent, known or not, and which is needed."""
    terminal, operator = await service.terminal(), credentials.new_token()
    await service.database.write(
        lambda tx: credentials.add_operator(tx, operator, "anna", "owner", service.clock.now_ms())
    )
    public_key = f"TEST-{uuid.uuid4()}"
    for token, kind in (
        (terminal.token, "a terminal's token (PDT-…)"),
        ("PDT-" + "0" * 40 + "-1", "a terminal's token (PDT-…)"),
        (operator.reveal(), "an operator's token (PDO-…)"),
        ("PDO-guess", "an operator's token (PDO-…)"),
        ("TG-" + "0" * 40 + "-1", "a refresh token or an authorization code (TG-…)"),
        ("whsec_AAAA", "a webhook secret (whsec_…)"),
        (public_key, "a public key"),
    ):
        for method, path in (("GET", ORDER), ("POST", "/v1/orders"), ("GET", "/terminals/v1/list")):
            reply = await service.request(method, path, token=token)
            assert _refused(reply, INVALID) == f"{kind} was sent; this operation needs {NEEDED}"
            assert token.encode() not in reply.raw
    assert (await service.request("GET", "/operator/v1/sellers", token=operator.reveal())).status == 200
    for path, needed in (
        ("/operator/v1/sellers", "an operator's token (PDO-…)"),
        ("/device/v1/next", "the terminal's own token (PDT-…)"),
    ):
        expected = f"a test access token (TEST-…) was sent; this operation needs {needed}"
        assert _refused(await service.request("GET", path), INVALID) == expected
    reply = await service.request("GET", "/operator/v1/sellers", token=terminal.token)
    assert _refused(reply, INVALID).startswith("a terminal's token (PDT-…) was sent; ")


async def test_an_expired_token_returns_401(database: Database, clock: MovableClock) -> None:
    """To the second, also when it was valid a moment before; the detail says so, but not of a guess."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        clock.advance(15_552_000_000 - 1)
        assert (await service.request("GET", ORDER)).status == 404
        clock.advance(1)
        for _ in range(2):
            detail = _refused(await service.request("GET", ORDER), INVALID)
            assert detail.startswith("the access token has expired; ")
            assert "grant_type refresh_token" in detail
        token = service.access_token
        guess = f"{token[:-30]}{'0' if token[-30] != '0' else '1'}{token[-29:]}"
        assert _refused(await service.request("GET", ORDER, token=guess), INVALID) == UNKNOWN


async def test_a_revoked_token_returns_401(service: Service) -> None:
    """The detail says that it was revoked, or that the seller has withdrawn the authorization."""
    for change, expected in (
        ("UPDATE access_tokens SET revoked_ms = 1", "the access token was revoked; "),
        ("UPDATE authorizations SET withdrawn_ms = 1", "the seller has withdrawn the application's authorization; "),
    ):
        token = await with_scope(service, "read")
        await service.scene.run(change)
        assert _refused(await service.request("GET", ORDER, token=token), INVALID).startswith(expected)


async def test_suspended_callers_return_403(service: Service) -> None:
    """An application's suspension stops it alone, with 403."""
    other = await other_application(service)
    await service.scene.run(
        "UPDATE applications SET suspended_ms = 1 WHERE application_id = $1", other.scene.application.application_id
    )
    reply = await other.request("GET", ORDER)
    assert (reply.status, reply.code) == (403, "forbidden")
    assert (await service.request("GET", ORDER)).status == 404


async def test_scopes(service: Service) -> None:
    """`read` reads and `write` writes; neither does the other's work."""
    read, write = await with_scope(service, "read"), await with_scope(service, "write")
    terminal = await service.terminal()
    assert (await service.request("GET", ORDER, token=read)).status == 404
    assert (await service.request("GET", "/terminals/v1/list", token=read)).status == 200
    for method, path, token in (
        ("GET", ORDER, write),
        ("GET", "/terminals/v1/list", write),
        ("POST", "/v1/orders", read),
        ("POST", f"{ORDER}/cancel", read),
        ("PATCH", "/terminals/v1/setup", read),
    ):
        reply = await service.request(method, path, token=token)
        assert (reply.status, reply.code) == (403, "insufficient_scope"), path
    service.access_token = write
    assert (await service.create(terminal)).status == 201


async def test_the_test_header_with_a_live_token_is_refused(service: Service) -> None:
    """`X-Test-Token: true` and a live token contradict each other; with a test token it says what is so."""
    live = service.live_access_token
    for token, value, status in (
        (live, "true", 400),
        (live, "True", 400),
        (live, "false", 404),
        (service.access_token, "true", 404),
    ):
        reply = await service.request("GET", ORDER, token=token, headers={"X-Test-Token": value})
        assert reply.status == status, value
        assert reply.code == ("unsupported_header" if status == 400 else "order_not_found")
    reply = await service.request("GET", "/terminals/v1/list", token=live, headers={"X-Test-Token": "true"})
    assert reply.status == 200, "there it asks for nothing"


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_the_sandbox_header_on_every_route(service: Service, method: str) -> None:
    """`x-test-scope` is refused wherever it is sent, and on the token endpoint in its own words."""
    paths = {
        "GET": (ORDER, "/terminals/v1/list", "/device/v1/next", "/operator/v1/sellers", "/openapi.json", "/docs"),
        "POST": ("/v1/orders", f"{ORDER}/cancel", "/oauth/token", "/device/v1/hello"),
        "PATCH": ("/terminals/v1/setup",),
    }
    for path in paths[method]:
        for value in ("sandbox", ""):
            reply = await service.request(method, path, token=None, headers={"X-Test-Scope": value})
            expected = "invalid_request" if path.startswith("/oauth/") else "unsupported_header"
            assert (reply.status, reply.code) == (400, expected), path
