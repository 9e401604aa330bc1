"""Random bodies for the token endpoints: never a 5xx, and never a token for an invalid request.

`FUZZ_EXAMPLES=20000 pytest tests/contract/test_oauth_fuzz.py` looks for longer, each time elsewhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from oauth_scene import CHALLENGE, REDIRECT_URI, VERIFIER, Scene, make_scene
from paydesk.core.clock import MovableClock
from paydesk.engine.oauth.operations import INTROSPECT, REVOKE, TOKEN
from paydesk.platform.operation import Operation
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from service import Reply, Service, running
from token_bodies import Sent, plainly, requests

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "50"))
MANY = 200
LONG = EXAMPLES > MANY
ERROR_MEMBERS = {"message", "error", "error_description", "status", "cause"}
GRANTED = "offline_access read"

fuzzed = settings(
    max_examples=EXAMPLES,
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class World:
    """A service, what its one application may have, and what it was given."""

    service: Service
    refresh_token: str
    successor: dict[str, Any]
    other: Scene
    others_tokens: tuple[str, ...]
    code: str = ""
    challenged_code: str = ""
    given: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)

    @property
    def scene(self) -> Scene:
        """The application, its seller and its secret."""
        return self.service.scene

    @property
    def tokens(self) -> tuple[str, ...]:
        """Everything that looks like a token here, of the other application too."""
        own = (self.refresh_token, self.successor["access_token"], self.code, self.challenged_code)
        return (*own, *self.others_tokens)

    @property
    def known(self) -> tuple[str, ...]:
        """Texts that mean something here, each in its place and perhaps in another's; not the other's secret."""
        credentials = (*self.scene.credentials().values(), str(self.other.application.application_id))
        return (*credentials, *self.tokens, REDIRECT_URI, VERIFIER, VERIFIER[::-1])

    async def fresh_codes(self) -> None:
        """Codes that were not exchanged yet."""
        self.code = await self.scene.code(scope=GRANTED)
        self.challenged_code = await self.scene.code(scope=GRANTED, challenge=CHALLENGE)

    async def send(self, operation: Operation, sent: Sent) -> Reply:
        """Send it; the answer has a declared schema and contains no secret."""
        headers = {"Content-Type": sent.content_type}
        reply = await self.service.request(
            "POST", operation.path, data=sent.data, headers=headers, token=None, key=None
        )
        kind = "spoiled" if sent.is_spoiled else "right"
        self.answers[f"{kind}: {reply.status} {'' if reply.status == 200 else reply.body['error']}"] += 1
        assert reply.headers["content-type"] == "application/json"
        assert self.scene.secret.encode() not in reply.raw
        if reply.status != 200:
            assert set(reply.body) == ERROR_MEMBERS
            assert (reply.body["error"], reply.status) in {(kind.code, kind.status) for kind in operation.errors}
            assert reply.body["status"] == reply.status
            assert sent.is_spoiled, reply.body
        return reply

    def proves_who_it_is(self, body: Mapping[str, Any] | None, reply: Reply) -> bool:
        """Whether these are the application's own credentials; the other's have nothing to gain here."""
        own, body = self.scene.credentials(), body or {}
        client_id = body.get("client_id")
        return (
            reply.status == 200
            and type(client_id) in (str, int)
            and (str(client_id), body.get("client_secret")) == (own["client_id"], own["client_secret"])
        )


@pytest.fixture
async def world(sqlite_url: str) -> AsyncIterator[World]:
    """One application with a live family and codes, and another with a family; at the end, what came of all of it."""
    database, clock = await open_database(sqlite_url), MovableClock()
    unlimited = Settings(
        client_requests_per_second=0, client_failures_per_minute=0, client_failures_per_minute_address=0
    )
    async with running(database, clock=clock, settings=unlimited, workers=False) as service:
        scene, other = service.scene, await make_scene(database)
        scene.clock = other.clock = clock
        scene.keys = other.keys
        refresh_token = (await scene.answer(scene.exchange(await scene.code(scope=GRANTED))))["refresh_token"]
        successor = await scene.answer(scene.refresh(refresh_token))
        others = await other.tokens()
        world = World(service, refresh_token, successor, other, (others["refresh_token"], others["access_token"]))
        await world.fresh_codes()
        before = await scene.value("SELECT count(*) FROM access_tokens")
        with capture_logs() as lines:
            yield world
        made = await scene.value("SELECT count(*) FROM access_tokens") - before
        assert made == len(world.given - {successor["access_token"]}), "what was made was given, and nothing else"
        secrets = (scene.secret, other.secret, refresh_token, *world.given, *world.others_tokens)
        assert not [line for line in lines if any(secret in str(line) for secret in secrets)]
        assert not [line for line in lines if line["event"] in ("unhandled_exception", "undeclared_error")]
        for table in ("token_families", "access_tokens"):
            assert await scene.value(f"SELECT count(*) FROM {table} WHERE revoked_ms IS NOT NULL") == 0
        if LONG:
            print(dict(world.answers))  # noqa: T201 - who asks for a long run wants to know
    await database.close()


def is_refresh(world: World, body: Mapping[str, Any]) -> bool:
    """Whether the body asks for the successor of the family's one token."""
    return (
        body.get("grant_type") == "refresh_token"
        and body.get("refresh_token") in (world.refresh_token, world.successor["refresh_token"])
        and body.get("redirect_uri", "") in ("", REDIRECT_URI)
        and not body.get("code")
        and not body.get("code_verifier")
    )


def is_exchange(world: World, body: Mapping[str, Any]) -> bool:
    """Whether the body exchanges one of the codes, with its verifier or without one."""
    verifier = body.get("code_verifier", "")
    return (
        body.get("grant_type") == "authorization_code"
        and (body.get("code"), verifier) in ((world.code, ""), (world.challenged_code, VERIFIER))
        and body.get("redirect_uri") == REDIRECT_URI
        and not body.get("refresh_token")
    )


def within(scope: str, asked: Any) -> bool:
    """Whether the scope is what was asked for, and no more than was granted."""
    return set(scope.split()) == set((asked or GRANTED).split()) <= set(GRANTED.split())


async def redeemed(world: World, sent: Sent) -> None:
    """A token request: 200 only for what is owed, and then no more than that."""
    reply = await world.send(TOKEN, sent)
    if reply.status != 200:
        return
    body = plainly(sent)
    assert world.proves_who_it_is(body, reply), sent
    assert body is not None
    exchanged = is_exchange(world, body)
    assert exchanged or is_refresh(world, body), sent
    assert within(reply.body["scope"], body.get("scope")), sent
    assert reply.body["live_mode"] is (body.get("test_token", False) in (False, "false"))
    assert reply.body["user_id"] == world.scene.seller.seller_id
    world.given.add(reply.body["access_token"])
    if exchanged:
        await world.fresh_codes()


Right = Callable[[World], dict[str, Any]]
RIGHTS: dict[str, Right] = {
    "refresh": lambda world: world.scene.refresh(world.refresh_token),
    "exchange": lambda world: world.scene.exchange(world.code, scope="read", test_token="true"),
    "challenge": lambda world: world.scene.exchange(world.challenged_code, code_verifier=VERIFIER),
}


@pytest.mark.parametrize("flow", RIGHTS)
@given(data=st.data())
@fuzzed
async def test_token(world: World, flow: str, data: st.DataObject) -> None:
    """Tokens are issued only for the client's own code or refresh token, in an unambiguous body."""
    await redeemed(world, data.draw(requests(RIGHTS[flow](world), world.known, world.tokens)))


@given(data=st.data())
@fuzzed
async def test_introspect(world: World, data: st.DataObject) -> None:
    """Only the client's own token is described."""
    token = data.draw(st.sampled_from((world.successor["refresh_token"], world.successor["access_token"])))
    sent = data.draw(requests(world.scene.presented(token), world.known, world.tokens))
    reply = await world.send(INTROSPECT, sent)
    if reply.status == 200 and reply.body["active"]:
        body = plainly(sent)
        assert world.proves_who_it_is(body, reply), sent
        assert body is not None
        assert body["token"] in (world.successor["refresh_token"], world.successor["access_token"])
    if not sent.is_spoiled:
        assert reply.body["active"] is True


@given(data=st.data())
@fuzzed
async def test_revoke(world: World, data: st.DataObject) -> None:
    """Only the client's own tokens are revoked."""
    token = data.draw(st.sampled_from(world.others_tokens))
    others = (str(world.other.application.application_id), *world.others_tokens)
    sent = data.draw(requests(world.scene.presented(token), others, world.others_tokens))
    reply = await world.send(REVOKE, sent)
    if reply.status == 200:
        assert reply.body == {}
        assert plainly(sent) is not None


@pytest.mark.slow
def test_many() -> None:
    """All of the above with more bodies, the same each time."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", __file__]
    finished = subprocess.run(
        command, env={**os.environ, "FUZZ_EXAMPLES": str(MANY)}, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
