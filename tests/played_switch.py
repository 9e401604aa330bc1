"""A switch on loopback that answers as a test says: signed or not, late, cut, twice, on a connection that it closes."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from paydesk.core import runtime
from paydesk.core.secrets import Secret
from paydesk.engine.payments.acquirer import Card, Payment
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk.engine.payments.http.adapter import HttpAcquirer
from paydesk.engine.payments.http.options import create
from paydesk.engine.payments.http.signing import HEADER, Signer

SECRET, OTHER_SECRET = "0f" * 32, "f0" * 32
PAYMENT = Payment(
    7782587281,
    "NEWLAND_N950__N950NCB801293324",
    "PAY01J67CQQH5904WDBVZEM4JMEP3",
    2490,
    "BRL",
    installments=3,
    tip_minor=90,
    installments_cost="seller",
    external_reference="sale 1",
    method="visa",
    method_type="credit_card",
    store_id="47792478",
    pos_id="1",
)
CARD = Card("visa", "credit_card", "503143", "6351", "contactless")
APPROVED = {
    "outcome": "approved",
    "payment_id": PAYMENT.payment_id,
    "key": PAYMENT.payment_id,
    "amount_minor": 2490,
    "currency": "BRL",
    "reference_id": "7f1c-2b.A_9",
}


@dataclass(frozen=True)
class Reply:
    """How a request is answered. `cut` is the number of bytes that are sent before the connection ends."""

    body: Mapping[str, Any] | bytes = field(default_factory=dict)
    status: int = 200
    signed: bool = True
    secret: str = SECRET
    seconds_off: int = 0
    media_type: str = "application/json"
    headers: tuple[str, ...] = ()
    cut: int | None = None
    silent: bool = False


@dataclass(frozen=True)
class Received:
    """A request."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body."""
        return json.loads(self.body)


class PlayedSwitch:
    """Answers echoes with `echo`, and other requests with `replies` in their order; the last one repeats."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.echo = list(replies) or [Reply(APPROVED)], Reply()
        self.received: list[Received] = []
        self.connections = 0
        self.arrived = asyncio.Event()
        """Set with each request but an echo."""

    @property
    def requests(self) -> list[Received]:
        """The requests without echoes."""
        return [one for one in self.received if one.target != "/paydesk/echo"]

    @property
    def echoes(self) -> int:
        """The number of echoes."""
        return len(self.received) - len(self.requests)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        try:
            while await self._answer_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.received.append(Received(method, target, headers, body))
        reply = self.echo if target == "/paydesk/echo" else self._next()
        if target != "/paydesk/echo":
            self.arrived.set()
        if reply.silent:
            await reader.read(1)
            return False
        writer.write(self._written(reply, headers.get("idempotency-key", ""))[: reply.cut])
        await writer.drain()
        return reply.cut is None

    def _next(self) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def _written(self, reply: Reply, key: str) -> bytes:
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        lines = [f"HTTP/1.1 {reply.status} Status", f"Content-Length: {len(body)}", *reply.headers]
        if reply.media_type:
            lines.append(f"Content-Type: {reply.media_type}")
        if reply.signed:
            seconds = runtime.wall_ns() // 1_000_000_000 + reply.seconds_off
            signer = Signer("shop-1", (Secret(reply.secret),))
            lines.append(f"{HEADER}: {signer.sign(seconds, str(reply.status), key, body=body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def listening(switch: PlayedSwitch, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run the switch, and yield its port."""
    server = await asyncio.start_server(switch.serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def playing(
    switch: PlayedSwitch,
    context: AdapterContext = AdapterContext(),  # noqa: B008  # frozen
    *,
    tls: ssl.SSLContext | None = None,
    **options: object,
) -> AsyncIterator[HttpAcquirer]:
    """Run the switch, and yield its acquirer, whose secret is in the environment of the test."""
    async with listening(switch, tls) as port:
        acquirer = http_acquirer(port, context, scheme="http" if tls is None else "https", **options)
        try:
            yield acquirer
        finally:
            await acquirer.close()


def http_acquirer(port: int, context: AdapterContext, *, scheme: str = "http", **options: object) -> HttpAcquirer:
    """Return the acquirer of the switch at this port. An option that is None is left out."""
    given = {"url": f"{scheme}://127.0.0.1:{port}/paydesk", "key_id": "shop-1", "secret": "env:SWITCH_KEY", **options}
    return create("main", {name: value for name, value in given.items() if value is not None}, context)
