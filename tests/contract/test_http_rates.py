"""Rate limits of bearers: requests of a token, and unknown tokens from an address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from accounts import other_application, other_seller, with_scope
from hand_clock import HandClock
from moved_time import advance
from paydesk.core.limits.throttle_log import ThrottleLog
from paydesk.engine.oauth import bearer
from paydesk.platform.http.rate_limit import BearerRates
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Reply, Service, running
from waiting import until

HOME, ELSEWHERE = "198.51.100.1", "203.0.113.9"
UNKNOWN = "APP_USR-3676047501096810-091211-fbad3ab32ad4f89bf1c385141ba5626a-1160535239"
TERMINALS = "/terminals/v1/list"


@dataclass
class Desk:
    """A service with small rates."""

    service: Service
    hand: HandClock

    async def get(self, token: str | None = "", path: str = TERMINALS, address: str = HOME, **options: Any) -> Reply:
        """One request, by way of the proxy."""
        headers = {"X-Forwarded-For": address, **options.pop("headers", {})}
        return await self.service.request("GET", path, token=token, headers=headers, **options)

    async def statuses(self, count: int, token: str | None = "", **options: Any) -> list[int]:
        """So many requests, one after the other."""
        return [(await self.get(token, **options)).status for _ in range(count)]


@asynccontextmanager
async def open_desk(database: Database, **rates: int) -> AsyncIterator[Desk]:
    """A desk until the block ends."""
    hand = HandClock()
    chosen: dict[str, Any] = {
        "token_requests_per_second": 10,
        "token_requests_burst": 5,
        "bearer_failures_per_minute": 6,
        **rates,
    }
    rates_by_hand = BearerRates(Settings(**chosen), ThrottleLog(), monotonic=hand)
    settings = Settings(trusted_proxies=("127.0.0.1",))
    async with running(database, settings=settings, workers=False, bearer_rates=rates_by_hand) as service:
        yield Desk(service, hand)


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    """Ten calls a second with a burst of five, six failures a minute."""
    async with open_desk(database) as opened:
        yield opened


async def test_a_token_has_its_burst_and_its_rate(desk: Desk) -> None:
    """Five at once, then one each tenth of a second; every other token has its own."""
    assert await desk.statuses(6) == [200] * 5 + [429]
    refused = await desk.get()
    assert (refused.code, refused.headers["retry-after"]) == ("too_many_requests", "1")
    desk.hand.advance(0.1)
    assert await desk.statuses(2) == [200, 429]
    assert await desk.statuses(1, desk.service.live_access_token) == [200]
    assert (await desk.get(address=ELSEWHERE)).status == 429


async def test_tokens_of_an_application_and_seller_share_a_limit(database: Database) -> None:
    """Eight at once with two tokens of five each; others have their own, and a refused request takes nothing."""
    async with open_desk(database, application_requests_per_second=10, application_requests_burst=8) as desk:
        service = desk.service
        with structlog.testing.capture_logs() as logged:
            assert await desk.statuses(5) == [200] * 5
            second = await with_scope(service, "read")
            assert await desk.statuses(6, second) == [200] * 3 + [429] * 3
        refused = await desk.get(second)
        assert (refused.code, refused.headers["retry-after"]) == ("too_many_requests", "1")
        facts = {"application_id": str(service.scene.application.application_id), "seller_id": str(service.seller_id)}
        (line,) = [line for line in logged if line["event"] == "throttled"]
        assert line == {
            "event": "throttled",
            "log_level": "warning",
            "count": 1,
            "what": "application_requests",
            **facts,
        }
        for other in (await other_seller(service), await other_application(service)):
            assert await desk.statuses(2, other.access_token) == [200] * 2
        desk.hand.advance(0.1)
        assert await desk.statuses(2, second) == [200, 429]


async def test_the_rate_limit_is_checked_between_token_and_scope(desk: Desk) -> None:
    """After the suspension, before the scope and all that follows it."""
    lacks_read = await with_scope(desk.service, "write")
    assert await desk.statuses(6, lacks_read) == [403] * 5 + [429]
    await desk.statuses(5)
    reply = await desk.service.request("POST", "/v1/orders", data=b"{", key="k" * 65)
    assert reply.code == "too_many_requests"
    await desk.service.scene.run("UPDATE sellers SET suspended_ms = 1")
    desk.service.database.signals.notify(("sellers",))
    assert (await desk.get()).code == "forbidden"


async def test_guesses_of_an_address_are_counted_together(desk: Desk) -> None:
    """Six invalid tokens a minute get 401, then 429 with a wait of at most 5 s."""
    guesses: list[str | None] = [None, UNKNOWN, "TEST-1", "PDT-1", "PDO-" + "0" * 40, UNKNOWN.replace("f", "0")]
    assert [(await desk.get(guess)).status for guess in guesses] == [401] * 6
    refused = await desk.get(UNKNOWN)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "too_many_requests", "5")
    assert "www-authenticate" not in refused.headers
    assert (await desk.get(UNKNOWN, address=ELSEWHERE)).status == 401
    desk.hand.advance(10)
    assert await desk.statuses(2, UNKNOWN) == [401, 429]


async def test_a_valid_token_is_not_limited_by_failures_of_its_address(desk: Desk) -> None:
    """One that was never seen on this node before comes through an address that fails without end."""
    assert await desk.statuses(20, UNKNOWN) == [401] * 6 + [429] * 14
    assert (await desk.get()).status == 200
    other = await other_seller(desk.service)
    assert (await desk.get(other.access_token)).status == 200


async def test_an_expired_token_is_reported_despite_guesses_from_its_address(desk: Desk) -> None:
    """Expired and revoked ones are no guesses: beside neighbours that fail they still get 401, as many as one may."""
    await desk.statuses(7, UNKNOWN)
    other = await other_seller(desk.service)
    now_ms = desk.service.clock.now_ms()
    await desk.service.scene.run(
        "UPDATE access_tokens SET expires_ms = $1 WHERE seller_id = $2", now_ms, other.seller_id
    )
    await desk.service.scene.run(
        "UPDATE token_families SET revoked_ms = $1 WHERE seller_id = $2", now_ms, desk.service.seller_id
    )
    assert await desk.statuses(7, other.access_token) == [401] * 6 + [429]
    assert await desk.statuses(7) == [401] * 6 + [429]
    assert (await desk.get(UNKNOWN)).status == 429


@pytest.mark.parametrize("path", ["/device/v1/next?wait=0", "/operator/v1/applications"])
async def test_terminals_and_operators_fail_by_address_too(desk: Desk, path: str) -> None:
    """Guesses on their surfaces count with the others, and good tokens are let in beside them."""
    assert await desk.statuses(3, UNKNOWN) == [401] * 3
    assert await desk.statuses(4, UNKNOWN, path=path) == [401] * 3 + [429]
    terminal = await desk.service.terminal()
    device = await desk.service.device(terminal)
    for _ in range(10):
        assert (await device.next(0)).status == 204


async def test_the_log_names_the_terminal_that_calls_too_often(database: Database) -> None:
    """The limit is an identifier, and the terminal's id is no address."""
    async with open_desk(database, device_requests_burst=2) as desk:
        terminal = await desk.service.terminal()
        device = await desk.service.device(terminal)
        with structlog.testing.capture_logs() as logged:
            assert [(await device.next(0)).status for _ in range(2)] == [204, 429]
    (line,) = [line for line in logged if line["event"] == "throttled"]
    facts = {"what": "device_requests", "terminal_id": terminal.id, "count": 1}
    assert line == {"event": "throttled", "log_level": "warning", **facts}


async def test_a_device_token_has_its_burst_and_its_rate(database: Database) -> None:
    """Three at once, then one each tenth of a second, whatever is called; each terminal by itself, results too."""
    async with open_desk(database, device_requests_per_second=10, device_requests_burst=3) as desk:
        terminal, other = await desk.service.terminal(), await desk.service.terminal()
        device = await desk.service.device(terminal)
        assert [(await device.next(0)).status for _ in range(3)] == [204, 204, 429]
        for refused in (
            await device.ack("01J67CQQH5904WDBVZEM4JMEP3"),
            await device.approve("01J67CQQH5904WDBVZEM4JMEP3"),
        ):
            assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "too_many_requests", "1")
        assert (await (await desk.service.device(other)).next(0)).status == 204
        assert (await desk.get()).status == 200
        desk.hand.advance(0.1)
        assert [(await device.next(0)).status for _ in range(2)] == [204, 429]


async def test_a_rate_limited_result_is_recorded_later(database: Database) -> None:
    """429 has changed nothing: the terminal repeats the result and it counts."""
    async with open_desk(database, device_requests_per_second=10, device_requests_burst=3) as desk:
        terminal = await desk.service.terminal()
        device = await desk.service.device(terminal)
        order_id = (await desk.service.create(terminal)).body["id"]
        await device.ack(order_id[3:])
        await device.authorizing(order_id[3:])
        assert (await device.approve(order_id[3:])).status == 429
        assert (await desk.service.get(order_id))["status"] == "at_terminal"
        desk.hand.advance(0.1)
        assert (await device.approve(order_id[3:])).status == 200
        assert (await desk.service.get(order_id))["status"] == "processed"


async def test_a_rate_limited_poll_does_not_end_another(database: Database) -> None:
    """The one that waits goes on; it ends with 204 once a newer one is let in."""
    async with open_desk(database, device_requests_per_second=10, device_requests_burst=2) as desk:
        device = await desk.service.device(await desk.service.terminal())
        signals, topic = database.signals, f"terminal:{device.terminal.id}"
        waiting = asyncio.create_task(device.next(20))
        await until(lambda: signals.waiting(topic) == 1)
        assert (await device.next(20)).status == 429
        assert signals.waiting(topic) == 1
        assert not waiting.done()
        desk.hand.advance(0.1)
        newer = asyncio.create_task(device.next(1))
        assert (await waiting).status == 204
        await until(lambda: signals.waiting(topic) == 1)
        advance(1)
        assert (await newer).status == 204


async def test_zero_turns_the_limit_off(database: Database) -> None:
    """Any number of calls, good ones and guesses."""
    off = ("token_requests_per_second", "application_requests_per_second", "device_requests_per_second")
    rates = {**dict.fromkeys(off, 0), "bearer_failures_per_minute": 0, "application_requests_burst": 1}
    async with open_desk(database, **rates) as desk:
        device = await desk.service.device(await desk.service.terminal())
        assert [(await device.next(0)).status for _ in range(50)] == [204] * 50
        assert await desk.statuses(50) == [200] * 50
        assert await desk.statuses(50, UNKNOWN) == [401] * 50


async def test_a_token_evicted_from_the_cache_keeps_its_bucket(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a bearer is looked up anew gives it no new burst."""
    monkeypatch.setattr(bearer, "ENTRIES_MAX", 1)
    async with open_desk(database) as desk:
        assert await desk.statuses(5) == [200] * 5
        assert await desk.statuses(1, desk.service.live_access_token) == [200]
        assert await desk.statuses(1) == [429]


async def test_the_limits_follow_the_settings(database: Database) -> None:
    """What the settings say is what a service without further ado does."""
    settings = Settings(
        token_requests_per_second=1,
        token_requests_burst=3,
        application_requests_per_second=1,
        application_requests_burst=4,
        device_requests_per_second=1,
        device_requests_burst=2,
        bearer_failures_per_minute=2,
    )
    async with running(database, settings=settings, workers=False) as service:
        desk = Desk(service, HandClock())
        assert await desk.statuses(3) == [200] * 3
        assert await desk.statuses(2, service.live_access_token) == [200, 429]
        device = await service.device(await service.terminal())
        assert [(await device.next(0)).status for _ in range(2)] == [204, 429]
        assert await desk.statuses(3, UNKNOWN) == [401, 401, 429]
