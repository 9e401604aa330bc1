"""HTTP Basic at the token endpoints: the credentials in the header instead of the body."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest

from paydesk.core.clock import MovableClock
from paydesk.platform.storage.database import Database
from raw_http import exchange, head
from service import Reply, Service, running
from tables import each

FORM = "application/x-www-form-urlencoded"
CREDENTIALS = ("client_id", "client_secret")
CHALLENGE = 'Basic realm="paydesk"'
every_path = pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke", "/oauth/introspect"])


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service whose scene has the service's clock."""
    clock = MovableClock()
    async with running(database, clock=clock, workers=False) as started:
        started.scene.clock = clock
        yield started


def encoded(client_id: str, client_secret: str) -> str:
    """Return the base64 of both parts, as they are."""
    return base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()


async def request_for(service: Service, path: str) -> tuple[dict[str, Any], str]:
    """Return a body without credentials, and the credentials for the header."""
    token = (await service.scene.tokens())["refresh_token"]
    scene = service.scene
    body = scene.refresh(token) if path == "/oauth/token" else scene.presented(token)
    return {name: value for name, value in body.items() if name not in CREDENTIALS}, encoded(
        *scene.credentials().values()
    )


async def send(service: Service, path: str, body: Any, *authorizations: str, form: bool = False) -> Reply:
    """Send the body with these headers."""
    data = (urlencode(body) if form else json.dumps(body)).encode()
    fields = [f"Content-Type: {FORM if form else 'application/json'}", f"Content-Length: {len(data)}"]
    fields += [f"Authorization: {value}" for value in authorizations]
    return await exchange(service, head("POST", path, *fields) + data)


@every_path
@pytest.mark.on_postgres
async def test_header_stands_for_the_credentials_of_the_body(service: Service, path: str) -> None:
    """With JSON and with a form; the scheme's case is ignored, and both parts are form-decoded."""
    client_id, secret = service.scene.credentials().values()
    quoted = encoded("".join(f"%{ord(digit):02x}" for digit in client_id), quote_plus(secret))
    for authorization in ("Basic {}", "basic  {}", "BASIC {}"):
        for form in (False, True):
            body, credentials = await request_for(service, path)
            reply = await send(service, path, body, authorization.format(credentials), form=form)
            assert reply.status == 200, (authorization, reply)
    body, _ = await request_for(service, path)
    assert (await send(service, path, body, f"Basic {quoted}")).status == 200


@every_path
async def test_wrong_credentials_are_challenged(service: Service, path: str) -> None:
    """By 400 as with the body, and with `WWW-Authenticate`, which a request without the header doesn't get."""
    body, _ = await request_for(service, path)
    client_id, secret = service.scene.credentials().values()
    for wrong in ((client_id, "a guess"), ("1", secret), ("none", secret), (client_id, f"{secret}:")):
        reply = await send(service, path, body, f"Basic {encoded(*wrong)}")
        assert (reply.status, reply.code) == (400, "invalid_client"), wrong
        assert reply.headers["www-authenticate"] == CHALLENGE
        assert reply.headers["cache-control"] == "no-store"
        in_body = await send(service, path, {**body, **dict(zip(CREDENTIALS, wrong, strict=True))})
        assert (in_body.status, in_body.raw) == (400, reply.raw)
        assert "www-authenticate" not in in_body.headers


@each(
    "authorization, message",
    [
        ("Basic", "Authorization: Basic must have"),
        ("Basic !", "Authorization: Basic must have"),
        ("Basic eA==", "Authorization: Basic must have"),  # x
        ("Basic eDp5 eDp5", "Authorization: Basic must have"),
        ("Basic MTr/", "Authorization: Basic must have"),  # 1: and a byte that is no UTF-8
        ("Basic MTolZmY=", "Authorization: Basic must have"),  # 1:%ff
        ("Basic Og==", "client_id is missing."),  # :
        ("Basic MTo=", "client_secret is missing."),  # 1:
        ("Basic MTolMDA=", "client_secret must"),  # 1:%00
    ],
)
async def test_malformed_header_is_an_invalid_request(service: Service, authorization: str, message: str) -> None:
    """The message says what it must have, never what it has."""
    for path in ("/oauth/token", "/oauth/revoke", "/oauth/introspect"):
        body, _ = await request_for(service, path)
        reply = await send(service, path, body, authorization)
        assert (reply.status, reply.code) == (400, "invalid_request"), reply
        assert reply.body["message"].startswith(message)
        assert "www-authenticate" not in reply.headers


@every_path
async def test_credentials_in_header_and_body_are_an_invalid_request(service: Service, path: str) -> None:
    """Either of the two in the body, equal or not, empty or null; no effect."""
    body, credentials = await request_for(service, path)
    both = service.scene.credentials()
    cases: list[dict[str, Any]] = [both, *({name: value} for name, value in both.items())]
    for extra in (*cases, {"client_id": None}, {"client_secret": ""}, {"client_id": 1}):
        reply = await send(service, path, {**body, **extra}, f"Basic {credentials}")
        assert (reply.status, reply.code) == (400, "invalid_request"), extra
        assert reply.body["message"].startswith(f"{next(iter(extra))} must not be sent in the body together")
    for headers in (
        (f"Basic {credentials}", f"Basic {credentials}"),
        ("Bearer x", f"Basic {credentials}"),
        (f"Basic {credentials}", "Bearer x"),
    ):
        reply = await send(service, path, body, *headers)
        assert (reply.status, reply.body["message"]) == (400, "Authorization must be sent only once."), headers
    assert (await send(service, path, body, f"Basic {credentials}")).status == 200


@every_path
async def test_other_schemes_are_ignored(service: Service, path: str) -> None:
    """Official clients send their access token here too, valid or not, once or twice."""
    body, _ = await request_for(service, path)
    for headers in (["Bearer x"], ["Bearer x", "Bearer y"], ["Basics eDp5"], ["Digest Basic"]):
        reply = await send(service, path, {**body, "client_id": "1"}, *headers)
        assert reply.body["message"] == "client_secret is missing.", headers
    assert (await send(service, path, {**body, **service.scene.credentials()}, "Bearer x", "Bearer y")).status == 200
