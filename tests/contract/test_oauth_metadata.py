"""GET /.well-known/oauth-authorization-server: every member is correct and uses only the configured address."""

from __future__ import annotations

import urllib.parse
from typing import Any

from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

from every_operation import OPERATIONS
from paydesk.engine.oauth import handlers, scopes
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from service import Reply, Service, running

PATH = "/.well-known/oauth-authorization-server"
PUBLIC_URL = "https://pay.example"


async def asked(sqlite_url: str, settings: Settings, **headers: str) -> Reply:
    """What a service with these settings says of itself."""
    database = await open_database(sqlite_url)
    try:
        async with running(database, settings=settings, workers=False) as service:
            return await service.request("GET", PATH, token=None, headers=headers)
    finally:
        await database.close()


async def test_every_address_begins_with_the_issuer(sqlite_url: str) -> None:
    """The issuer is the setting, whatever the Host header is."""
    settings = Settings(public_url=PUBLIC_URL, host_names=("127.0.0.1", "elsewhere.example"))
    reply = await asked(sqlite_url, settings, Host="elsewhere.example")
    assert reply.status == 200
    assert reply.body["issuer"] == PUBLIC_URL
    AuthorizationServerMetadata(reply.body).validate()
    addresses = [value for name, value in reply.body.items() if name.endswith("_endpoint")]
    assert len(addresses) == 4
    assert all(address.startswith(f"{PUBLIC_URL}/") for address in (*addresses, reply.body["service_documentation"]))


async def test_metadata_has_the_grant_types_pkce_and_authentication(service: Service) -> None:
    """Also before `public_url` is set."""
    body: dict[str, Any] = (await service.request("GET", f"{PATH}?unknown=parameter", token=None)).body
    assert body["issuer"] == Settings().issuer
    assert body["response_types_supported"] == ["code"]
    assert body["grant_types_supported"] == list(handlers.GRANTS) == ["authorization_code", "refresh_token"]
    assert body["code_challenge_methods_supported"] == ["S256"]
    assert body["scopes_supported"] == list(scopes.SCOPES)
    assert body["authorization_response_iss_parameter_supported"] is True
    for name in ("token", "revocation", "introspection"):
        assert body[f"{name}_endpoint_auth_methods_supported"] == ["client_secret_post", "client_secret_basic"]


async def test_every_endpoint_exists(sqlite_url: str) -> None:
    """The paths are those of the interface, with the right methods."""
    body = (await asked(sqlite_url, Settings())).body
    described = {name: urllib.parse.urlsplit(body[name]).path for name in body if name.endswith("_endpoint")}
    there = {(row.method, row.path) for row in OPERATIONS}
    for name, path in described.items():
        assert ("GET" if name == "authorization_endpoint" else "POST", path) in there
