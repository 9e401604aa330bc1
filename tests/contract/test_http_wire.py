"""HTTP on raw connections: slow, too large, ambiguous and malformed requests, and connection limits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import urllib.parse
from collections.abc import AsyncIterator

import pytest

from event_loops import passes_until
from moved_time import advance
from paydesk.platform.http.server import connection_limits, server
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from raw_http import Wire, exchange, head, wire
from service import Reply, Service, order_body, running
from tables import each
from waiting import until

ORDER = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"
KIB = 1024
SLOW_SECONDS = 120
"""The time for a head and for a body: longer than a test takes, which moves time instead."""
POLL_SECONDS = 9
NEVER_SECONDS = 1_000_000_000


@pytest.fixture
async def service(sqlite_url: str) -> AsyncIterator[Service]:
    """A service with few connections, on SQLite."""
    settings = Settings(
        head_timeout_seconds=SLOW_SECONDS,
        body_timeout_seconds=SLOW_SECONDS,
        keep_alive_seconds=10 * SLOW_SECONDS,
        connections_max=20,
    )
    database = await open_database(sqlite_url)
    async with running(database, settings=settings, workers=False) as service:
        yield service
    await database.close()


def _bearer(service: Service) -> str:
    return f"Authorization: Bearer {service.access_token}"


def _get(service: Service, *fields: str, path: str = ORDER) -> bytes:
    return head("GET", path, _bearer(service), *fields)


def _post(service: Service, *fields: str, path: str = f"{ORDER}/cancel") -> bytes:
    return head("POST", path, _bearer(service), "X-Idempotency-Key: key", "Content-Type: application/json", *fields)


def _is(reply: Reply, status: int, code: str) -> bool:
    """Return whether it is this error in the common format, with the common headers."""
    return (
        (reply.status, reply.code, reply.headers["content-type"]) == (status, code, "application/json")
        and reply.body["errors"][0]["code"] == code
        and reply.body["cause"][0] == {"code": code, "description": reply.body["message"]}
        and len(reply.headers["x-request-id"]) == 36
    )


async def test_a_slow_head_returns_408(service: Service) -> None:
    """The timeout begins with a head and applies to trickling ones too, also on a reused connection.

    A connection without a request is closed after the same timeout, without an answer.
    """
    async with wire(service) as silent, wire(service) as fresh, wire(service) as used:
        await used.send(_get(service))
        assert (await used.answer()).status == 404
        await until(lambda: service.gauges.connections_open == 3)
        advance(0.5 * SLOW_SECONDS)
        for connection in (fresh, used):
            await connection.send(b"GET / HT")
        await until(lambda: service.gauges.requests_arriving == 2)
        advance(0.6 * SLOW_SECONDS)
        assert await silent.is_closed()
        assert service.gauges.requests_arriving == 2
        for connection in (fresh, used):
            await connection.send(b"TP/1.1\r\n")
        advance(0.6 * SLOW_SECONDS)
        for connection in (fresh, used):
            assert _is(await connection.answer(), 408, "request_timeout")
            assert await connection.is_closed()


async def test_a_slow_body_returns_408(service: Service) -> None:
    """With a length and in chunks; nothing is done."""
    terminal = await service.terminal()
    for framing, part in (("Content-Length: 500", b'{"type": "poi'), ("Transfer-Encoding: chunked", b"3\r\n{  \r\n")):
        async with wire(service) as connection:
            await connection.send(_post(service, framing, path="/v1/orders") + part)
            await until(lambda: service.gauges.requests_arriving == 1)
            advance(SLOW_SECONDS)
            assert _is(await connection.answer(), 408, "request_timeout")
            assert await connection.is_closed()
    assert (await service.create(terminal)).status == 201


async def test_an_idle_connection_stays_open(service: Service) -> None:
    """The request timeouts do not apply between requests."""
    async with wire(service) as silent, wire(service) as connection:
        await connection.send(_get(service))
        assert _is(await connection.answer(), 404, "order_not_found")
        advance(1.4 * SLOW_SECONDS)
        assert await silent.is_closed()
        await connection.send(_get(service))
        assert _is(await connection.answer(), 404, "order_not_found")


async def test_a_missing_body_after_its_refusal(service: Service) -> None:
    """A request refused before its body is complete gets one answer, and the connection ends."""
    async with wire(service) as connection:
        await connection.send(_post(service, f"Content-Length: {64 * KIB + 1}"))
        assert _is(await connection.answer(), 413, "payload_too_large")
        advance(SLOW_SECONDS)
        assert await connection.is_closed()


async def test_large_bodies(service: Service) -> None:
    """64 KiB are accepted, one byte more is refused: by its Content-Length, otherwise while reading."""
    for size, code in ((64 * KIB, "order_not_found"), (64 * KIB + 1, "payload_too_large")):
        body = b"{}" + b" " * (size - 2)
        assert (await exchange(service, _post(service, f"Content-Length: {size}") + body)).code == code
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (size, body)
        assert (await exchange(service, _post(service, "Transfer-Encoding: chunked") + chunked)).code == code
    huge = await exchange(service, _post(service, f"Content-Length: {10**15}"))
    assert _is(huge, 413, "payload_too_large")
    endless = await exchange(
        service,
        _post(service, "Transfer-Encoding: chunked") + b"8000\r\n" + b" " * 0x8000 + b"\r\n8001\r\n" + b" " * 0x8001,
    )
    assert _is(endless, 413, "payload_too_large")


async def test_large_heads(service: Service) -> None:
    """100 header fields, 16 KiB of them and 8 KiB of URL are read; more is refused and the connection ends."""
    fields = [f"X-{number}: y" for number in range(98)]
    assert (await exchange(service, _get(service, *fields))).status == 404
    long_url = f"{ORDER}?{'q' * (8 * KIB - len(ORDER) - 1)}"
    assert (await exchange(service, _get(service, path=long_url))).status == 404
    assert (await exchange(service, _get(service, "X-Long: " + "y" * (15 * KIB)))).status == 404
    for request, status, code in (
        (_get(service, *fields, "X-Last: y"), 431, "headers_too_large"),
        (_get(service, "X-Long: " + "y" * (16 * KIB)), 431, "headers_too_large"),
        (_get(service, path=long_url + "q"), 414, "uri_too_long"),
        (_get(service, "X-Longer: " + "y" * (40 * KIB))[:-4], 431, "headers_too_large"),
        (_get(service, path=f"/{'q' * 40 * KIB}")[:-4], 414, "uri_too_long"),
    ):
        async with wire(service) as connection:
            await connection.send(request)
            assert _is(await connection.answer(), status, code), request[:80]
            assert await connection.is_closed()


async def test_an_endless_head_on_a_reused_connection(service: Service) -> None:
    """The limits hold for every request of a connection."""
    async with wire(service) as connection:
        await connection.send(_get(service))
        await connection.answer()
        await connection.send(_get(service, "X-Long: " + "y" * (40 * KIB))[:-4])
        assert _is(await connection.answer(), 431, "headers_too_large")


@each(
    "fields",
    [
        ["Content-Length: 2", "Content-Length: 2"],
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: 2, 2"],
        ["Content-Length: 2", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 2"],
        ["Transfer-Encoding: chunked, chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Transfer-Encoding: gzip"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: identity, chunked"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: chunked;q=1"],
        ["Transfer-Encoding: "],
        ["Transfer-Encoding: xchunked"],
        ["Content-Length: -2"],
        ["Content-Length: +2"],
        ["Content-Length: 0x2"],
        ["Content-Length: 99999999999999999999"],
        ["Content-Length: "],
        ["Content-Length : 2"],
    ],
)
async def test_conflicting_framing(service: Service, fields: list[str]) -> None:
    """Ambiguous framing gets 400 and the connection ends, which prevents request smuggling."""
    hidden = _get(service)
    async with wire(service) as connection:
        await connection.send(_post(service, *fields) + b"{}" + hidden)
        assert _is(await connection.answer(), 400, "bad_request")
        assert await connection.is_closed()


@each(
    "request_bytes",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /v1 HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /v1 HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /v1 HTTP/1.2\r\nHost: localhost\r\n\r\n",
        b"GET /v1 HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"GET /v1\r\n\r\n",
        b"POST /v1/orders HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET v1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /caf\xe9 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Folded: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX Y: a\r\n\r\n",
        b"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_malformed_http(service: Service, request_bytes: bytes) -> None:
    """400 as JSON, and the connection ends."""
    async with wire(service) as connection:
        await connection.send(request_bytes)
        assert _is(await connection.answer(), 400, "bad_request")
        assert await connection.is_closed()


async def test_on_the_token_endpoints_errors_are_flat(service: Service) -> None:
    """Errors of the endpoint and of the server itself are flat."""
    json_type = "Content-Type: application/json"
    for request, status, code in (
        (head("GET", "/oauth/token"), 405, "method_not_allowed"),
        (head("POST", "/oauth/elsewhere", "Content-Length: 0"), 404, "not_found"),
        (head("POST", "/oauth/token", json_type, "Content-Length: 70000"), 400, "invalid_request"),
        (head("POST", "/oauth/token", json_type, "Content-Length: 1") + b"{", 400, "invalid_request"),
        (head("POST", "/oauth/token", "Content-Type: text/plain", "Content-Length: 1") + b"x", 400, "invalid_request"),
        (head("POST", "/oauth/token", "Content-Length: 0", host="elsewhere.example"), 421, "misdirected_request"),
        (head("POST", "/oauth/token", "Content-Length: 0", host=""), 400, "bad_request"),
        (head("POST", "/oauth/token", "Content-Length: 1", "Content-Length: 2"), 400, "bad_request"),
        (head("POST", "/oauth/token", "X-Long: " + "y" * (17 * KIB)), 431, "headers_too_large"),
        (head("POST", f"/oauth/token?{'q' * 9 * KIB}"), 414, "uri_too_long"),
        (head("POST", "/oauth/token", json_type, "Content-Length: 9") + b"{", 408, "request_timeout"),
    ):
        asking = asyncio.create_task(exchange(service, request))
        if status == 408:
            await until(lambda: service.gauges.requests_arriving == 1)
            advance(SLOW_SECONDS)
        reply = await asking
        assert (reply.status, reply.body["error"]) == (status, code)
        assert set(reply.body) == {"message", "error", "error_description", "status", "cause"}
        assert (reply.body["status"], reply.body["cause"]) == (status, [])
        assert reply.body["message"] == reply.body["error_description"]


async def test_hosts(service: Service) -> None:
    """Exactly one configured host is required; port and case are ignored."""
    for host in ("localhost", "LOCALHOST", "127.0.0.1:8377", "[::1]:80"):
        assert (await exchange(service, head("GET", ORDER, _bearer(service), host=host))).status == 404, host
    for host in ("elsewhere.example", "localhost.elsewhere.example", "localhost@elsewhere.example", "[::2]"):
        assert _is(await exchange(service, head("GET", ORDER, host=host)), 421, "misdirected_request"), host
    for fields, host in (([], ""), (["Host: localhost"], "localhost"), (["Host: "], "")):
        assert (await exchange(service, head("GET", ORDER, *fields, host=host))).status in (400, 421)
    assert _is(await exchange(service, head("GET", ORDER, host="")), 400, "bad_request")


async def test_a_port_of_a_host_is_a_number(service: Service) -> None:
    """Anything else behind the name makes it another one."""
    for host in ("localhost:", "localhost:1", "[::1]:65535"):
        assert (await exchange(service, head("GET", ORDER, _bearer(service), host=host))).status == 404, host
    ports = ("x", "80x", "80:80", "65536", "-1", "080808", "80@elsewhere.example", "80/")
    for host in (*(f"localhost:{port}" for port in ports), "[::1]x", "[::1]x:80", "[::1]:x", "[::1"):
        assert _is(await exchange(service, head("GET", ORDER, host=host)), 421, "misdirected_request"), host


async def test_a_target_in_absolute_form_is_judged_by_its_host(service: Service) -> None:
    """And by `Host`: both must be configured."""
    bearer = _bearer(service)
    for target in (f"http://localhost{ORDER}", f"HTTPS://[::1]:80{ORDER}", f"http://ana@127.0.0.1{ORDER}"):
        assert (await exchange(service, head("GET", target, bearer))).status == 404, target
        reply = await exchange(service, head("GET", target, bearer, host="elsewhere.example"))
        assert _is(reply, 421, "misdirected_request"), target
    for target in ("http://elsewhere.example", "https://localhost@elsewhere.example:80", "http://localhost.example"):
        reply = await exchange(service, head("GET", f"{target}{ORDER}", bearer))
        assert _is(reply, 421, "misdirected_request"), target
    assert (await exchange(service, head("GET", "http://localhost"))).status < 500
    assert _is(await exchange(service, head("GET", f"http://localhost:x{ORDER}", bearer)), 400, "bad_request")


async def test_forwarded_headers_change_nothing(service: Service) -> None:
    """The address of the service depends on its settings only."""
    headers = ["X-Forwarded-Host: elsewhere.example", "Forwarded: host=elsewhere.example", "X-Forwarded-Proto: https"]
    reply = await exchange(service, _get(service, *headers))
    assert reply.status == 404
    assert b"elsewhere" not in reply.raw


async def test_requests_in_a_pipeline(service: Service) -> None:
    """Sent at once, they are answered in their order."""
    async with wire(service) as connection:
        await connection.send(b"".join(_get(service, f"X-Request-Id: n{number}") for number in range(20)))
        for number in range(20):
            assert (await connection.answer()).headers["x-request-id"] == f"n{number}"


async def test_garbage_after_a_request_does_not_lose_its_answer(service: Service) -> None:
    """A running request is answered before the error of the next one."""
    for behind in (b"garbage\r\n\r\n", head("GET", "/", "Content-Length: x")):
        request = await _poll(service)
        async with wire(service) as connection:
            await connection.send(request + behind)
            await until(lambda: service.database.signals.waiting("terminal:") == 1)
            advance(POLL_SECONDS)
            assert (await connection.answer()).status == 204
            assert await connection.is_closed()


async def test_garbage_on_a_reused_connection(service: Service) -> None:
    """It is answered 400, and the connection ends."""
    async with wire(service) as connection:
        await connection.send(_get(service))
        assert (await connection.answer()).status == 404
        await connection.send(b"\x00garbage")
        assert _is(await connection.answer(), 400, "bad_request")
        assert await connection.is_closed()


async def test_keep_alive_and_close(service: Service) -> None:
    """A connection is kept after errors too, and is closed when the client says so."""
    async with wire(service) as connection:
        for request, code in (
            (_get(service), "order_not_found"),
            (head("GET", "/nothing"), "not_found"),
            (_post(service, "Content-Length: 1") + b"{", "json_syntax_error"),
            (_post(service, f"Content-Length: {64 * KIB + 1}") + b" " * (64 * KIB + 1), "payload_too_large"),
            (_get(service, "Connection: close"), "order_not_found"),
        ):
            await connection.send(request)
            assert (await connection.answer()).code == code
        assert await connection.is_closed()


async def test_http_1_0_clients(service: Service) -> None:
    """HTTP/1.0 is answered, and the connection ends."""
    async with wire(service) as connection:
        await connection.send(_get(service).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (await connection.answer()).code == "order_not_found"
        assert await connection.is_closed()


async def test_an_upgrade_offer_is_ignored(service: Service) -> None:
    """An offer to upgrade is not taken up; the request is answered as it is, body and all (RFC 9110 section 7.8)."""
    terminal = await service.terminal()
    body = str(order_body(terminal.id)).replace("'", '"').encode()
    offer = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"]
    async with wire(service) as connection:
        await connection.send(_post(service, *offer, f"Content-Length: {len(body)}", path="/v1/orders") + body)
        assert (await connection.answer()).status == 201
        await connection.send(_get(service, "Connection: Upgrade", "Upgrade: websocket"))
        assert (await connection.answer()).code == "order_not_found"
        await connection.send(_get(service))
        assert (await connection.answer()).code == "order_not_found"


async def test_expect_100_continue(service: Service) -> None:
    """It gets 100 Continue, unless its body would be refused."""
    async with wire(service) as connection:
        await connection.send(_post(service, "Content-Length: 2", "Expect: 100-continue"))
        assert (await connection.answer()).status == 100
        await connection.send(b"{}")
        assert (await connection.answer()).code == "order_not_found"
    async with wire(service) as connection:
        await connection.send(_post(service, "Content-Length: 70000", "Expect: 100-continue"))
        assert (await connection.answer()).status == 413


async def test_trailers_are_not_headers(service: Service) -> None:
    """Trailer fields cannot authenticate the request."""
    trailers = f"0\r\n{_bearer(service)}\r\nX-Test-Scope: sandbox\r\n\r\n".encode()
    request = head("POST", "/v1/orders", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n"
    async with wire(service) as connection:
        await connection.send(request)
        await until(lambda: service.gauges.requests_arriving == 1)
        await connection.send(trailers)
        assert _is(await connection.answer(), 415, "unsupported_media_type")


async def test_a_head_request(service: Service) -> None:
    """No operation takes HEAD: 405 and no body, so the next answer is where it belongs."""
    async with wire(service) as connection:
        await connection.send(head("HEAD", "/v1/orders"))
        reply = await connection.answer(to_head=True)
        assert (reply.status, reply.headers["allow"]) == (405, "GET, POST")
        await connection.send(_get(service))
        assert (await connection.answer()).code == "order_not_found"


async def test_connections_over_the_limit_evict_idle_ones_or_return_503(service: Service) -> None:
    """A further one evicts the one without a request, otherwise the longest idle one."""
    async with contextlib.AsyncExitStack() as stack:
        held = [await stack.enter_async_context(wire(service)) for _ in range(20)]
        for connection in (*held[1:], held[1]):
            await connection.send(_get(service))
            assert (await connection.answer()).status == 404
        for ended in (held[0], held[2]):
            one_more = await stack.enter_async_context(wire(service))
            await one_more.send(_get(service))
            assert (await one_more.answer()).status == 404
            assert await ended.is_closed()
        await held[1].send(_get(service))
        assert (await held[1].answer()).status == 404


@pytest.mark.parametrize("settings", [Settings(connections_max=40), Settings(connections_per_address_max=40)])
async def test_clients_that_reconnect_at_once_do_not_evict_each_other(
    sqlite_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each limit, every new connection evicts one that has been idle for long; of one address all in one turn."""
    # None is old before its request has been read, however busy the machine is.
    monkeypatch.setattr(connection_limits, "RECENT_SECONDS", 30)
    database = await open_database(sqlite_url)
    async with running(database, settings=settings, workers=False) as service:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(40):
                idle = await stack.enter_async_context(wire(service))
                await idle.send(_get(service))
                assert (await idle.answer()).status == 404
            advance(31)
            address = urllib.parse.urlsplit(service.base_url)
            back = [stack.enter_context(socket.create_connection((address.hostname, address.port))) for _ in range(30)]
            for connection in back:
                connection.sendall(_get(service))
                connection.setblocking(False)
            loop = asyncio.get_running_loop()
            answers = await asyncio.gather(*(loop.sock_recv(connection, 64) for connection in back))
        assert [answer[:12] for answer in answers] == [b"HTTP/1.1 404"] * 30
    await database.close()


async def test_connections_of_one_address(sqlite_url: str) -> None:
    """One more than an address may have ends one of its own that is idle, or is refused; others have their own."""
    database = await open_database(sqlite_url)
    settings = Settings(connections_per_address_max=3)
    async with running(database, settings=settings, workers=False) as service, contextlib.AsyncExitStack() as stack:
        address = urllib.parse.urlsplit(service.base_url)

        async def connect(from_address: str) -> Wire:
            reader, writer = await asyncio.open_connection(address.hostname, address.port, local_addr=(from_address, 0))
            stack.callback(writer.close)
            return Wire(reader, writer)

        own = [await connect("127.0.0.2") for _ in range(3)]
        for connection in own:
            await connection.send(_get(service))
            assert (await connection.answer()).status == 404
        others = [await connect("127.0.0.3") for _ in range(3)]
        one_more = await connect("127.0.0.2")
        assert await own.pop(0).is_closed()
        for connection in (*own, one_more):
            await connection.send(await _poll(service))
        await until(lambda: service.gauges.requests_running == 3)
        refused = await connect("127.0.0.2")
        assert _is(await refused.answer(), 503, "service_unavailable")
        for connection in others:
            await connection.send(_get(service))
            assert (await connection.answer()).status == 404
        await until(lambda: database.signals.waiting("terminal:") == 3)
        advance(POLL_SECONDS)
        for connection in (*own, one_more):
            assert (await connection.answer()).status == 204
    await database.close()


async def test_connections_of_proxies_are_not_counted_by_address(sqlite_url: str) -> None:
    """A trusted proxy has the connections of all clients."""
    database = await open_database(sqlite_url)
    settings = Settings(connections_per_address_max=1, trusted_proxies=("127.0.0.1",))
    async with running(database, settings=settings, workers=False) as service, contextlib.AsyncExitStack() as stack:
        held = [await stack.enter_async_context(wire(service)) for _ in range(5)]
        for connection in held:
            await connection.send(_get(service))
            assert (await connection.answer()).status == 404
    await database.close()


async def _poll(service: Service) -> bytes:
    device = await service.device(await service.terminal())
    token = f"Authorization: Bearer {device.terminal.token}"
    return head("GET", f"/device/v1/next?boot_id={device.boot_id}&wait={POLL_SECONDS}", token)


async def test_a_connection_over_the_limit_of_busy_ones_returns_503(service: Service) -> None:
    """While every allowed connection has a running request, one more gets 503 with Retry-After."""
    async with contextlib.AsyncExitStack() as stack:
        polling = []
        for _ in range(20):
            request = await _poll(service)
            polling.append(await stack.enter_async_context(wire(service)))
            await polling[-1].send(request)
        await until(lambda: service.gauges.requests_running == 20)
        async with wire(service) as one_more:
            refusal = await one_more.answer()
            assert _is(refusal, 503, "service_unavailable")
            assert refusal.headers["retry-after"] == "1"
            assert await one_more.is_closed()
        await until(lambda: service.database.signals.waiting("terminal:") == 20)
        advance(POLL_SECONDS)
        for connection in polling:
            assert (await connection.answer()).status == 204


@pytest.mark.parametrize("count", [15, 60])
async def test_half_requests_do_not_lock_out_other_clients(service: Service, count: int) -> None:
    """Clients that send half a request and reconnect do not affect connections in use."""
    request = _post(service, "Content-Length: 500", path="/v1/orders")

    async def send_again_and_again(half: bytes) -> None:
        while True:
            with contextlib.suppress(ConnectionError):
                async with wire(service) as connection:
                    await connection.send(half)
                    await connection.is_closed()

    async with wire(service) as kept:
        await kept.send(_get(service))
        assert (await kept.answer()).status == 404
        halves = [asyncio.create_task(send_again_and_again(request[: 20 + part % 2 * 999])) for part in range(count)]
        try:
            for _ in range(50):
                await asyncio.sleep(0.005)
                await kept.send(_get(service))
                assert (await kept.answer()).status == 404
            if count < 20:
                assert (await exchange(service, _get(service))).status == 404
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)


async def test_shutdown_loses_no_answer(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connected client gets a last answer when the service ends, with `Connection: close`."""
    # Connections without a request are closed once time is moved, and not before.
    monkeypatch.setattr(server, "QUIET_SECONDS", 600)
    monkeypatch.setattr(server, "DRAIN_SECONDS", NEVER_SECONDS)
    database, over = await open_database(sqlite_url), asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        async with running(database) as service:
            idle, asking, half, polling = [await stack.enter_async_context(wire(service)) for _ in range(4)]
            await polling.send(await _poll(service))
            for used in (idle, asking):
                await used.send(_get(service))
                assert (await used.answer()).headers.get("connection") is None
            await half.send(_get(service)[:-1])
            gauges = service.gauges
            await until(lambda: (gauges.requests_running, gauges.requests_arriving) == (1, 1))
            ended = asyncio.create_task(_wait_for_refusal(service))
            stack.push_async_callback(asyncio.gather, ended)
            asking_again = asyncio.create_task(_ask_when_it_ends(asking, service, ended))
            passing = asyncio.create_task(_time_passes(asking_again, over))
        over.set()
        await passing
        assert (await asking_again).headers["connection"] == "close"
        assert (await polling.answer()).status == 204
        for connection in (idle, asking, half, polling):
            assert await connection.is_closed()
    await database.close()


async def _time_passes(asking: asyncio.Task[Reply], over: asyncio.Event) -> None:
    """Let time pass once the answer is there, until the service has ended."""
    await asyncio.wait([asking])
    await passes_until(over.is_set, server.QUIET_SECONDS)


async def _wait_for_refusal(service: Service) -> None:
    """Wait until the service accepts no connections."""
    while True:
        try:
            async with wire(service):
                await asyncio.sleep(0.001)
        except ConnectionError:
            return


async def _ask_when_it_ends(connection: Wire, service: Service, ended: asyncio.Task[None]) -> Reply:
    await ended
    await connection.send(_get(service))
    return await connection.answer()
