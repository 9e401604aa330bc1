"""Unmodified clients get and refresh tokens: Authlib, requests-oauthlib, and both official clients.

Each gets the service's URL through its own configuration.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

import mercadopago
import pytest
from authlib.common.errors import AuthlibBaseError
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session
from mercadopago.config.config import Config
from mercadopago.errors import MPBadRequestError
from oauthlib.oauth2 import InvalidClientError, InvalidGrantError, OAuth2Error
from requests_oauthlib import OAuth2Session as OAuthlibSession

import node_clients
from oauth_scene import ALL_SCOPES, REDIRECT_URI
from operator_calls import operator
from page_scene import PASSWORD, give_password
from paydesk.platform.http.server import server
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from seller import Seller
from service import Service, running

Tokens = dict[str, Any]


class Client(Protocol):
    """An application that uses one of the libraries."""

    def authorization_url(self) -> str:
        """Return the address for the seller's browser."""

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """Exchange the code in the redirect; return the first tokens."""

    def refresh(self, refresh_token: str) -> Tokens:
        """Return the next tokens."""


Make = Callable[[Service, str], Client]
"""Creates an application of this service with this secret."""


class Refused(Exception):
    """A refusal as the library reports it: the class of its error, and the error code."""


class Authlib:
    """Authlib over requests, with PKCE S256 and `client_secret_post`."""

    def __init__(self, service: Service, secret: str) -> None:
        self._token_url = f"{service.base_url}/oauth/token"
        self._authorization_url = f"{service.base_url}/authorization"
        self._verifier = generate_token(48)
        self._session = OAuth2Session(
            service.scene.credentials()["client_id"],
            secret,
            token_endpoint_auth_method="client_secret_post",
            scope=ALL_SCOPES,
            redirect_uri=REDIRECT_URI,
            code_challenge_method="S256",
        )

    def authorization_url(self) -> str:
        """The library creates the challenge and the state."""
        url, self._state = self._session.create_authorization_url(self._authorization_url, code_verifier=self._verifier)
        return str(url)

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """The library compares the state."""
        return self._tokens(
            lambda: self._session.fetch_token(
                self._token_url,
                authorization_response=redirect,
                state=self._state,
                code_verifier=self._verifier,
                **extra,
            )
        )

    def refresh(self, refresh_token: str) -> Tokens:
        """The library sends the scope too."""
        return self._tokens(lambda: self._session.refresh_token(self._token_url, refresh_token=refresh_token))

    def _tokens(self, call: Callable[[], Any]) -> Tokens:
        try:
            return dict(call())
        except AuthlibBaseError as error:
            raise Refused(type(error).__name__, error.error) from error


class RequestsOAuthlib:
    """requests-oauthlib with PKCE S256 and the credentials in the body."""

    def __init__(self, service: Service, secret: str) -> None:
        self._token_url = f"{service.base_url}/oauth/token"
        self._authorization_url = f"{service.base_url}/authorization"
        self._client_id, self._secret = service.scene.credentials()["client_id"], secret
        self._session = OAuthlibSession(
            self._client_id, redirect_uri=REDIRECT_URI, scope=ALL_SCOPES.split(), pkce="S256"
        )

    def authorization_url(self) -> str:
        """The library creates the challenge and the state."""
        url, _ = self._session.authorization_url(self._authorization_url)
        return str(url)

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """The library compares the state and stores the verifier."""
        return self._tokens(
            lambda: self._session.fetch_token(
                self._token_url,
                # The library accepts only https addresses; the redirect URI is one.
                authorization_response=redirect,
                include_client_id=True,
                client_secret=self._secret,
                **extra,
            )
        )

    def refresh(self, refresh_token: str) -> Tokens:
        """The credentials are parameters of the refresh."""
        return self._tokens(
            lambda: self._session.refresh_token(
                self._token_url, refresh_token, client_id=self._client_id, client_secret=self._secret
            )
        )

    def _tokens(self, call: Callable[[], Any]) -> Tokens:
        try:
            return dict(call())
        except OAuth2Error as error:
            raise Refused(type(error).__name__, error.error) from error


class OfficialPython:
    """The official Python client."""

    def __init__(self, service: Service, secret: str) -> None:
        self._base_url = service.base_url
        self._credentials = {**service.scene.credentials(), "client_secret": secret}
        self._oauth = mercadopago.SDK("none").oauth()

    def authorization_url(self) -> str:
        """The library supports no other host, so the address is composed here."""
        query = {"client_id": self._credentials["client_id"], "response_type": "code", "redirect_uri": REDIRECT_URI}
        return f"{self._base_url}/authorization?{urlencode({**query, 'state': 'a state'})}"

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """The application passes the whole body, which is sent as JSON."""
        body = {**self._credentials, "code": code_of(redirect), "redirect_uri": REDIRECT_URI, **extra}
        return self._tokens(self._oauth.create, {**body, "grant_type": "authorization_code"})

    def refresh(self, refresh_token: str) -> Tokens:
        """Likewise."""
        body = {**self._credentials, "refresh_token": refresh_token, "grant_type": "refresh_token"}
        return self._tokens(self._oauth.refresh, body)

    def _tokens(self, call: Any, body: dict[str, Any]) -> Tokens:
        try:
            answer = call(body)
            answer.raise_for_status()
        except MPBadRequestError as error:
            raise Refused(type(error).__name__, error.error) from error
        return dict(answer["response"])


class OfficialNode:
    """The official Node client."""

    def __init__(self, service: Service, secret: str) -> None:
        self._base_url = service.base_url
        self._credentials = {**service.scene.credentials(), "client_secret": secret}

    def authorization_url(self) -> str:
        """The library composes it with its vendor's host, which is replaced."""
        options = {"client_id": self._credentials["client_id"], "redirect_uri": REDIRECT_URI, "state": "a state"}
        composed: str = node_clients.oauth(self._base_url, "getAuthorizationURL", {"options": options})
        return f"{self._base_url}/authorization?{urlsplit(composed).query}"

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """Its type lacks `test_token`, but it sends every field."""
        body = {**self._credentials, "code": code_of(redirect), "redirect_uri": REDIRECT_URI, **extra}
        return self._tokens("create", body)

    def refresh(self, refresh_token: str) -> Tokens:
        """Likewise."""
        return self._tokens("refresh", {**self._credentials, "refresh_token": refresh_token})

    def _tokens(self, method: str, body: dict[str, Any]) -> Tokens:
        answer: Tokens = node_clients.oauth(self._base_url, method, {"body": body})
        if "failure" in answer:
            raise Refused(answer["failure"], answer["error"])
        assert answer.pop("api_response")["status"] == 200
        return answer


ISSUER = "http://127.0.0.1"

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For tests about what a library sends and reads, which does not depend on the database."""

PYTHON: list[Make] = [Authlib, RequestsOAuthlib, OfficialPython]
WITH_PKCE: list[Make] = [Authlib, RequestsOAuthlib]
REFUSALS: dict[Make, tuple[str, str]] = {
    Authlib: ("OAuthError", "OAuthError"),
    RequestsOAuthlib: (InvalidGrantError.__name__, InvalidClientError.__name__),
    OfficialPython: ("MPBadRequestError", "MPBadRequestError"),
    OfficialNode: ("MPBadRequestError", "MPBadRequestError"),
}
"""The class of each library's error for `invalid_grant` and for `invalid_client`."""


def code_of(redirect: str) -> str:
    """Return the code in the redirect."""
    return parse_qs(urlsplit(redirect).query)["code"][0]


@pytest.fixture(params=[*PYTHON, OfficialNode], ids=lambda client: client.__name__)
def client(request: pytest.FixtureRequest) -> Make:
    """Each of the clients; the Node client if Node is installed."""
    if request.param is OfficialNode:
        node_clients.require()
    chosen: Make = request.param
    return chosen


@pytest.fixture
async def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service that the clients call instead of their own."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(server, "QUIET_SECONDS", 0.02)  # clients keep their connections
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")  # its own switch for loopback
    async with running(database, settings=Settings(public_url=ISSUER)) as started:
        monkeypatch.setattr(Config, "_Config__api_base_url", started.base_url)
        yield started


@pytest.fixture
async def seller(service: Service) -> Seller:
    """The service's seller with a browser."""
    await give_password(service)
    return Seller(service.scene.seller.email, PASSWORD)


async def first_tokens(seller: Seller, client: Client, **extra: str) -> Tokens:
    """Return the client's tokens after the seller has agreed."""
    redirect = await asyncio.to_thread(lambda: seller.agree(client.authorization_url()))
    return await asyncio.to_thread(client.exchange, redirect, **extra)


async def is_accepted(service: Service, access_token: str) -> bool:
    """Whether the service accepts the token."""
    reply = await service.request("GET", "/terminals/v1/list", token=access_token)
    return reply.status == 200


async def test_gets_and_refreshes_tokens(service: Service, seller: Seller, client: Make) -> None:
    """From the seller's consent to the third pair of tokens, all of which are accepted."""
    application = client(service, service.scene.secret)
    redirect = await asyncio.to_thread(lambda: seller.agree(application.authorization_url()))
    assert parse_qs(urlsplit(redirect).query)["iss"] == [ISSUER]
    first = await asyncio.to_thread(application.exchange, redirect)
    assert first["token_type"] == "bearer"
    assert re.fullmatch(r"APP_USR-[0-9]+-[0-9]{6}-[0-9a-f]{32}-[0-9]+", first["access_token"])
    second = await asyncio.to_thread(application.refresh, first["refresh_token"])
    third = await asyncio.to_thread(application.refresh, second["refresh_token"])
    assert len({tokens["refresh_token"] for tokens in (first, second, third)}) == 3
    for tokens in (first, second, third):
        assert tokens["user_id"] == service.seller_id
        assert await is_accepted(service, tokens["access_token"])


@ON_SQLITE
async def test_repeated_refresh_returns_the_same_tokens(service: Service, seller: Seller, client: Make) -> None:
    """As after a lost answer."""
    application = client(service, service.scene.secret)
    first = await first_tokens(seller, application)
    second, again = [await asyncio.to_thread(application.refresh, first["refresh_token"]) for _ in range(2)]
    assert (again["access_token"], again["refresh_token"]) == (second["access_token"], second["refresh_token"])


@ON_SQLITE
async def test_gets_test_tokens(service: Service, seller: Seller, client: Make) -> None:
    """Every client can send `test_token`, and a refresh keeps the kind."""
    application = client(service, service.scene.secret)
    first = await first_tokens(seller, application, test_token="true")
    second = await asyncio.to_thread(application.refresh, first["refresh_token"])
    for tokens in (first, second):
        assert tokens["live_mode"] is False
        assert tokens["access_token"].startswith("TEST-")


@pytest.mark.on_postgres
async def test_gets_test_tokens_without_the_field(service: Service, seller: Seller, client: Make) -> None:
    """As a client that cannot send it: the application's setting decides, and a refresh keeps the kind."""
    owner = await operator(service)
    path = f"applications/{service.scene.application.application_id}"
    application = client(service, service.scene.secret)
    for value in (True, False):
        await owner.did("PATCH", path, {"test_tokens": value})
        first = await first_tokens(seller, application)
        second = await asyncio.to_thread(application.refresh, first["refresh_token"])
        for tokens in (first, second):
            assert tokens["live_mode"] is not value
            assert tokens["access_token"].startswith("TEST-" if value else "APP_USR-")
            assert await is_accepted(service, tokens["access_token"])


@ON_SQLITE
async def test_refusal_is_the_error_of_the_library(service: Service, seller: Seller, client: Make) -> None:
    """With the error code of RFC 6749."""
    of_grant, of_client = REFUSALS[client]
    application = client(service, service.scene.secret)
    redirect = await asyncio.to_thread(lambda: seller.agree(application.authorization_url()))
    await asyncio.to_thread(application.exchange, redirect)
    with pytest.raises(Refused) as refused:
        await asyncio.to_thread(application.exchange, redirect)
    assert refused.value.args == (of_grant, "invalid_grant")
    guessing = client(service, "a guess")
    with pytest.raises(Refused) as refused:
        await first_tokens(seller, guessing)
    assert refused.value.args == (of_client, "invalid_client")


@ON_SQLITE
@pytest.mark.parametrize("library", WITH_PKCE, ids=lambda library: library.__name__)
async def test_code_with_pkce_needs_its_verifier(service: Service, seller: Seller, library: Make) -> None:
    """The libraries send it where PKCE is required; another client cannot use the code."""
    await service.scene.run("UPDATE applications SET pkce_required = 1")
    application, thief = library(service, service.scene.secret), library(service, service.scene.secret)
    await asyncio.to_thread(thief.authorization_url)
    redirect = await asyncio.to_thread(lambda: seller.agree(application.authorization_url()))
    stolen = await service.request(
        "POST", "/oauth/token", service.scene.exchange(code_of(redirect)), token=None, key=None
    )
    assert (stolen.status, stolen.code) == (400, "invalid_grant")
    state_of = parse_qs(urlsplit(await asyncio.to_thread(thief.authorization_url)).query)["state"][0]
    with pytest.raises(Refused):
        await asyncio.to_thread(thief.exchange, f"{REDIRECT_URI}?code={code_of(redirect)}&state={state_of}")
    assert (await asyncio.to_thread(application.exchange, redirect))["user_id"] == service.seller_id


@ON_SQLITE
@pytest.mark.parametrize("library", WITH_PKCE, ids=lambda library: library.__name__)
async def test_library_refuses_another_state(service: Service, seller: Seller, library: Make) -> None:
    """The service returns the state unchanged."""
    application = library(service, service.scene.secret)
    redirect = await asyncio.to_thread(lambda: seller.agree(application.authorization_url()))
    changed = re.sub(r"state=[^&]*", "state=another", redirect)
    with pytest.raises(Refused) as refused:
        await asyncio.to_thread(application.exchange, changed)
    assert refused.value.args[1] == "mismatching_state"
    assert (await asyncio.to_thread(application.exchange, redirect))["user_id"] == service.seller_id


@ON_SQLITE
async def test_authlib_introspects_and_revokes_tokens(service: Service, seller: Seller) -> None:
    """With the client credentials in the body."""
    tokens = await first_tokens(seller, Authlib(service, service.scene.secret))
    credentials = service.scene.credentials()
    session = OAuth2Session(
        *credentials.values(),
        token_endpoint_auth_method="client_secret_post",
        revocation_endpoint_auth_method="client_secret_post",
    )

    async def is_active() -> bool:
        answer = await asyncio.to_thread(
            session.introspect_token, f"{service.base_url}/oauth/introspect", token=tokens["access_token"]
        )
        assert answer.status_code == 200
        return bool(answer.json()["active"])

    assert await is_active()
    revoked = await asyncio.to_thread(
        session.revoke_token,
        f"{service.base_url}/oauth/revoke",
        token=tokens["refresh_token"],
        token_type_hint="refresh_token",
    )
    assert revoked.status_code == 200
    assert not await is_active()
    assert not await is_accepted(service, tokens["access_token"])


def test_node_client_is_pinned() -> None:
    """One exact version with its hash, and no registry named."""
    declared = json.loads((node_clients.FOLDER / "package.json").read_text())["dependencies"]
    packages = json.loads((node_clients.FOLDER / "package-lock.json").read_text())["packages"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in declared} == declared
    assert all("resolved" not in package for package in packages.values())
    assert all(package["integrity"].startswith("sha512-") for name, package in packages.items() if name)


def test_missing_node_is_reported_with_advice(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the packages to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(node_clients.NodeMissing, match=r"node and npm are missing.*apt-get install nodejs npm"):
        node_clients.install()
