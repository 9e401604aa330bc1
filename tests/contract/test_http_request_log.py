"""A request's line in the log has the client's address and, where known, the ids of the caller."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog

from event_loops import turns
from kept_logging import kept_logging
from moved_time import advance
from operator_calls import operator
from page_scene import Browser, authorization, browser
from paydesk.core.clock import MovableClock
from paydesk.platform import logs
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from raw_http import head, wire
from service import Service, running
from tables import each
from waiting import until

CLIENT = "203.0.113.9"
FORWARDED = {"X-Forwarded-For": f"198.51.100.1, {CLIENT}"}
HEAD_SECONDS = 120
IDS = ("application_id", "seller_id", "terminal_id", "operator_id", "client_id")

Lines = list[Any]


@pytest.fixture
async def service(database: Database, clock: MovableClock) -> AsyncIterator[Service]:
    """A service behind a trusted proxy."""
    settings = Settings(trusted_proxies=("127.0.0.1",), head_timeout_seconds=HEAD_SECONDS, log_polls=True)
    async with running(database, clock=clock, settings=settings, workers=False) as service:
        service.scene.clock = clock
        yield service


@pytest.fixture
def lines(service: Service) -> Iterator[Lines]:
    """Every line that the log gets from here on."""
    assert service
    with structlog.testing.capture_logs() as logged:
        yield logged


def last(lines: Lines) -> dict[str, Any]:
    """The newest line of a request: its status, its address and the ids in it."""
    line = [line for line in lines if line["event"] == "request"][-1]
    return {name: line[name] for name in ("status", "address", *IDS) if name in line}


async def asked(service: Service, lines: Lines, method: str, path: str, body: Any = None, **options: Any) -> Any:
    """What the line of this request says."""
    await service.request(method, path, body, headers=FORWARDED, **options)
    return last(lines)


async def test_the_log_line_of_an_application(service: Service, lines: Lines) -> None:
    """Application and seller of its token, whether the request is done or refused."""
    ids = {"application_id": service.scene.application.application_id, "seller_id": service.seller_id}
    for path, status in (("/terminals/v1/list", 200), ("/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3", 404)):
        assert await asked(service, lines, "GET", path) == {"status": status, "address": CLIENT, **ids}


async def test_the_log_line_of_an_expired_token(service: Service, lines: Lines) -> None:
    """The line has the ids of its owner; that of an unknown token has none."""
    ids = {"application_id": service.scene.application.application_id, "seller_id": service.seller_id}
    await service.scene.revoke(service.access_token)
    assert await asked(service, lines, "GET", "/terminals/v1/list") == {"status": 401, "address": CLIENT, **ids}
    unknown = service.access_token.replace("TEST", "APP_USR")
    logged = await asked(service, lines, "GET", "/terminals/v1/list", token=unknown)
    assert logged == {"status": 401, "address": CLIENT}


async def test_the_log_line_of_the_token_endpoints(service: Service, lines: Lines) -> None:
    """The client once its secret was right, the seller once the code or token was found.

    With a wrong secret the client that the request named, if there is such a client.
    """
    scene = service.scene
    client = {"application_id": scene.application.application_id}
    seller = {"seller_id": scene.seller.seller_id}

    async def posted(path: str, body: dict[str, Any]) -> Any:
        return await asked(service, lines, "POST", f"/oauth/{path}", body, token=None, key=None)

    code = await scene.code()
    wrong = {**scene.exchange(code), "client_secret": "wrong"}
    named = {"client_id": scene.application.application_id}
    assert await posted("token", wrong) == {"status": 400, "address": CLIENT, **named}
    assert await posted("token", wrong | {"client_id": "4111111111111111"}) == {"status": 400, "address": CLIENT}
    assert await posted("token", scene.exchange("TG-1")) == {"status": 400, "address": CLIENT, **client}
    assert await posted("token", scene.exchange(code)) == {"status": 200, "address": CLIENT, **client, **seller}
    tokens = await scene.tokens()
    refresh = scene.refresh(tokens["refresh_token"])
    for _ in range(2):
        assert await posted("token", refresh) == {"status": 200, "address": CLIENT, **client, **seller}
    presented = scene.presented(tokens["access_token"])
    for path in ("introspect", "revoke"):
        assert await posted(path, presented) == {"status": 200, "address": CLIENT, **client, **seller}


async def test_a_terminal(service: Service, lines: Lines) -> None:
    """The terminal and its seller, also where its token was revoked more than 7 days ago."""
    device = await service.device(await service.terminal())
    ids = {"seller_id": service.seller_id, "terminal_id": device.terminal.id}
    path, token = f"/device/v1/next?boot_id={device.boot_id}", device.terminal.token
    assert await asked(service, lines, "GET", path, token=token) == {"status": 204, "address": CLIENT, **ids}
    await service.scene.run("UPDATE device_tokens SET revoked_ms = 1")
    service.database.signals.notify((f"device:{device.terminal.id}",))
    assert await asked(service, lines, "GET", path, token=token) == {"status": 401, "address": CLIENT, **ids}


async def test_the_log_line_of_an_operator(service: Service, lines: Lines) -> None:
    """The operator's id."""
    person = await operator(service)
    logged = await asked(service, lines, "GET", "/operator/v1/applications", token=person.token)
    assert logged == {"status": 200, "address": CLIENT, "operator_id": person.operator_id}


async def test_the_log_line_of_a_revoked_token_of_an_operator(service: Service, lines: Lines) -> None:
    """The operator who had it; the response is that to an unknown token."""
    person = await operator(service)
    await service.scene.run("UPDATE operators SET revoked_ms = 1")
    logged = await asked(service, lines, "GET", "/operator/v1/applications", token=person.token)
    assert logged == {"status": 401, "address": CLIENT, "operator_id": person.operator_id}
    unknown = "PDO-" + "0" * 40
    path = "/operator/v1/applications"
    refused, revoked = [await service.request("GET", path, token=token) for token in (unknown, person.token)]
    assert (refused.status, refused.body) == (revoked.status, revoked.body)
    assert last(lines) == {"status": 401, "address": "127.0.0.1", "operator_id": person.operator_id}
    assert "operator_id" not in last(lines[:-1])


async def test_no_client_keeps_its_requests_out_of_the_log(service: Service, lines: Lines) -> None:
    """A header of the console's pages has no effect on the interfaces."""
    person = await operator(service)
    headers = {**FORWARDED, "X-Paydesk-Background": "true"}
    await service.request("GET", "/operator/v1/applications", token=person.token, headers=headers)
    assert last(lines) == {"status": 200, "address": CLIENT, "operator_id": person.operator_id}
    await service.request("GET", "/terminals/v1/list", headers=headers)
    assert last(lines)["application_id"]


async def test_the_log_line_of_a_seller_in_a_browser(service: Service, lines: Lines) -> None:
    """Not before the password was right; then with every page."""
    visitor: Browser = await browser(service, **FORWARDED)
    path = authorization(service)
    assert (await visitor.sign_in(path, password="wrong")).status == 403
    assert last(lines) == {"status": 403, "address": CLIENT}
    await visitor.sign_in(path)
    assert last(lines) == {"status": 303, "address": CLIENT, "seller_id": service.seller_id}
    await visitor.get(path)
    assert last(lines) == {"status": 200, "address": CLIENT, "seller_id": service.seller_id}


CARD = "4111111111111111"
HEX40 = "0123456789" * 4
LIKE_AN_ORDER = f"/v1/orders/ORD0{CARD}AAAAAAAAA"


@each(
    "path, headers, status",
    [
        (LIKE_AN_ORDER, {}, 404),
        (LIKE_AN_ORDER.lower(), {}, 404),
        (f"{LIKE_AN_ORDER}/cancel", {}, 405),
        (f"/v1/orders/{HEX40}", {}, 400),
        (f"/v1/orders/TG-{HEX40}-1", {}, 400),
        (f"/v1/orders/%25{CARD}", {}, 400),
        ("/terminals/v1/list", {"X-Request-Id": HEX40}, 200),
        (f"/terminals/v1/list?token=TG-{HEX40}-1", {}, 200),
        (LIKE_AN_ORDER, {"X-Request-Id": f"TG-{HEX40}-1"}, 404),
        (f"/{HEX40}", {"X-Request-Id": CARD}, 404),
    ],
)
async def test_what_a_client_sent_is_masked(service: Service, path: str, headers: dict[str, str], status: int) -> None:
    """Also a path that looks like the one of an order, if there is no such order."""
    with kept_logging():
        stream = io.StringIO()
        logs.configure("json", stream)
        assert (await service.request("GET", path, headers=headers)).status == status
        await turns()
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["status"] == status
    assert CARD not in line
    assert HEX40 not in line


async def test_the_path_of_an_order_and_our_request_id_are_not_masked(service: Service) -> None:
    """The line has both as they are."""
    created = await service.create(await service.terminal())
    with kept_logging():
        stream = io.StringIO()
        logs.configure("json", stream)
        answer = await service.request("GET", f"/v1/orders/{created.body['id']}")
        await turns()
    line = json.loads(stream.getvalue())
    assert line["path"] == f"/v1/orders/{created.body['id']}"
    assert line["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("everywhere", ["", "yes"])
async def test_the_log_line_of_a_sign_out(service: Service, lines: Lines, everywhere: str) -> None:
    """The seller whose session it ended; the same form sent again ends none."""
    visitor: Browser = await browser(service, **FORWARDED)
    await visitor.sign_in("/applications")
    form = (await visitor.get("/applications")).form("/sign-out")
    again = Browser(service, visitor.headers, dict(visitor.cookies))
    await visitor.submit(form, everywhere=everywhere)
    assert last(lines) == {"status": 303, "address": CLIENT, "seller_id": service.seller_id}
    await again.submit(form, everywhere=everywhere)
    assert "seller_id" not in last(lines)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("PUT", "/v1/orders", {}, 405),
        ("GET", "/point/integration-api/devices", {}, 410),
        ("GET", "/terminals/v1/list", {"Host": "elsewhere.example"}, 421),
    ],
)
async def test_the_log_line_of_a_refusal_before_any_handler(
    service: Service, lines: Lines, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """It has the client's address too."""
    await service.request(method, path, headers={**FORWARDED, **headers})
    assert last(lines) == {"status": status, "address": CLIENT}


async def test_the_log_line_of_malformed_http(service: Service, lines: Lines) -> None:
    """A refusal by the server itself: the address by the header fields that had come, else that of the connection."""
    forwarded = f"X-Forwarded-For: {CLIENT}"
    large = head("GET", "/nowhere", forwarded, *(f"X-{number}: {'x' * 3000}" for number in range(6)))
    for request, status, address in (
        (head("GET", "/nowhere", forwarded, "Content-Length: 1", "Content-Length: 2"), 400, CLIENT),
        (large, 431, CLIENT),
        (b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n" + forwarded.encode() + b"\r\nX-Half: ", 408, CLIENT),
        (b"\x16\x03\x01\r\n\r\n", 400, "127.0.0.1"),
    ):
        async with wire(service) as connection:
            await connection.send(request)
            if status == 408:
                await until(lambda: service.gauges.requests_arriving == 1)
                advance(HEAD_SECONDS)
            assert (await connection.answer()).status == status
        assert last(lines) == {"status": status, "address": address}


async def test_only_trusted_proxies_can_report_addresses(database: Database) -> None:
    """Without any the address is that of the connection, whatever a client says."""
    async with running(database, workers=False) as service:
        with structlog.testing.capture_logs() as lines:
            for path in ("/terminals/v1/list", "/nowhere"):
                await service.request("GET", path, headers=FORWARDED)
                assert last(lines)["address"] == "127.0.0.1"


LIKE_A_CARD_NUMBER = "a9bd:8581:ef41:6932:1891:631b:5bc:87ae"


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        ("x" * 1000, "127.0.0.1"),
        ("4111111111111111", "127.0.0.1"),
        (f"[{LIKE_A_CARD_NUMBER}]:4711", LIKE_A_CARD_NUMBER),
    ],
)
async def test_only_an_ip_address_is_taken_from_a_proxy(service: Service, lines: Lines, sent: str, logged: str) -> None:
    """It is logged unmasked; otherwise the proxy counts as the client."""
    await service.request("GET", "/nowhere", headers={"X-Forwarded-For": sent})
    assert last(lines)["address"] == logged
