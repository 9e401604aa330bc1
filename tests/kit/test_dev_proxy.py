"""The proxy of `paydesk dev --proxy`, byte by byte: tunnels, refusals, limits and attacks; on uvloop and on asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl

import pytest
import structlog

from event_loops import passes_until, turns
from moved_time import advance
from paydesk_dev.proxy import proxy
from proxy_scene import API, AUTH, OWN_URL, Scene, on_each_loop
from waiting import until, until_found

CONNECT = f"CONNECT {API}:443 HTTP/1.1\r\n".encode()
MIB = 1 << 20
NEVER_SECONDS = 1_000_000
SETTLED_COUNT = 100
"""What has not changed in so many looks no longer changes."""


# Tunnels. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [API, AUTH, "AUTH.MercadoPago.com.br."])
@on_each_loop
async def test_a_tunnel_leads_to_the_tls_listener_of_the_service(scene: Scene, host: str) -> None:
    """The bytes arrive unchanged, in both directions; the certificate is valid for the host that was requested."""
    async with scene.wire() as wire:
        reply = await wire.connect(host)
        assert (reply.status, reply.raw) == (200, b"")
        assert not {"content-length", "transfer-encoding"} & set(reply.headers)
        await wire.encrypt(scene.trusted, host.lower().removesuffix("."))
        for text in (b"one", b"\x00\xff" * 1000, b"three"):
            await wire.send(text)
            assert await wire.read(len(text)) == text


@on_each_loop
async def test_a_client_may_begin_tls_before_the_answer(scene: Scene) -> None:
    """What follows the head in the same packet is the beginning of the tunnel."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = scene.trusted.wrap_bio(incoming, outgoing, server_hostname=API)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    async with scene.wire() as wire:
        await wire.send(CONNECT + b"\r\n" + outgoing.read())
        assert (await wire.reply()).status == 200
        for _ in range(10):
            incoming.write(await wire.reader.read(1 << 16))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
        assert tls.getpeercert()


@on_each_loop
async def test_a_request_after_the_head_is_not_a_second_request_to_the_proxy(scene: Scene) -> None:
    """It goes to the TLS listener, which ends the connection: it is not TLS."""
    async with scene.wire() as wire:
        await wire.send(CONNECT + b"\r\nGET http://169.254.169.254/ HTTP/1.1\r\n\r\n")
        assert (await wire.reply()).status == 200
        with contextlib.suppress(ConnectionResetError):
            assert not (await wire.reader.read()).startswith(b"HTTP")
    assert scene.received == []


@on_each_loop
async def test_large_bodies_are_carried_both_ways_at_once(scene: Scene) -> None:
    """The tunnel does not wait for one direction to end."""
    sent = bytes(range(256)) * (8 * MIB // 256)
    async with scene.wire() as wire:
        await wire.connect()
        await wire.encrypt(scene.trusted)
        sending = asyncio.create_task(wire.send(sent))
        assert await wire.read(len(sent)) == sent
        await sending


@on_each_loop
async def test_a_client_that_reads_nothing_is_not_buffered(scene: Scene) -> None:
    """The service stops writing while the client does not read: the proxy keeps only as much as its buffers take."""
    written = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readexactly(3)
        with contextlib.suppress(OSError, RuntimeError):
            while written < 200 * MIB:
                written += 65536
                writer.write(b"x" * 65536)
                await writer.drain()
        writer.transport.abort()

    scene.handle = pour
    async with scene.wire() as wire:
        await wire.connect()
        await wire.encrypt(scene.trusted)
        await wire.send(b"ask")
        await until(lambda: written > 0)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]  # every transport of TLS has it
        lately = [-1]
        # It stops where all buffers are full, or never.
        while set(lately[-SETTLED_COUNT:]) != {written} or len(lately) < SETTLED_COUNT:
            lately.append(written)
            await asyncio.sleep(0.002)
    assert 0 < written < 64 * MIB


@on_each_loop
async def test_the_end_of_the_service_ends_the_tunnel(scene: Scene) -> None:
    """As on a direct connection: the answer arrives whole, then the connection ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        writer.write(b"y" * MIB)
        writer.close()

    scene.handle = answer
    async with scene.wire() as wire:
        await wire.connect()
        await wire.encrypt(scene.trusted)
        await wire.send(b"ask")
        assert await wire.read(MIB) == b"y" * MIB
        assert await wire.is_closed()


@on_each_loop
async def test_the_end_of_the_client_ends_the_connection_to_the_service(scene: Scene) -> None:
    """By a close and by a reset."""
    ended = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()
        ended.set()

    scene.handle = wait
    for end in ("close", "abort"):
        ended.clear()
        async with scene.wire() as wire:
            await wire.connect()
            await wire.encrypt(scene.trusted)
            await wire.send(b"x")
            getattr(wire.writer.transport, end)()
            await ended.wait()


@on_each_loop
async def test_a_tunnel_without_traffic_is_closed(scene: Scene) -> None:
    """After the time limit, which each byte begins anew."""
    async with scene.wire() as wire:
        await wire.connect()
        await wire.encrypt(scene.trusted)
        for pauses in range(4):
            advance(0.9 * proxy.IDLE_SECONDS_MAX if pauses else 0)
            await turns()
            await wire.send(b"x")
            assert await wire.read(1) == b"x"
        advance(proxy.IDLE_SECONDS_MAX)
        assert await wire.is_closed()


@on_each_loop
async def test_the_certificate_is_not_valid_for_another_host(scene: Scene) -> None:
    """A client that names another host inside the tunnel rejects the connection."""
    async with scene.wire() as wire:
        await wire.connect()
        with pytest.raises(ssl.SSLCertVerificationError):
            await wire.encrypt(scene.trusted, "www.mercadopago.com")


# Refusals. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_line", "status", "code"),
    [
        ("CONNECT 169.254.169.254:443 HTTP/1.1", 403, "forbidden"),
        ("CONNECT localhost:22 HTTP/1.1", 403, "forbidden"),
        (f"CONNECT {API}:22 HTTP/1.1", 403, "forbidden"),
        (f"CONNECT {API}.evil.example:443 HTTP/1.1", 403, "forbidden"),
        ("GET http://example.org/ HTTP/1.1", 403, "forbidden"),
        (f"GET http://{API}/v1/orders HTTP/1.1", 403, "forbidden"),
        ("GET / HTTP/1.1", 405, "method_not_allowed"),
        (f"CONNECT {API}\r:443 HTTP/1.1", 400, "bad_request"),
        (f"CONNECT {API} HTTP/1.1", 400, "bad_request"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad_request"),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "bad_request"),
    ],
)
@on_each_loop
async def test_other_requests_are_refused(scene: Scene, request_line: str, status: int, code: str) -> None:
    """With a JSON body as the service's errors have it; no connection is opened."""
    reply = await scene.refusal(request_line.encode("latin-1") + b"\r\n\r\n")
    assert (reply.status, reply.code) == (status, code)
    assert reply.headers["content-type"] == "application/json"
    assert reply.body["message"] == reply.body["errors"][0]["message"]
    assert scene.received == []


@on_each_loop
async def test_the_status_line_says_what_to_do(scene: Scene) -> None:
    """Clients show nothing of the response but its status line."""
    reply = await scene.refusal(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    assert reply.headers["status line"] == f"HTTP/1.1 403 Forbidden: {reply.body['message']}"
    assert "Add example.org to NO_PROXY" in reply.body["message"]


@on_each_loop
async def test_the_answer_to_head_has_no_body(scene: Scene) -> None:
    """A client would take it for the next answer."""
    async with scene.wire() as wire:
        await wire.send(b"HEAD http://example.org/ HTTP/1.1\r\n\r\n")
        assert (await wire.reply(to_head=True)).status == 403
        assert await wire.is_closed()


@on_each_loop
async def test_a_request_to_the_proxy_itself_names_the_service(scene: Scene) -> None:
    """A browser that opens the proxy's address finds the right one."""
    reply = await scene.refusal(b"GET /docs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert reply.headers["allow"] == "CONNECT"
    assert OWN_URL in reply.body["message"]


@on_each_loop
async def test_refused_targets_are_logged_without_secrets(scene: Scene) -> None:
    """Each target once, so that a developer sees which hosts a program calls; never a header or a path."""
    secret = b"Proxy-Authorization: Basic c2VjcmV0\r\nAuthorization: Bearer secret\r\n\r\n"
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            await scene.refusal(b"CONNECT example.org:443 HTTP/1.1\r\n" + secret)
        await scene.refusal(b"GET http://user:secret@example.net/secret HTTP/1.1\r\n" + secret)
    assert [line["target"] for line in logged] == ["example.org:443", "example.net:80"]
    assert "secret" not in str(logged)
    assert all(line["event"] == "proxy_refused" for line in logged)


@on_each_loop
async def test_many_refused_targets_do_not_fill_the_log(scene: Scene) -> None:
    """At most so many lines in a minute."""
    with structlog.testing.capture_logs() as logged:
        for number in range(proxy.LOGGED_MAX + 10):
            await scene.refusal(f"CONNECT {number}.example:443 HTTP/1.1\r\n\r\n".encode())
    assert len(logged) == proxy.LOGGED_MAX


# Limits. -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [proxy.HEAD_BYTES_MAX + 1, 4 * MIB])
@on_each_loop
async def test_a_large_head_is_refused(scene: Scene, size: int) -> None:
    """Even if the client sends much more before it reads the answer."""
    async with scene.wire() as wire:
        wire.writer.write(CONNECT + b"X: " + b"x" * size)
        reply = await wire.reply()
    assert (reply.status, reply.code) == (431, "headers_too_large")


@on_each_loop
async def test_a_head_of_the_largest_size_is_accepted(scene: Scene) -> None:
    """Tokens of corporate proxies are long."""
    async with scene.wire() as wire:
        rest = b"X: " + b"x" * (proxy.HEAD_BYTES_MAX - len(CONNECT) - 7) + b"\r\n\r\n"
        await wire.send(CONNECT + rest)
        assert (await wire.reply()).status == 200


@on_each_loop
async def test_a_slow_head_is_refused(scene: Scene) -> None:
    """The time limit is for the whole head, not for each byte."""
    async with scene.wire() as wire:
        answering = asyncio.create_task(wire.reply())
        for byte in CONNECT + b"X: " + b"x" * (proxy.HEAD_BYTES_MAX // 2):
            await wire.send(bytes([byte]))
            advance(proxy.HEAD_SECONDS_MAX / 10)
            await turns()
            if answering.done():
                break
        reply = await answering
    assert (reply.status, reply.code) == (408, "request_timeout")


@on_each_loop
async def test_a_connection_without_a_head_ends_silently(scene: Scene) -> None:
    """A client that has sent nothing expects no answer."""
    with structlog.testing.capture_logs() as logged:
        async with scene.wire() as wire:
            wire.writer.write_eof()
            assert await wire.is_closed()
        async with scene.wire() as wire:
            await wire.send(CONNECT)
            wire.writer.write_eof()
            assert await wire.is_closed()
    assert logged == []


@on_each_loop
async def test_refused_clients_take_no_place(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may keep its connection after the refusal for a moment; others do not wait for it."""
    monkeypatch.setattr(proxy, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(proxy, "FLUSH_SECONDS_MAX", 60)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(6):
            wire = await stack.enter_async_context(scene.wire())
            assert (await wire.connect("example.org")).status == 403
        for _ in range(3):
            wire = await stack.enter_async_context(scene.wire())
            assert (await wire.connect()).status == 200
        wire = await stack.enter_async_context(scene.wire())
        assert (await wire.connect()).status == 503


@on_each_loop
async def test_a_client_that_begins_with_tls_is_refused_at_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its proxy URL begins with https://; it must not wait for the end of a head."""
    monkeypatch.setattr(proxy, "HEAD_SECONDS_MAX", NEVER_SECONDS)
    async with scene.wire() as wire:
        await wire.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        reply = await wire.reply()
    assert (reply.status, reply.code) == (400, "bad_request")
    assert "http://" in reply.body["message"]


@on_each_loop
async def test_thousands_of_connections_leave_the_tunnels_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those above the limit are refused at once; once they have gone, new ones are served again."""
    count = 2000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * count), hard))
    monkeypatch.setattr(proxy, "HEAD_SECONDS_MAX", 60)
    async with scene.wire() as tunnel, contextlib.AsyncExitStack() as stack:
        await tunnel.connect()
        await tunnel.encrypt(scene.trusted)
        wires = [await stack.enter_async_context(scene.wire()) for _ in range(count)]
        above = wires[proxy.CONNECTIONS_MAX - 1 :]
        replies = await asyncio.gather(*(wire.reply() for wire in above))
        assert {reply.status for reply in replies} == {503}
        await wires[0].send(CONNECT + b"\r\n")
        assert (await wires[0].reply()).status == 200
        await tunnel.send(b"still here")
        assert await tunnel.read(10) == b"still here"

    async def is_served() -> bool:
        async with scene.wire() as wire:
            return (await wire.connect()).status == 200

    await until_found(is_served)


# The end. ------------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_the_end_of_paydesk_closes_waiting_connections_and_completes_tunnels(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that is on its way arrives; no new client is accepted."""
    monkeypatch.setattr(proxy, "DRAIN_SECONDS", NEVER_SECONDS)
    received, proceed = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        received.set()
        await proceed.wait()
        writer.write(b"answer")
        writer.close()

    scene.handle = answer
    async with scene.wire() as waiting, scene.wire() as tunnel:
        await waiting.send(b"CONNECT ")
        await tunnel.connect()
        await tunnel.encrypt(scene.trusted)
        await tunnel.send(b"ask")
        await received.wait()
        scene.stop.set()
        assert await waiting.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", scene.port)
        proceed.set()
        assert await tunnel.read(6) == b"answer"
        await scene.running


@on_each_loop
async def test_the_end_of_paydesk_does_not_wait_for_a_tunnel_that_stays(scene: Scene) -> None:
    """It is closed after the time that the service gives its own requests."""
    async with scene.wire() as tunnel:
        await tunnel.connect()
        await tunnel.encrypt(scene.trusted)
        scene.stop.set()
        await passes_until(scene.running.done, proxy.DRAIN_SECONDS / 4)
        assert await tunnel.is_closed()


@on_each_loop
async def test_without_the_service_the_proxy_answers_503(scene: Scene) -> None:
    """As during the end of Paydesk."""
    scene.upstream.close()
    await scene.upstream.wait_closed()
    reply = await scene.refusal(CONNECT + b"\r\n")
    assert (reply.status, reply.code) == (503, "service_unavailable")
