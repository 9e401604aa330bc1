"""`GET /authorization` with a faulty request: an error page, or a redirect with the error."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator

import pytest

from oauth_scene import ALL_SCOPES, CHALLENGE, REDIRECT_URI
from page_scene import STATE, Browser, authorization
from paydesk.engine.oauth.clients import applications
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Service, running

ISSUER = "http://127.0.0.1"
WITH_QUERY = "https://till.example/callback?shop=1&code=mine"


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service with a public URL, without a session."""
    async with running(database, settings=Settings(public_url=ISSUER), workers=False) as service:
        yield service


async def _change(service: Service, **changes: object) -> None:
    application = service.scene.application
    values = {
        "name": application.name,
        "redirect_uris": (REDIRECT_URI, WITH_QUERY),
        "scopes": ALL_SCOPES,
        "pkce_required": False,
        "on_replay": "revoke",
        "test_tokens": False,
        **changes,
    }
    await service.database.write(
        lambda tx: applications.change(tx, application.application_id, **values)  # type: ignore[arg-type]
    )


async def test_a_fault_of_client_or_address_is_not_redirected(service: Service) -> None:
    """Unknown application, unregistered address, a repeated parameter: an error page."""
    browser, good = Browser(service), authorization(service)
    unknown = {"client_id": ""}, {"client_id": "1"}, {"client_id": "x"}, {"client_id": "9" * 30}, {"client_id": "-1"}
    addresses: tuple[dict[str, str], ...] = (
        {"redirect_uri": ""},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": REDIRECT_URI + "/"},
        {"redirect_uri": REDIRECT_URI + "?x=1"},
        {"redirect_uri": REDIRECT_URI.upper()},
        {"redirect_uri": "HTTPS" + REDIRECT_URI[5:]},
        {"redirect_uri": REDIRECT_URI + "#f"},
    )
    wanted = [
        *((authorization(service, **one), "unknown_application") for one in unknown),
        *((authorization(service, **one), "unregistered_address") for one in addresses),
        *((f"{good}&{twice}", "doubled_parameter") for twice in ("state=x", "client_id=1", "scope=read&scope=", "x&x")),
        # Of two the earlier one.
        (authorization(service, client_id="1", redirect_uri="x", response_type="token"), "unknown_application"),
        (authorization(service, client_id="1") + "&a=&a=", "doubled_parameter"),
        (authorization(service, redirect_uri="https://x.example", scope="no"), "unregistered_address"),
        ("/authorization", "unknown_application"),
    ]
    for path, code in wanted:
        page = await browser.get(path)
        assert (page.status, page.code) == (400, code), path
        assert "location" not in page.headers
        assert page.forms == []


async def test_a_suspended_application_gets_an_error_page(service: Service) -> None:
    """Whatever else is wrong with the request."""
    now_ms, application_id = service.clock.now_ms(), service.scene.application.application_id
    await service.database.write(lambda tx: applications.suspend(tx, application_id, now_ms))
    page = await Browser(service).get(authorization(service, response_type="token"))
    assert (page.status, page.code) == (403, "application_suspended")


async def test_other_faults_are_redirected_to_the_application(service: Service) -> None:
    """With error, description, its own state and iss."""
    browser = Browser(service)
    for parameters, error in (
        ({"response_type": ""}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"scope": "read  write"}, "invalid_scope"),
        ({"code_challenge": CHALLENGE}, "invalid_request"),
        ({"code_challenge_method": "S256"}, "invalid_request"),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "short", "code_challenge_method": "S256"}, "invalid_request"),
    ):
        page = await browser.get(authorization(service, **parameters))
        assert page.location.startswith(f"{REDIRECT_URI}?error={error}&"), parameters
        assert set(page.query) == {"error", "error_description", "state", "iss"}
        assert (page.query["state"], page.query["iss"]) == (STATE, ISSUER)
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "no-referrer"
    without_state = await browser.get(authorization(service, state="", scope="admin"))
    assert "state" not in without_state.query
    for state in ("s" * 2049, "ção \U0001f600 <&\"'+%=", "a b"):
        page = await browser.get(authorization(service, state=state, scope="admin"))
        assert page.query["state"] == state
    assert (await browser.get(authorization(service, state="s" * 2049))).query["error"] == "invalid_request"


async def test_the_settings_of_the_application_are_checked(service: Service) -> None:
    """Required PKCE, its scopes, and a redirect URI with a query."""
    await _change(service, pkce_required=True, scopes="read")
    browser = Browser(service)
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    assert (await browser.get(authorization(service))).query["error"] == "invalid_request"
    assert (await browser.get(authorization(service, scope="write", **pkce))).query["error"] == "invalid_scope"
    assert (await browser.get(authorization(service, **pkce))).status == 200
    answer = await browser.get(authorization(service, redirect_uri=WITH_QUERY))
    assert answer.location.startswith(f"{WITH_QUERY}&error=invalid_request&")


async def test_a_valid_request_is_shown(service: Service) -> None:
    """Empty parameters count as missing, and unknown ones are ignored."""
    browser, good = Browser(service), authorization(service)
    for query in ("", "&scope=", "&platform_id=mp", "&unknown=1", "&scope=read", "&" + urllib.parse.quote("é") + "=1"):
        page = await browser.get(good + query)
        assert page.status == 200, query
        assert page.form("/sign-in").fields["return_to"].startswith("/authorization?")
