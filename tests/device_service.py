"""A fake service for tests of virtual terminals: it implements `/device/v1`, with faults on demand.

Its answers follow the terminal protocol, independently of the service's code.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from paydesk.core import runtime
from paydesk.core.clock import rfc3339
from waiting import HANGS_SECONDS

Fault = int | dict[str, Any] | str
"""A status (nothing is processed), a 409 with this body, `hang` (neither processed nor answered), `lost` (processed,
then the connection is closed) or `silent` (processed and not answered)."""

JsonObject = dict[str, Any]

DECLINED = {"9001": "rejected_by_issuer", "9002": "insufficient_amount", "9006": "high_risk"}
SILENT = ("9021", "9022")
"""The acquirer's outcome, by the card's last digits; all others are approved."""


def order(amount: str = "24.90", **more: Any) -> JsonObject:
    """Return an order as it is offered to a terminal."""
    return {"id": "ORD1", "payment_id": "PAY1", "amount": amount, "currency": "BRL", **more}


@dataclass
class Lease:
    """The state of one lease."""

    order: JsonObject
    state: str = "created"
    granted: bool = False
    until: str = ""
    cancel_done: bool | None = None
    results: dict[str, JsonObject] = field(default_factory=dict)


class DeviceService:
    """The service of one terminal. `calls` are the recorded requests, `faults` the next faults of each call.

    A call is named by the last segment of its path, a progress call by its step.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.leases: dict[str, Lease] = {}
        self.calls: list[tuple[str, JsonObject]] = []
        self.faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self.permit_seconds = 60.0
        self.behind_seconds = 0.0
        self.verdicts: dict[str, str] = {}
        self.charges: dict[str, JsonObject] = {}
        """The acquirer's answers, by payment id."""
        self.boots: list[str] = []
        self._messages: asyncio.Queue[JsonObject] = asyncio.Queue()
        self._changed = asyncio.Condition()
        self._open = asyncio.Event()

    def offer(self, lease_id: str, amount: str = "24.90", **more: Any) -> Lease:
        """Offer the order in the terminal's next poll."""
        lease = self.leases.setdefault(lease_id, Lease(order(amount, payment_id=f"PAY-{lease_id}", **more)))
        self.say({"type": "order", "lease_id": lease_id, "time": self._now(), "order": lease.order})
        return lease

    def say(self, message: JsonObject) -> None:
        """Send the message in the terminal's next poll."""
        self._messages.put_nowait(message)

    def received(self, name: str) -> list[JsonObject]:
        """Return the bodies of all calls with this name."""
        return [body for called, body in self.calls if called == name]

    async def until_received(self, name: str, times: int = 1) -> JsonObject:
        """Wait for the given number of calls and return the last body."""
        async with asyncio.timeout(HANGS_SECONDS), self._changed:
            await self._changed.wait_for(lambda: len(self.received(name)) >= times)
        return self.received(name)[times - 1]

    async def until_state(self, lease: Lease, state: str) -> None:
        """Wait until the lease is in this state."""
        async with asyncio.timeout(HANGS_SECONDS), self._changed:
            await self._changed.wait_for(lambda: lease.state == state)

    @asynccontextmanager
    async def serve(self, port: int | None = None) -> AsyncIterator[str]:
        """Listen on loopback and yield the base URL."""
        app = web.Application(middlewares=[self._record])
        base = "/device/v1"
        app.router.add_post(f"{base}/hello", self._hello, name="hello")
        app.router.add_get(f"{base}/next", self._next, name="next")
        app.router.add_post(f"{base}/leases/{{lease}}/ack", self._acknowledge, name="ack")
        app.router.add_post(f"{base}/leases/{{lease}}/progress", self._progress, name="progress")
        app.router.add_post(f"{base}/leases/{{lease}}/cancel-result", self._cancel_result, name="cancel-result")
        app.router.add_put(f"{base}/leases/{{lease}}/results/{{result}}", self._result, name="result")
        app.router.add_post("/virtual/v1/acquirer/payments", self._acquirer, name="acquirer")
        server = TestServer(app, port=port)
        await server.start_server()
        try:
            yield str(server.make_url("/")).rstrip("/")
        finally:
            self._open.set()
            await server.close()

    @web.middleware
    async def _record(self, request: web.Request, handler: Any) -> web.StreamResponse:
        name = str(request.match_info.route.name)
        body = await request.json() if request.can_read_body else dict(request.query)
        name = body["step"] if name == "progress" else name
        await self._note(name, {**body, **request.match_info})
        fault = self.faults[name].popleft() if self.faults[name] else None
        if fault == "hang":
            await self._open.wait()
        if isinstance(fault, int):
            return _refused(fault, "made_up")
        if isinstance(fault, dict):
            return web.json_response(fault, status=409)
        answer: web.StreamResponse = await handler(request)
        async with self._changed:
            self._changed.notify_all()
        if fault == "silent":
            await self._open.wait()
        if fault == "lost":
            assert request.transport is not None
            request.transport.abort()
        return answer

    async def _note(self, name: str, body: JsonObject) -> None:
        async with self._changed:
            self.calls.append((name, body))
            self._changed.notify_all()

    async def _hello(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["boot_id"] in self.boots[:-1]:
            return _refused(409, "stale_session")
        if body["boot_id"] not in self.boots:
            self.boots.append(body["boot_id"])
        verdicts = [
            {"lease_id": entry["lease_id"], "verdict": self.verdicts.get(entry["lease_id"]) or self._verdict(entry)}
            for entry in body["journal"]
        ]
        return web.json_response(
            {
                "terminal_id": "T",
                "operating_mode": "PDV",
                "seller_name": "Shop",
                "currency": "BRL",
                "time": self._now(),
                "leases": verdicts,
                "more": 1,
            }
        )

    def _verdict(self, entry: JsonObject) -> str:
        lease = self.leases.get(entry["lease_id"])
        if "result" in entry:
            return "report"
        if lease is None or lease.state != "at_terminal":
            return "forget"
        if lease.granted and entry.get("sent", True):
            return "hold"
        if self._now() < lease.until if lease.granted else entry["last_step"] != "authorizing":
            return "resume"
        lease.state = "failed"
        return "abort"

    async def _next(self, request: web.Request) -> web.Response:
        if request.query["boot_id"] != self.boots[-1]:
            return _refused(409, "stale_session")
        try:
            message = await asyncio.wait_for(self._messages.get(), float(request.query["wait"]))
        except TimeoutError:
            return web.Response(status=204)
        return web.json_response(message)

    async def _acknowledge(self, request: web.Request) -> web.Response:
        lease = self.leases[request.match_info["lease"]]
        if lease.state not in ("created", "at_terminal"):
            return _refused(409, "order_canceled")
        lease.state = "at_terminal"
        return web.json_response({})

    async def _progress(self, request: web.Request) -> web.Response:
        body = await request.json()
        lease = self.leases[request.match_info["lease"]]
        if body["step"] != "authorizing":
            return web.json_response({})
        if lease.state != "at_terminal":
            return _refused(409, "order_canceled")
        if not lease.granted:
            lease.granted = True
            lease.until = self._now(self.permit_seconds)
        return web.json_response({"go": True, "until": lease.until})

    async def _acquirer(self, request: web.Request) -> web.Response:
        body = await request.json()
        digits, key = body["card"]["last_digits"], body["payment_id"]
        if digits in DECLINED:
            decided = {"outcome": "declined", "status_detail": DECLINED[digits]}
        else:
            number = str(10**13 + len(self.charges))
            decided = {"outcome": "approved", "authorization_code": "831000", "reference_id": number}
        answer = self.charges.setdefault(key, {**decided, "amount": body["amount"]})
        return web.json_response({"outcome": "unknown"} if digits in SILENT else answer)

    def _now(self, later_seconds: float = 0) -> str:
        return rfc3339(int(runtime.wall_ns() // 1_000_000 + (later_seconds - self.behind_seconds) * 1000))

    async def _cancel_result(self, request: web.Request) -> web.Response:
        body = await request.json()
        lease = self.leases[request.match_info["lease"]]
        lease.cancel_done = body["done"]
        if body["done"]:
            lease.state = "canceled"
        return web.json_response({})

    async def _result(self, request: web.Request) -> web.Response:
        body = await request.json()
        lease = self.leases[request.match_info["lease"]]
        content = {key: value for key, value in body.items() if key != "boot_id"}
        first = lease.results.setdefault(request.match_info["result"], content)
        if first != content:
            return web.json_response({"error": "result_conflict", "recorded": True}, status=409)
        if len(lease.results) > 1:
            return web.json_response({"error": "order_finished", "recorded": True}, status=409)
        ends = {"approved": "processed", "declined": "failed", "canceled": "canceled", "unknown": "check"}
        lease.state = ends[content["outcome"]]
        return web.json_response({"order": {"id": "ORD1", "status": lease.state}, "print": True})


def _refused(status: int, code: str) -> web.Response:
    return web.json_response({"errors": [{"code": code, "message": code}], "error": code}, status=status)
