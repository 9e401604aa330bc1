"""Unmodified OAuth libraries with their default of HTTP Basic: they get, refresh, introspect and revoke tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from oauthlib.oauth2 import OAuth2Error
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session as OAuthlibSession

import node_clients
from oauth_scene import ALL_SCOPES, REDIRECT_URI
from paydesk.core.clock import MovableClock
from paydesk.platform.http.server import server
from paydesk.platform.storage.database import Database
from service import Service, running

Got = dict[str, Any]
"""The first and the second tokens, and what the library has read of the second access token; or its error."""
Library = Callable[[dict[str, str], str, str, str], Got]
"""Exchanges the code with the metadata, the client's id and secret; refreshes; revokes the last refresh token."""


def with_authlib(metadata: dict[str, str], client_id: str, secret: str, code: str) -> Got:
    """Authlib, of whose options none is about authentication."""
    session = OAuth2Session(client_id, secret, scope=ALL_SCOPES, redirect_uri=REDIRECT_URI)
    try:
        first = dict(session.fetch_token(metadata["token_endpoint"], code=code))
        second = dict(session.refresh_token(metadata["token_endpoint"]))
    except AuthlibBaseError as error:
        return {"error": error.error}
    introspected = session.introspect_token(metadata["introspection_endpoint"], token=second["access_token"])
    revoked = session.revoke_token(metadata["revocation_endpoint"], second["refresh_token"])
    assert revoked.status_code == 200
    return {"first": first, "second": second, "active": introspected.json()["active"]}


def with_requests_oauthlib(metadata: dict[str, str], client_id: str, secret: str, code: str) -> Got:
    """requests-oauthlib; it can't revoke, which requests does with the same authentication."""
    session = OAuthlibSession(client_id, redirect_uri=REDIRECT_URI, scope=ALL_SCOPES.split())
    authentication = HTTPBasicAuth(client_id, secret)
    try:
        first = dict(session.fetch_token(metadata["token_endpoint"], code=code, client_secret=secret))
        second = dict(session.refresh_token(metadata["token_endpoint"], auth=authentication))
    except OAuth2Error as error:
        return {"error": error.error}
    revoked = session.post(
        metadata["revocation_endpoint"],
        {"token": second["refresh_token"]},
        auth=authentication,
        withhold_token=True,
    )
    assert revoked.status_code == 200
    return {"first": first, "second": second, "active": None}


def on_node(library: str) -> Library:
    """Return the function that uses this library on Node."""

    def run(metadata: dict[str, str], client_id: str, secret: str, code: str) -> Got:
        node_clients.require()
        return node_clients.authorize(
            {
                "library": library,
                "server": metadata,
                "clientId": client_id,
                "clientSecret": secret,
                "redirectUri": REDIRECT_URI,
                "code": code,
            }
        )

    return run


LIBRARIES: dict[str, Library] = {
    "Authlib": with_authlib,
    "requests-oauthlib": with_requests_oauthlib,
    "oauth4webapi": on_node("oauth4webapi"),
    "simple-oauth2": on_node("simple-oauth2"),
}


@pytest.fixture
async def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service whose scene has the service's clock."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(server, "QUIET_SECONDS", 0.02)  # clients keep their connections
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")  # its own switch for loopback
    clock = MovableClock()
    async with running(database, clock=clock) as started:
        started.scene.clock = clock
        yield started


async def metadata_of(service: Service) -> dict[str, Any]:
    """Return the service's metadata, as a client discovers it, with the port of this test in the addresses."""
    found = (await service.request("GET", "/.well-known/oauth-authorization-server", token=None)).body
    issuer = found["issuer"]
    return {
        name: service.base_url + value.removeprefix(issuer) if name.endswith("_endpoint") else value
        for name, value in found.items()
    }


@pytest.mark.parametrize("library", LIBRARIES)
async def test_library_gets_refreshes_and_revokes_tokens_by_its_default(service: Service, library: str) -> None:
    """After the revocation the token is dead: with an ignored header it stayed valid, and the library said nothing."""
    client_id, secret = service.scene.credentials().values()
    metadata, run = await metadata_of(service), LIBRARIES[library]
    got = await asyncio.to_thread(run, metadata, client_id, secret, await service.scene.code())
    assert got.get("active", "absent") in (True, None), got
    for tokens in (got["first"], got["second"]):
        assert tokens["user_id"] == service.seller_id
    assert got["first"]["refresh_token"] != got["second"]["refresh_token"]
    for tokens in (got["first"], got["second"]):
        reply = await service.request("GET", "/terminals/v1/list", token=tokens["access_token"])
        assert (reply.status, reply.code) == (401, "unauthorized")
    guessed = await asyncio.to_thread(run, metadata, client_id, "a guess", await service.scene.code())
    assert guessed.get("error") == "invalid_client", guessed
