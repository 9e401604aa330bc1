"""What is not logged request by request: polls that found nothing, passed health checks, repeated refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog

from moved_time import advance
from paydesk.platform.http.refusals.repeated import INTERVAL_SECONDS
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Service, running
from waiting import until

Lines = list[Any]
HEALTH = ("/livez", "/readyz", "/livez?wait=soon")


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service with the default settings."""
    async with running(database, settings=Settings(log_each_refusal=False), workers=False) as service:
        yield service


@pytest.fixture
def lines(service: Service) -> Iterator[Lines]:
    """Every line that the log gets from here on."""
    assert service
    with structlog.testing.capture_logs() as logged:
        yield logged


def requests(lines: Lines) -> list[tuple[str, int]]:
    """The paths and the statuses of the requests that have a line."""
    return [(line["path"], line["status"]) for line in lines if line["event"] == "request"]


async def poll(service: Service) -> None:
    """Poll for a message and for events in vain, and check the health."""
    device = await service.device(await service.terminal())
    assert (await device.next(wait=0)).status == 204
    assert (await service.request("GET", "/v1/events")).body["data"] == []
    for path in HEALTH:
        assert (await service.request("GET", path, token=None)).status == 200


async def test_polls_that_find_nothing_and_passed_health_checks_have_no_line(service: Service, lines: Lines) -> None:
    """By default: idle terminals would fill the disk."""
    await poll(service)
    assert requests(lines) == [("/device/v1/hello", 200)]


async def test_log_polls_brings_them_back(database: Database) -> None:
    """Each with its line."""
    async with running(database, settings=Settings(log_polls=True), workers=False) as service:
        with structlog.testing.capture_logs() as lines:
            await poll(service)
        paths = [path for path, _ in requests(lines)]
        assert paths == ["/device/v1/hello", "/device/v1/next", "/v1/events", "/livez", "/readyz", "/livez"]


async def test_polls_that_find_something_and_refused_ones_have_a_line(service: Service, lines: Lines) -> None:
    """As every other request."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    assert (await service.create(terminal)).status == 201
    assert (await device.next(wait=0)).status == 200
    assert len((await service.request("GET", "/v1/events")).body["data"]) == 1
    for path in ("/v1/events?wait=soon", "/v1/events?after=unknown"):
        assert (await service.request("GET", path)).status == 400
    assert requests(lines)[1:] == [
        ("/v1/orders", 201),
        ("/device/v1/next", 200),
        ("/v1/events", 200),
        ("/v1/events", 400),
        ("/v1/events", 400),
    ]


async def test_a_slow_poll_has_a_line(service: Service, lines: Lines) -> None:
    """One that took a second longer than it was to wait; the time it was to wait is not slow."""
    device = await service.device(await service.terminal())
    for seconds, paths in ((40, []), (42, [("/device/v1/next", 204)])):
        waiting = asyncio.create_task(device.next(wait=40))
        await service.polls(device.terminal)
        advance(seconds)
        assert (await waiting).status == 204
        assert requests(lines)[1:] == paths


async def test_repeated_refusals_are_counted(service: Service, lines: Lines) -> None:
    """By the error and the caller, whether it is unknown or its token was valid once."""
    await service.scene.revoke(service.access_token)
    ids = {"application_id": service.scene.application.application_id, "seller_id": service.seller_id}
    for _ in range(4):
        assert (await service.request("GET", "/terminals/v1/list")).status == 401
        assert (await service.request("GET", "/terminals/v1/list", token="TEST-1")).status == 401
        assert (await service.request("GET", "/nowhere")).status == 404
        assert (await service.request("GET", "/terminals/v1/list", headers={"Host": "elsewhere.example"})).status == 421
    assert [status for _, status in requests(lines)] == [401, 401, 404, 421]
    lines.clear()
    advance(INTERVAL_SECONDS)
    await until(lambda: len(lines) == 4)
    common = {"event": "requests_refused", "log_level": "info", "count": 3, "within_seconds": INTERVAL_SECONDS}
    unknown = {**common, "address": "127.0.0.1"}
    assert sorted(lines, key=lambda line: (line["error"], len(line))) == [
        {**unknown, "error": "misdirected_request"},
        {**unknown, "error": "not_found"},
        {**unknown, "error": "unauthorized"},
        {**common, "error": "unauthorized", **ids},
    ]


async def test_malformed_requests_and_wrong_secrets_are_counted(service: Service, lines: Lines) -> None:
    """Of a wrong secret the line names the client, as that of the first request does."""
    scene = service.scene
    wrong = {**scene.exchange("TG-1"), "client_secret": "wrong"}
    for _ in range(3):
        assert (await service.request("POST", "/oauth/token", wrong, token=None, key=None)).code == "invalid_client"
        assert (
            await service.request("POST", "/oauth/token", data=b"{", token=None, key=None)
        ).code == "invalid_request"
    assert [(line["error"], line.get("client_id")) for line in lines] == [
        ("invalid_client", scene.application.application_id),
        ("invalid_request", None),
    ]
    assert "wrong" not in str(lines)


async def test_refusals_of_orders_have_a_line_each(service: Service, lines: Lines) -> None:
    """A conflict, an unknown order and a field that is not allowed, however often."""
    terminal = await service.terminal()
    assert (await service.create(terminal)).status == 201
    for _ in range(2):
        assert (await service.create(terminal)).status == 409
        assert (await service.create(terminal, amount="0.00")).status == 400
        assert (await service.request("GET", "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3")).status == 404
    assert [status for _, status in requests(lines)] == [201, *(409, 400, 404) * 2]


async def test_a_developer_sees_each_refusal(database: Database) -> None:
    """`paydesk dev` counts none."""
    async with running(database, development=True, workers=False) as service:
        with structlog.testing.capture_logs() as lines:
            for _ in range(3):
                await service.request("GET", "/terminals/v1/list", token="TEST-1")
        assert [status for _, status in requests(lines)] == [401] * 3
