"""429 at the token endpoints: junk is throttled, whoever is who they say is not locked out, and nobody calls too often.

Every request comes from this machine; a trusted proxy says from which address.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from hand_clock import HandClock
from nodes import two_nodes
from oauth_scene import Scene, make_scene
from paydesk.core.clock import MovableClock
from paydesk.oauth.clients.throttle import ClientRates, ClientThrottle
from paydesk.settings import Settings
from paydesk.storage.connect import open_database
from paydesk.storage.database import Database
from service import Reply, Service, running

pytestmark = pytest.mark.sqlite_alone

BEHIND_A_PROXY = Settings(trusted_proxies=("127.0.0.1",))
HOME, NEIGHBOUR, ELSEWHERE = "198.51.100.1", "198.51.100.2", "203.0.113.9"
RATES = ClientRates(pair_per_minute=3, address_per_minute=6, requests_per_second=10, requests_burst=20)
UNKNOWN = "1234567890123456"
LIMITED = (429, "local_rate_limited")


@dataclass
class Desk:
    """A service with small rates, and who calls it from where."""

    service: Service
    hand: HandClock
    throttle: ClientThrottle

    async def send(self, body: Any, address: str = HOME, path: str = "/oauth/token", **options: Any) -> Reply:
        """One request for tokens, by way of the proxy."""
        headers = {"X-Forwarded-For": address, **options.pop("headers", {})}
        return await self.service.request("POST", path, body, token=None, key=None, headers=headers, **options)

    async def junk(self, client_id: Any, address: str = HOME, **options: Any) -> tuple[int, str]:
        """A guess at a client's secret: its status and code."""
        body = {"grant_type": "refresh_token", "refresh_token": "TG-1", "client_id": client_id, "client_secret": "x"}
        reply = await self.send(body, address, **options)
        return reply.status, reply.code

    async def flood(self, client_id: Any, address: str = HOME, count: int = 12) -> list[int]:
        """Many guesses at once, and what they were answered."""
        return [status for status, _ in [await self.junk(client_id, address) for _ in range(count)]]

    async def family(self, address: str = HOME) -> dict[str, Any]:
        """The body that refreshes a new family, whose first tokens came from the address."""
        self.scene.clock = MovableClock()
        reply = await self.send(self.scene.exchange(await self.scene.code()), address)
        assert reply.status == 200, reply
        return self.scene.refresh(reply.body["refresh_token"])

    @property
    def scene(self) -> Scene:
        """The application and its seller."""
        return self.service.scene

    @property
    def client_id(self) -> str:
        """The application's public number."""
        return str(self.scene.application.application_id)


@asynccontextmanager
async def open_desk(database: Database, rates: ClientRates = RATES, **settings: Any) -> AsyncIterator[Desk]:
    """A desk until the block ends."""
    hand = HandClock()
    throttle = ClientThrottle(rates, database.signals, monotonic=hand)
    chosen = BEHIND_A_PROXY.model_copy(update=settings)
    async with running(database, settings=chosen, workers=False, state={"client_throttle": throttle}) as service:
        yield Desk(service, hand, throttle)


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    """Three failures a client and address, six an address; ten calls a second with a burst of twenty."""
    async with open_desk(database) as opened:
        yield opened


async def test_a_pair_has_its_failures_and_then_waits(desk: Desk) -> None:
    """Three guesses a minute are answered, the fourth is to wait twenty seconds; then there is one more."""
    assert await desk.flood(desk.client_id, count=4) == [400, 400, 400, 429]
    reply = await desk.send({"client_id": desk.client_id})
    assert (reply.status, reply.code, reply.headers["retry-after"]) == (*LIMITED, "20")
    assert reply.body == {
        "message": "Too many calls at this time; try again later.",
        "error": "local_rate_limited",
        "error_description": "Too many calls at this time; try again later.",
        "status": 429,
        "cause": [],
    }
    assert reply.headers["cache-control"] == "no-store"
    desk.hand.advance(19.9)
    assert (await desk.junk(desk.client_id))[0] == 429
    desk.hand.advance(0.1)
    assert await desk.flood(desk.client_id, count=2) == [400, 429]


async def test_an_address_has_its_failures_whichever_clients_it_names(desk: Desk) -> None:
    """Six a minute; a number sent as a number, one with a zero in front and no number at all count like any other."""
    names: list[Any] = [UNKNOWN, int(UNKNOWN) + 1, "till", "0" + UNKNOWN, desk.client_id, "ü", UNKNOWN]
    assert [await desk.junk(name) for name in names] == [(400, "invalid_client")] * 6 + [LIMITED]
    assert await desk.junk(UNKNOWN, NEIGHBOUR) == (400, "invalid_client")


async def test_an_address_of_ipv6_is_a_subscribers(desk: Desk) -> None:
    """All of a /64 are one, and what comes as IPv4 in IPv6 is that IPv4 address."""
    addresses = [f"2001:db8:1:2::{number:x}" for number in range(1, 5)]
    assert [(await desk.junk(UNKNOWN, address))[0] for address in addresses] == [400, 400, 400, 429]
    assert (await desk.junk(UNKNOWN, "2001:db8:1:3::1"))[0] == 400
    clothes = [ELSEWHERE, f"::ffff:{ELSEWHERE}", f"{ELSEWHERE}:4711", ELSEWHERE]
    assert [(await desk.junk(UNKNOWN, address))[0] for address in clothes] == [400, 400, 400, 429]


async def test_junk_from_elsewhere_locks_nobody_out(desk: Desk) -> None:
    """Strangers flood with the client's number from many addresses: the client, new to this node, notices nothing."""
    for number in range(5):
        await desk.flood(desk.client_id, f"203.0.113.{number}")
    assert (await desk.send(await desk.family())).status == 200


async def test_junk_from_the_clients_own_address_locks_it_not_out(desk: Desk) -> None:
    """Where the client has authenticated within the day it goes on, and guesses at others go on being refused."""
    body = await desk.family()
    assert await desk.flood(desk.client_id) == [400] * 12
    assert await desk.flood(UNKNOWN) == [429] * 12
    reply = await desk.send(body)
    assert reply.status == 200
    desk.hand.advance(86_399)
    await desk.flood(desk.client_id)
    await desk.flood(UNKNOWN)
    assert (await desk.send(desk.scene.refresh(reply.body["refresh_token"]))).status == 200


async def test_the_day_ends(desk: Desk) -> None:
    """Who was not seen there for longer than a day waits like a stranger, and elsewhere always did."""
    body = await desk.family()
    await desk.flood(desk.client_id, NEIGHBOUR)
    assert (await desk.send(body, NEIGHBOUR)).status == 429
    desk.hand.advance(25 * 3600 + 1)
    await desk.flood(desk.client_id)
    assert (await desk.send(body)).status == 429
    desk.hand.advance(60)
    assert (await desk.send(body)).status == 200


async def test_what_is_no_failed_authentication_counts_nothing(desk: Desk) -> None:
    """Malformed requests, refused codes and refresh tokens of a client that is itself are no guesses at a secret."""
    body = {**await desk.family(), "refresh_token": "TG-1"}
    for _ in range(4):
        assert (await desk.send(body)).code == "invalid_grant"
        assert (await desk.send({"client_id": UNKNOWN})).code == "invalid_request"
    assert await desk.junk(UNKNOWN) == (400, "invalid_client")


async def test_a_throttled_client_is_told_before_all_else(desk: Desk) -> None:
    """Row 1 answers before every fault of row 2 with which the client_id can still be read."""
    await desk.flood(UNKNOWN)
    assert await desk.junk(UNKNOWN, path="/oauth/token?code=1") == LIMITED
    assert await desk.junk(UNKNOWN, headers={"x-test-scope": "sandbox"}) == LIMITED
    assert await desk.junk(UNKNOWN, path="/oauth/revoke") == LIMITED
    for body in ({"client_id": UNKNOWN}, {"client_id": int(UNKNOWN), "surprise": None}):
        reply = await desk.send(body)
        assert (reply.status, reply.code) == LIMITED
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = await desk.send(None, data=f"client_id={UNKNOWN}".encode(), headers=form)
    assert (reply.status, reply.code) == LIMITED


async def test_where_no_client_id_can_be_read_row_2_answers(desk: Desk) -> None:
    """An exhausted address is told what is wrong with its request."""
    await desk.flood(UNKNOWN)
    await desk.flood(desk.client_id)
    bodies: list[Any] = [{}, [], {"client_id": ""}, {"client_id": None}, {"client_id": True}, {"client_id": [UNKNOWN]}]
    for body in bodies:
        reply = await desk.send(body)
        assert (reply.status, reply.code) == (400, "invalid_request")
    doubled = b'{"client_id": "1", "client_id": "1"}'
    for data in (doubled, b"{", b"\xff", b" " * 70_000, b""):
        reply = await desk.send(None, data=data)
        assert (reply.status, reply.code) == (400, "invalid_request")
    reply = await desk.send(None, data=b'{"client_id": "1"}', headers={"Content-Type": "text/plain"})
    assert (reply.status, reply.code) == (400, "invalid_request")


async def test_a_client_has_its_burst_and_its_rate(desk: Desk) -> None:
    """Twenty at once, of which the first tokens were one; then one more each tenth of a second."""
    body = await desk.family()
    answers = [await desk.send(body) for _ in range(20)]
    assert [answer.status for answer in answers] == [200] * 19 + [429]
    assert answers[-1].headers["retry-after"] == "1"
    desk.hand.advance(0.1)
    assert [(await desk.send(body)).status for _ in range(2)] == [200, 429]
    other = await make_scene(desk.service.database)
    other.clock = desk.scene.clock
    assert (await desk.send(other.exchange(await other.code()))).status == 200


async def test_too_often_comes_after_the_secret_and_before_the_suspension(desk: Desk) -> None:
    """Row 6 stands between: a wrong secret is refused as ever, and a suspended client is told to wait first."""
    body = await desk.family()
    for _ in range(19):
        assert (await desk.send(body)).status == 200
    await desk.scene.run("UPDATE applications SET suspended_ms = 1")
    desk.service.database.signals.notify(("applications",))
    assert (await desk.send(body)).code == "local_rate_limited"
    assert await desk.junk(desk.client_id) == (400, "invalid_client")
    desk.hand.advance(0.1)
    assert (await desk.send(body)).code == "forbidden"
    assert (await desk.send(body)).code == "local_rate_limited"


async def test_many_at_once_count_as_many(desk: Desk) -> None:
    """Sixty refreshes at the same time: twenty less the first are answered, on either database."""
    body = await desk.family()
    answers = await asyncio.gather(*(desk.send(body) for _ in range(60)))
    assert sorted(answer.status for answer in answers) == [200] * 19 + [429] * 41


async def test_failures_at_once_are_owed(desk: Desk) -> None:
    """Guesses that were under way together are all answered, and paid for afterwards."""
    answers = await asyncio.gather(*(desk.junk(desk.client_id) for _ in range(8)))
    assert {status for status, _ in answers} <= {400, 429}
    failed = sum(status == 400 for status, _ in answers)
    assert failed >= 3
    assert desk.throttle.refusal(int(desk.client_id), HOME) == 20 * (min(failed, 6) - 2)


async def test_zero_is_off(database: Database) -> None:
    """Nothing is throttled, whoever comes as often as they like."""
    rates = ClientRates(pair_per_minute=0, address_per_minute=0, requests_per_second=0, known_hours=0)
    async with open_desk(database, rates) as desk:
        assert await desk.flood(desk.client_id, count=40) == [400] * 40
        body = await desk.family()
        answers = await asyncio.gather(*(desk.send(body) for _ in range(150)))
        assert {answer.status for answer in answers} == {200}


async def test_an_address_is_believed_from_trusted_proxies_only(database: Database) -> None:
    """Whoever says of itself that it is somebody else is counted under its own address."""
    async with open_desk(database, trusted_proxies=()) as desk:
        addresses = [f"203.0.113.{number}" for number in range(4)]
        assert [(await desk.junk(UNKNOWN, address))[0] for address in addresses] == [400, 400, 400, 429]


@asynccontextmanager
async def closing(database: Database) -> AsyncIterator[None]:
    """Close the database at the end."""
    yield
    await database.close()


async def test_a_client_known_to_one_node_is_known_to_all(postgres_url: str) -> None:
    """It authenticated at one; at another, junk from its own address does not lock it out."""
    settings = Settings(trusted_proxies=("127.0.0.1",), client_failures_per_minute=3)
    database = await open_database(postgres_url)
    async with closing(database), two_nodes(database, postgres_url, settings=settings) as (first, second):
        one, other = (Desk(node, HandClock(), ClientThrottle(RATES)) for node in (first, second))
        assert await other.flood(other.client_id, count=4) == [400, 400, 400, 429]
        body = await one.family()
        for _ in range(150):
            reply = await other.send(body)
            if reply.status == 200:
                break
            await other.flood(other.client_id, count=2)
            await asyncio.sleep(0.05)
        assert reply.status == 200
