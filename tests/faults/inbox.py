"""A receiver of notifications: keeps every request, checks its signatures, and fails at times."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from faults.records import Arrival, Records
from paydesk.core.secrets import Secret
from paydesk.engine.webhooks.signatures import signature


class Inbox:
    """The servers of all applications. `failing`: how many of its requests each subscription's server fails."""

    def __init__(self, records: Records, chance: random.Random) -> None:
        self._records, self._chance = records, chance
        self._subscriptions: dict[str, tuple[str, Secret]] = {}
        self._failing: dict[str, float] = {}
        self.url = ""

    def know(self, path: str, subscription_id: str, secret: Secret, failing: float, audience: tuple[int, bool]) -> None:
        """Take what comes to this path as the subscription's, which is to hear of that seller's, live or test."""
        self._records.audiences[subscription_id] = audience
        self._subscriptions[path] = (subscription_id, secret)
        self._failing[path] = failing

    def calm(self) -> None:
        """Fail no more."""
        self._failing = dict.fromkeys(self._failing, 0.0)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Keep one request and answer it, or not."""
        body = await request.read()
        fails = self._chance.random() < self._failing[request.path]
        subscription_id, secret = self._subscriptions[request.path]
        document = json.loads(body)
        self._records.arrivals.append(
            Arrival(
                subscription_id,
                document["data"]["id"],
                document["data"]["version"],
                document["id"],
                request.headers["X-Request-Id"],
                body,
                genuine=is_genuine(secret, request.query.get("data.id", ""), request.headers, body),
                taken=not fails,
            )
        )
        return await self._failure(request) if fails else web.Response(text="thank you")

    async def _failure(self, request: web.BaseRequest) -> web.StreamResponse:
        way = self._chance.choice(("500", "gone", "slow"))
        if way == "slow":
            while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110 - no sign
                await asyncio.sleep(0.05)
        elif way == "gone" and request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)


def is_genuine(secret: Secret, data_id: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether both signatures are the secret's, whatever time the sender's clock showed."""
    seconds = int(headers["webhook-timestamp"])
    expected = signature.standard_headers(
        [secret], message_id=headers["webhook-id"], seconds=seconds, body=body.decode()
    )
    ours = signature.x_signature(secret, data_id=data_id, request_id=headers["X-Request-Id"], seconds=seconds)
    return headers["X-Signature"] == ours and all(headers[name] == value for name, value in expected.items())


@asynccontextmanager
async def listening(records: Records, chance: random.Random) -> AsyncIterator[Inbox]:
    """An inbox on loopback."""
    inbox = Inbox(records, chance)
    runner = web.ServerRunner(web.Server(inbox.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    inbox.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield inbox
    finally:
        await runner.cleanup()
