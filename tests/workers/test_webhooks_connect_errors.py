"""What is recorded of an attempt that could not connect: the host, and the reason in words."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from yarl import URL

from paydesk.engine.webhooks.delivery.notice import AnyAddress
from paydesk.engine.webhooks.delivery.sending import Sender


@asynccontextmanager
async def listening(context: ssl.SSLContext | None = None) -> AsyncGenerator[int, None]:
    """Listen on loopback, with TLS or without, close each connection, and yield the port."""

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no TLS\r\n")
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def error_of(url: str) -> str:
    """Return the error of an attempt to deliver to the URL."""
    async with Sender(AnyAddress(), timeout_seconds=60) as sender:
        outcome = await sender.send(URL(url), {}, b"{}")
    assert outcome.status is None
    return outcome.error or ""


@pytest.fixture
def self_signed(tmp_path: Path) -> ssl.SSLContext:
    """Return the TLS context of a server with a certificate that no authority has signed."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subprocess.run(
        [*made, "-subj", "/CN=localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def test_a_closed_port_is_a_refused_connection() -> None:
    """With the host and the port, and without the query."""
    async with listening() as port:
        pass
    error = await error_of(f"http://127.0.0.1:{port}/hook?token=s3cret")
    assert error == f"Cannot connect to host 127.0.0.1:{port}: Connection refused"


async def test_a_name_that_does_not_exist_is_named() -> None:
    """Top-level domain `invalid` never has names."""
    error = await error_of("http://shop.invalid/hook")
    assert error.startswith("Cannot connect to host shop.invalid:80: ")
    assert not set("[]()") & set(error)


async def test_an_invalid_certificate_has_its_reason(self_signed: ssl.SSLContext) -> None:
    """As OpenSSL words it, without its file and line."""
    async with listening(self_signed) as port:
        error = await error_of(f"https://127.0.0.1:{port}/hook")
    assert error == f"Cannot connect to host 127.0.0.1:{port}: its certificate is not valid, self-signed certificate"


async def test_https_to_a_port_without_tls_is_named() -> None:
    """The usual cause is a URL with https in place of http."""
    async with listening() as port:
        error = await error_of(f"https://127.0.0.1:{port}/hook")
    assert error.startswith(f"Cannot connect to host 127.0.0.1:{port}: TLS failed, ")
    assert "ssl.c" not in error
