"""`GET /authorization` when something is wrong with it: an error page, or back to the application with what it is."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator

import pytest

from oauth_scene import ALL_SCOPES, CHALLENGE, REDIRECT_URI
from page_scene import STATE, Browser, authorization
from paydesk.oauth.clients import applications
from paydesk.settings import Settings
from paydesk.storage.database import Database
from service import Service, running

pytestmark = pytest.mark.sqlite_alone

ISSUER = "http://127.0.0.1"
WITH_QUERY = "https://till.example/callback?shop=1&code=mine"


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service that knows its own address; nobody is signed in."""
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
        **changes,
    }
    await service.database.write(
        lambda tx: applications.change(tx, application.application_id, **values)  # type: ignore[arg-type]
    )


async def test_nobody_is_sent_where_it_may_be_wrong(service: Service) -> None:
    """Unknown application, unregistered address, anything said twice: a page says so, and leads nowhere."""
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


async def test_a_suspended_application_is_not_asked_for(service: Service) -> None:
    """Whatever else is wrong, the seller reads that the operator has suspended it."""
    now_ms, application_id = service.clock.now_ms(), service.scene.application.application_id
    await service.database.write(lambda tx: applications.suspend(tx, application_id, now_ms))
    page = await Browser(service).get(authorization(service, response_type="token"))
    assert (page.status, page.code) == (403, "application_suspended")


async def test_the_application_is_told_the_rest(service: Service) -> None:
    """Its address is asked for with the error, what it means, its own state and who answers."""
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


async def test_what_the_application_is_set_to(service: Service) -> None:
    """PKCE where it must, no scope that it may not have, and an address of its own query is kept."""
    await _change(service, pkce_required=True, scopes="read")
    browser = Browser(service)
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    assert (await browser.get(authorization(service))).query["error"] == "invalid_request"
    assert (await browser.get(authorization(service, scope="write", **pkce))).query["error"] == "invalid_scope"
    assert (await browser.get(authorization(service, **pkce))).status == 200
    answer = await browser.get(authorization(service, redirect_uri=WITH_QUERY))
    assert answer.location.startswith(f"{WITH_QUERY}&error=invalid_request&")


async def test_what_is_right_is_asked(service: Service) -> None:
    """Empty parameters are as good as absent, and unknown ones are left aside."""
    browser, good = Browser(service), authorization(service)
    for query in ("", "&scope=", "&platform_id=mp", "&unknown=1", "&scope=read", "&" + urllib.parse.quote("é") + "=1"):
        page = await browser.get(good + query)
        assert page.status == 200, query
        assert page.form("/sign-in").fields["return_to"].startswith("/authorization?")
