"""429 at the token endpoints: failures are limited without locking out clients, and so is the request rate.

Every request comes from this machine; a trusted proxy says from which address.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from hand_clock import HandClock
from nodes import two_nodes
from oauth_scene import Scene, make_scene
from paydesk.core.clock import MovableClock
from paydesk.engine.oauth.clients.authentication import ClientRates, ClientThrottle
from paydesk.platform.settings import Settings
from paydesk.platform.storage.bounded import PROBES_MAX
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from service import Reply, Service, running
from waiting import until_found

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
    async with running(database, settings=chosen, workers=False, client_throttle=throttle) as service:
        yield Desk(service, hand, throttle)


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    """Three failures a client and address, six an address; ten calls a second with a burst of twenty."""
    async with open_desk(database) as opened:
        yield opened


async def test_a_pair_is_limited_after_its_failures(desk: Desk) -> None:
    """Three failures a minute are answered, the fourth must wait 20 s; then one more is allowed."""
    assert await desk.flood(desk.client_id, count=4) == [400, 400, 400, 429]
    reply = await desk.send({"client_id": desk.client_id})
    assert (reply.status, reply.code, reply.headers["retry-after"]) == (*LIMITED, "20")
    assert reply.body == {
        "message": "Too many requests. Try again later.",
        "error": "local_rate_limited",
        "error_description": "Too many requests. Try again later.",
        "status": 429,
        "cause": [],
    }
    assert reply.headers["cache-control"] == "no-store"
    desk.hand.advance(19.9)
    assert (await desk.junk(desk.client_id))[0] == 429
    desk.hand.advance(0.1)
    assert await desk.flood(desk.client_id, count=2) == [400, 429]


async def test_an_address_is_limited_over_all_clients(desk: Desk) -> None:
    """Six a minute; a JSON number, a leading zero and no number at all count alike."""
    names: list[Any] = [UNKNOWN, int(UNKNOWN) + 1, "till", "0" + UNKNOWN, desk.client_id, "ü", UNKNOWN]
    assert [await desk.junk(name) for name in names] == [(400, "invalid_client")] * 6 + [LIMITED]
    assert await desk.junk(UNKNOWN, NEIGHBOUR) == (400, "invalid_client")


async def test_an_ipv6_network_of_64_bits_is_one_address(desk: Desk) -> None:
    """An IPv4-mapped IPv6 address is that IPv4 address."""
    addresses = [f"2001:db8:1:2::{number:x}" for number in range(1, 5)]
    assert [(await desk.junk(UNKNOWN, address))[0] for address in addresses] == [400, 400, 400, 429]
    assert (await desk.junk(UNKNOWN, "2001:db8:1:3::1"))[0] == 400
    clothes = [ELSEWHERE, f"::ffff:{ELSEWHERE}", f"{ELSEWHERE}:4711", ELSEWHERE]
    assert [(await desk.junk(UNKNOWN, address))[0] for address in clothes] == [400, 400, 400, 429]


async def test_failures_from_other_addresses_lock_out_no_client(desk: Desk) -> None:
    """Many addresses fail with the client's number: the client, new to this node, is not affected."""
    for number in range(5):
        await desk.flood(desk.client_id, f"203.0.113.{number}")
    assert (await desk.send(await desk.family())).status == 200


async def test_failures_from_its_own_address_do_not_lock_out_a_client(desk: Desk) -> None:
    """If it authenticated there within a day; failures with other clients stay limited."""
    body = await desk.family()
    assert await desk.flood(desk.client_id) == [400] * 12
    assert await desk.flood(UNKNOWN) == [429] * 12
    reply = await desk.send(body)
    assert reply.status == 200
    desk.hand.advance(86_399)
    await desk.flood(desk.client_id)
    await desk.flood(UNKNOWN)
    assert (await desk.send(desk.scene.refresh(reply.body["refresh_token"]))).status == 200


async def test_an_address_is_known_for_a_day(desk: Desk) -> None:
    """A client that was not seen there for longer waits like an unknown one."""
    body = await desk.family()
    await desk.flood(desk.client_id, NEIGHBOUR)
    assert (await desk.send(body, NEIGHBOUR)).status == 429
    desk.hand.advance(25 * 3600 + 1)
    await desk.flood(desk.client_id)
    assert (await desk.send(body)).status == 429
    desk.hand.advance(60)
    assert (await desk.send(body)).status == 200


async def test_only_failed_authentications_count(desk: Desk) -> None:
    """Malformed requests, refused codes and refused refresh tokens of a client do not."""
    body = {**await desk.family(), "refresh_token": "TG-1"}
    for _ in range(4):
        assert (await desk.send(body)).code == "invalid_grant"
        assert (await desk.send({"client_id": UNKNOWN})).code == "invalid_request"
    assert await desk.junk(UNKNOWN) == (400, "invalid_client")


async def test_throttling_precedes_every_other_check(desk: Desk) -> None:
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
    basic = {"Authorization": f"Basic {base64.b64encode(f'{UNKNOWN}:a guess'.encode()).decode()}"}
    for body in ({}, {"client_id": UNKNOWN}):
        reply = await desk.send(body, headers=basic)
        assert (reply.status, reply.code) == LIMITED


async def test_without_a_readable_client_id_row_2_answers(desk: Desk) -> None:
    """A throttled address still gets the error of its request."""
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
    """Twenty at once, including that of the first tokens; then one more every 0.1 s."""
    body = await desk.family()
    answers = [await desk.send(body) for _ in range(20)]
    assert [answer.status for answer in answers] == [200] * 19 + [429]
    assert answers[-1].headers["retry-after"] == "1"
    desk.hand.advance(0.1)
    assert [(await desk.send(body)).status for _ in range(2)] == [200, 429]
    other = await make_scene(desk.service.database)
    other.clock = desk.scene.clock
    assert (await desk.send(other.exchange(await other.code()))).status == 200


async def test_the_request_rate_is_checked_between_secret_and_suspension(desk: Desk) -> None:
    """A wrong secret is refused as such, and a suspended client must wait first."""
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


async def test_concurrent_requests_count_each(desk: Desk) -> None:
    """Of sixty concurrent refreshes twenty less the first are answered, on either database."""
    body = await desk.family()
    answers = await asyncio.gather(*(desk.send(body) for _ in range(60)))
    assert sorted(answer.status for answer in answers) == [200] * 19 + [429] * 41


async def test_concurrent_failures_are_counted_afterwards(desk: Desk) -> None:
    """Concurrent failures are all answered, and each delays the next attempt."""
    answers = await asyncio.gather(*(desk.junk(desk.client_id) for _ in range(8)))
    assert {status for status, _ in answers} <= {400, 429}
    failed = sum(status == 400 for status, _ in answers)
    assert failed >= 3
    assert desk.throttle.refusal(int(desk.client_id), HOME) == 20 * (min(failed, 6) - 2)


async def test_zero_is_off(database: Database) -> None:
    """With zero nothing is limited."""
    rates = ClientRates(pair_per_minute=0, address_per_minute=0, requests_per_second=0, known_hours=0)
    async with open_desk(database, rates) as desk:
        assert await desk.flood(desk.client_id, count=40) == [400] * 40
        body = await desk.family()
        for _ in range(10):
            # More at once would be refused while the machine does nothing for a second.
            answers = await asyncio.gather(*(desk.send(body) for _ in range(PROBES_MAX - 1)))
            assert {answer.status for answer in answers} == {200}


async def test_forwarded_addresses_count_only_from_trusted_proxies(database: Database) -> None:
    """Any other client is counted under its own address."""
    async with open_desk(database, trusted_proxies=()) as desk:
        addresses = [f"203.0.113.{number}" for number in range(4)]
        assert [(await desk.junk(UNKNOWN, address))[0] for address in addresses] == [400, 400, 400, 429]


@asynccontextmanager
async def closing(database: Database) -> AsyncIterator[None]:
    """Close the database at the end."""
    yield
    await database.close()


async def test_a_client_known_to_one_node_is_known_to_all(postgres_url: str) -> None:
    """After an authentication at one node, failures from the same address at another do not lock it out."""
    settings = Settings(trusted_proxies=("127.0.0.1",), client_failures_per_minute=3)
    database = await open_database(postgres_url)
    async with closing(database), two_nodes(database, postgres_url, settings=settings) as (first, second):
        one, other = (Desk(node, HandClock(), ClientThrottle(RATES)) for node in (first, second))
        assert await other.flood(other.client_id, count=4) == [400, 400, 400, 429]
        body = await one.family()

        async def is_known() -> bool:
            await other.flood(other.client_id, count=2)
            return (await other.send(body)).status == 200

        await until_found(is_known)
