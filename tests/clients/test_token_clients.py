"""Clients as they are on the shelf get tokens and refresh them: Authlib, requests-oauthlib, the official two.

None of them is changed; each is told the service's address the way it offers.
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
from conftest import skip_unless_ci
from oauth_scene import ALL_SCOPES, REDIRECT_URI
from page_scene import PASSWORD, give_password
from paydesk.settings import Settings
from paydesk.storage.database import Database
from seller import Seller
from service import Service, running

Tokens = dict[str, Any]


class Client(Protocol):
    """An application that uses one of the libraries."""

    def authorization_url(self) -> str:
        """Where it sends the seller's browser."""

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """The first tokens, for the address that the seller's browser came back to."""

    def refresh(self, refresh_token: str) -> Tokens:
        """The next tokens."""


Make = Callable[[Service, str], Client]
"""An application of this service with this secret."""


class Refused(Exception):
    """What a library made of a refusal: its own error's class, and the code in it."""


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
        """With the challenge and a state of the library's making."""
        url, self._state = self._session.create_authorization_url(self._authorization_url, code_verifier=self._verifier)
        return str(url)

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """The library compares the state."""
        return self._told(
            lambda: self._session.fetch_token(
                self._token_url,
                authorization_response=redirect,
                state=self._state,
                code_verifier=self._verifier,
                **extra,
            )
        )

    def refresh(self, refresh_token: str) -> Tokens:
        """The library sends the scope along."""
        return self._told(lambda: self._session.refresh_token(self._token_url, refresh_token=refresh_token))

    def _told(self, call: Callable[[], Any]) -> Tokens:
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
        """With the challenge and a state of the library's making."""
        url, _ = self._session.authorization_url(self._authorization_url)
        return str(url)

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """The library compares the state and holds the verifier."""
        return self._told(
            lambda: self._session.fetch_token(
                self._token_url,
                # It takes https addresses alone; the seller came back to one.
                authorization_response=redirect,
                include_client_id=True,
                client_secret=self._secret,
                **extra,
            )
        )

    def refresh(self, refresh_token: str) -> Tokens:
        """The credentials are parameters of the refresh."""
        return self._told(
            lambda: self._session.refresh_token(
                self._token_url, refresh_token, client_id=self._client_id, client_secret=self._secret
            )
        )

    def _told(self, call: Callable[[], Any]) -> Tokens:
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
        """The library makes none for an address of its user's, so it is put together by hand."""
        asked = {"client_id": self._credentials["client_id"], "response_type": "code", "redirect_uri": REDIRECT_URI}
        return f"{self._base_url}/authorization?{urlencode({**asked, 'state': 'a state'})}"

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """The body is all the application's, and goes as JSON."""
        body = {**self._credentials, "code": code_of(redirect), "redirect_uri": REDIRECT_URI, **extra}
        return self._told(self._oauth.create, {**body, "grant_type": "authorization_code"})

    def refresh(self, refresh_token: str) -> Tokens:
        """The same."""
        body = {**self._credentials, "refresh_token": refresh_token, "grant_type": "refresh_token"}
        return self._told(self._oauth.refresh, body)

    def _told(self, call: Any, body: dict[str, Any]) -> Tokens:
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
        """The library's own, which names its vendor's host: that alone is exchanged."""
        options = {"client_id": self._credentials["client_id"], "redirect_uri": REDIRECT_URI, "state": "a state"}
        made: str = node_clients.oauth(self._base_url, "getAuthorizationURL", {"options": options})
        return f"{self._base_url}/authorization?{urlsplit(made).query}"

    def exchange(self, redirect: str, **extra: str) -> Tokens:
        """Its type knows no `test_token`, and it sends what it is given."""
        body = {**self._credentials, "code": code_of(redirect), "redirect_uri": REDIRECT_URI, **extra}
        return self._told("create", body)

    def refresh(self, refresh_token: str) -> Tokens:
        """The same."""
        return self._told("refresh", {**self._credentials, "refresh_token": refresh_token})

    def _told(self, method: str, body: dict[str, Any]) -> Tokens:
        answer: Tokens = node_clients.oauth(self._base_url, method, {"body": body})
        if "failure" in answer:
            raise Refused(answer["failure"], answer["error"])
        assert answer.pop("api_response")["status"] == 200
        return answer


ISSUER = "http://127.0.0.1"

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""Where a test is about what a library sends and reads, one database says as much as two."""

PYTHON: list[Make] = [Authlib, RequestsOAuthlib, OfficialPython]
WITH_PKCE: list[Make] = [Authlib, RequestsOAuthlib]
REFUSALS: dict[Make, tuple[str, str]] = {
    Authlib: ("OAuthError", "OAuthError"),
    RequestsOAuthlib: (InvalidGrantError.__name__, InvalidClientError.__name__),
    OfficialPython: ("MPBadRequestError", "MPBadRequestError"),
    OfficialNode: ("MPBadRequestError", "MPBadRequestError"),
}
"""The class of each library's error for `invalid_grant`, and that for `invalid_client`."""


def code_of(redirect: str) -> str:
    """The code in the address that the seller's browser came back to."""
    return parse_qs(urlsplit(redirect).query)["code"][0]


@pytest.fixture(params=[*PYTHON, OfficialNode], ids=lambda client: client.__name__)
def client(request: pytest.FixtureRequest) -> Make:
    """Each of the clients, that on Node where there is one."""
    if request.param is OfficialNode:
        try:
            node_clients.install()
        except node_clients.NodeMissing as missing:
            skip_unless_ci(str(missing))
    chosen: Make = request.param
    return chosen


@pytest.fixture
async def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service that the clients take for the ones they were written for."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")  # its own switch for loopback
    async with running(database, settings=Settings(public_url=ISSUER)) as made:
        monkeypatch.setattr(Config, "_Config__api_base_url", made.base_url)
        yield made


@pytest.fixture
async def seller(service: Service) -> Seller:
    """The service's seller at a browser."""
    await give_password(service)
    return Seller(service.scene.seller.email, PASSWORD)


async def first_tokens(seller: Seller, client: Client, **extra: str) -> Tokens:
    """What the client holds once the seller has agreed."""
    redirect = await asyncio.to_thread(lambda: seller.agree(client.authorization_url()))
    return await asyncio.to_thread(client.exchange, redirect, **extra)


async def opens_a_door(service: Service, access_token: str) -> bool:
    """Whether the service takes the token."""
    reply = await service.request("GET", "/terminals/v1/list", token=access_token)
    return reply.status == 200


async def test_gets_tokens_and_refreshes_them(service: Service, seller: Seller, client: Make) -> None:
    """From the seller's consent on the page to tokens and on to the next ones, all of which open doors."""
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
        assert await opens_a_door(service, tokens["access_token"])


@ON_SQLITE
async def test_refreshes_again_with_the_token_it_has(service: Service, seller: Seller, client: Make) -> None:
    """An answer that never arrived is asked for again, and is the same one."""
    application = client(service, service.scene.secret)
    first = await first_tokens(seller, application)
    second, again = [await asyncio.to_thread(application.refresh, first["refresh_token"]) for _ in range(2)]
    assert (again["access_token"], again["refresh_token"]) == (second["access_token"], second["refresh_token"])


@ON_SQLITE
async def test_gets_test_tokens(service: Service, seller: Seller, client: Make) -> None:
    """Every client can send `test_token`, and a refresh keeps the kind without being told."""
    application = client(service, service.scene.secret)
    first = await first_tokens(seller, application, test_token="true")
    second = await asyncio.to_thread(application.refresh, first["refresh_token"])
    for tokens in (first, second):
        assert tokens["live_mode"] is False
        assert tokens["access_token"].startswith("TEST-")


@ON_SQLITE
async def test_reads_refusals(service: Service, seller: Seller, client: Make) -> None:
    """A refusal is the library's own error, with the code of RFC 6749 in it."""
    of_grant, of_client = REFUSALS[client]
    application = client(service, service.scene.secret)
    redirect = await asyncio.to_thread(lambda: seller.agree(application.authorization_url()))
    await asyncio.to_thread(application.exchange, redirect)
    with pytest.raises(Refused) as refused:
        await asyncio.to_thread(application.exchange, redirect)
    assert refused.value.args == (of_grant, "invalid_grant")
    stranger = client(service, "a guess")
    with pytest.raises(Refused) as refused:
        await first_tokens(seller, stranger)
    assert refused.value.args == (of_client, "invalid_client")


@ON_SQLITE
@pytest.mark.parametrize("library", WITH_PKCE, ids=lambda library: library.__name__)
async def test_proves_that_the_code_is_its_own(service: Service, seller: Seller, library: Make) -> None:
    """Where PKCE is required the libraries get through, and a code is of no use to who lacks its verifier."""
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
async def test_refuses_an_answer_with_another_state(service: Service, seller: Seller, library: Make) -> None:
    """The state comes back as it was sent, so a library notices one that is not its own."""
    application = library(service, service.scene.secret)
    redirect = await asyncio.to_thread(lambda: seller.agree(application.authorization_url()))
    changed = re.sub(r"state=[^&]*", "state=another", redirect)
    with pytest.raises(Refused) as refused:
        await asyncio.to_thread(application.exchange, changed)
    assert refused.value.args[1] == "mismatching_state"
    assert (await asyncio.to_thread(application.exchange, redirect))["user_id"] == service.seller_id


@ON_SQLITE
async def test_asks_whether_tokens_are_good_and_ends_them(service: Service, seller: Seller) -> None:
    """Authlib's calls for introspection and revocation, with the credentials in the body like the others."""
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
    assert not await opens_a_door(service, tokens["access_token"])


def test_the_node_client_is_pinned() -> None:
    """One exact version with its hash, and no registry named: it comes from whichever the machine uses."""
    declared = json.loads((node_clients.FOLDER / "package.json").read_text())["dependencies"]
    packages = json.loads((node_clients.FOLDER / "package-lock.json").read_text())["packages"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in declared} == declared
    assert all("resolved" not in package for package in packages.values())
    assert all(package["integrity"].startswith("sha512-") for name, package in packages.items() if name)


def test_without_node_it_says_how_to_get_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is named with what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(node_clients.NodeMissing, match=r"node and npm are missing.*apt-get install nodejs npm"):
        node_clients.install()
