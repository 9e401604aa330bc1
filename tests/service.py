"""A whole service for a test: the application over a real socket, its workers, an application, a seller, terminals.

It runs on the test's own event loop, on the database it is given. Every declared rule holds as in `paydesk serve`; an
error that an operation answers without declaring it fails the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import aiohttp
import structlog
from starlette import routing

import conformance
import counted
from oauth_scene import ALL_SCOPES, REDIRECT_URI, Scene, make_scene
from paydesk.core.clock import Clock, SystemClock
from paydesk.core.keys import Keys
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.tokens import Lifetimes, Pair
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals import stores
from paydesk.engine.terminals.schemas import OperatingMode
from paydesk.platform.http.recording import worker as request_recording
from paydesk.platform.http.refusals.unknown_paths import UnknownPaths
from paydesk.platform.http.server import server
from paydesk.platform.http.server.gauges import Gauges
from paydesk.platform.operation import Operation, Surface
from paydesk.platform.settings import Settings
from paydesk.platform.shared import Shared
from paydesk.platform.storage.database import Database, Transaction
from paydesk.service.app import EVERY_SURFACE
from paydesk.service.workers import WORKERS, run_all
from shared_objects import KEYS, Chosen, composed
from waiting import HANGS_SECONDS, until

if TYPE_CHECKING:
    from paydesk_dev.virtual.fleet import Fleet

_unknown_paths = UnknownPaths.of
_known: dict[tuple[str, ...], UnknownPaths] = {}


def _unknown_paths_once(operations: Mapping[str, Iterable[Operation]]) -> UnknownPaths:
    """Return what `UnknownPaths.of` does, computed once for the same operations."""
    names = tuple(f"{row.method} {path}" for path, rows in operations.items() for row in rows)
    if names not in _known:
        _known[names] = _unknown_paths(operations)
    return _known[names]


# Each service has the same patterns of paths; to compile them again was half of what it takes to build one.
UnknownPaths.of = staticmethod(_unknown_paths_once)  # type: ignore[method-assign]
routing.compile_path = cache(routing.compile_path)


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the service."""

    status: int
    headers: Any
    raw: bytes
    body: Any

    @property
    def code(self) -> str:
        """Return the code of the first error."""
        code: str = self.body["errors"][0]["code"] if "errors" in self.body else self.body["error"]
        return code

    @property
    def details(self) -> list[str]:
        """Return the details of all errors in their order."""
        return [detail for error in self.body["errors"] for detail in error["details"]]


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal with its device token."""

    id: str
    token: str


@dataclass
class Service:
    """A running service and what a test needs to talk to it."""

    base_url: str
    database: Database
    clock: Clock
    scene: Scene
    session: aiohttp.ClientSession
    access_token: str
    live_access_token: str
    fleet: Fleet | None = None
    """The virtual terminals of the service."""
    gauges: Gauges = field(default_factory=Gauges)
    shared_objects: Shared | None = None

    @property
    def shared(self) -> Shared:
        """Return the objects that the service's requests share."""
        assert self.shared_objects is not None, "only a service that runs here has them"
        return self.shared_objects

    async def polls(self, terminal: Terminal, count: int = 1) -> None:
        """Return once so many polls of the terminal wait."""
        await until(lambda: self.shared.objects[Gateway].sightings.polls_open(terminal.id) == count)

    @property
    def seller_id(self) -> int:
        """Return the seller of the tokens."""
        return self.scene.seller.seller_id

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        key: str | None = "",
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
    ) -> Reply:
        """Send a request. `token` and `key`: empty for a valid one of this service, None for none."""
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.access_token}"
        if key is not None and method == "POST":
            sent["X-Idempotency-Key"] = key or str(uuid.uuid4())
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        async with self.session.request(
            method, self.base_url + path, json=body, data=data, headers=sent, allow_redirects=False
        ) as answer:
            raw = await answer.read()
            is_json = answer.content_type == "application/json" and raw
            document = await answer.json() if is_json else None
            conformance.check(method, path, answer.status, document)
            return Reply(answer.status, answer.headers, raw, document)

    async def create(self, terminal: Terminal, *, amount: str = "24.90", key: str = "", **fields: Any) -> Reply:
        """Create an order for the terminal."""
        return await self.request("POST", "/v1/orders", order_body(terminal.id, amount, **fields), key=key)

    async def get(self, order_id: str) -> dict[str, Any]:
        """Return the order."""
        reply = await self.request("GET", f"/v1/orders/{order_id}")
        assert reply.status == 200, reply
        order: dict[str, Any] = reply.body
        return order

    async def until(self, order_id: str, *statuses: str) -> dict[str, Any]:
        """Return the order once it has one of these statuses, or its payment one of these detailed statuses."""
        deadline, pause = asyncio.get_running_loop().time() + HANGS_SECONDS, 0.005
        while True:
            order = await self.get(order_id)
            (payment,) = order["transactions"]["payments"]
            if {order["status"], payment["status_detail"]} & {*statuses}:
                return order
            assert asyncio.get_running_loop().time() < deadline, order
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.2)

    async def cancel(self, order_id: str, **options: Any) -> Reply:
        """Cancel the order."""
        return await self.request("POST", f"/v1/orders/{order_id}/cancel", **options)

    async def terminal(self, *, live: bool = False, mode: OperatingMode = "PDV", terminal_id: str = "") -> Terminal:
        """Create a terminal on a new point of sale."""

        async def work(tx: Transaction) -> Terminal:
            now_ms = self.clock.now_ms()
            shop = await stores.create_store(tx, self.seller_id, "Shop", now_ms)
            pos = await stores.create_pos(tx, self.seller_id, shop.store_id, counted.pos_id(), "Till", now_ms)
            assert pos is not None
            made = await terminals.create(
                tx,
                seller_id=self.seller_id,
                pos_id=pos.pos_id,
                terminal_id=terminal_id or counted.terminal_id(),
                live=live,
                now_ms=now_ms,
                operating_mode=mode,
            )
            assert made is not None
            token = await terminals.mint_token(tx, self.seller_id, made.terminal_id, now_ms)
            return Terminal(made.terminal_id, token.reveal())

        return await self.database.write(work)

    async def device(self, terminal: Terminal) -> Device:
        """Return a device for the terminal, after its hello."""
        device = Device(self, terminal, str(uuid.uuid4()))
        reply = await device.post("/hello", {"boot_id": device.boot_id, "app_version": "1", "journal": []})
        assert reply.status == 200, reply
        return device


@dataclass(frozen=True, slots=True)
class Device:
    """A terminal whose calls are made by a test."""

    service: Service
    terminal: Terminal
    boot_id: str

    async def post(self, path: str, body: dict[str, Any]) -> Reply:
        """Make a call of the device protocol."""
        return await self.service.request("POST", f"/device/v1{path}", body, token=self.terminal.token, key=None)

    async def next(self, wait: int = 5) -> Reply:
        """Poll for a message."""
        path = f"/device/v1/next?boot_id={self.boot_id}&wait={wait}"
        return await self.service.request("GET", path, token=self.terminal.token)

    async def ack(self, lease_id: str) -> Reply:
        """Acknowledge the order."""
        return await self.post(f"/leases/{lease_id}/ack", {"boot_id": self.boot_id})

    async def authorizing(self, lease_id: str, seq: int = 1) -> Reply:
        """Request the authorization permit."""
        body = {"boot_id": self.boot_id, "seq": seq, "step": "authorizing"}
        return await self.post(f"/leases/{lease_id}/progress", body)

    async def result(self, lease_id: str, result_id: str = "", **content: Any) -> Reply:
        """Report a result."""
        path = f"/device/v1/leases/{lease_id}/results/{result_id or uuid.uuid4()}"
        body = {"boot_id": self.boot_id, **content}
        return await self.service.request("PUT", path, body, token=self.terminal.token)

    async def approve(self, lease_id: str, amount: str = "24.90", **options: Any) -> Reply:
        """Report an approval."""
        return await self.result(lease_id, **{**approved(amount), **options})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def approved(amount: str = "24.90") -> dict[str, Any]:
    """Return the content of an approval."""
    return {
        "outcome": "approved",
        "status_detail": "accredited",
        "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
        "card": {"first_digits": "503175", "last_digits": "6351", "entry_mode": "contactless"},
        "paid_amount": amount,
        "authorization_code": "831000",
        "reference_id": str(uuid.uuid4().int)[:12],
    }


def order_body(terminal_id: str, amount: str = "24.90", **fields: Any) -> dict[str, Any]:
    """Return the body that creates an order."""
    return {
        "type": "point",
        "external_reference": "ext_ref_1234",
        "transactions": {"payments": [{"amount": amount}]},
        "config": {"point": {"terminal_id": terminal_id, "print_on_terminal": "no_ticket"}},
        **fields,
    }


@contextlib.asynccontextmanager
async def running(
    database: Database,
    *,
    clock: Clock | None = None,
    settings: Settings | None = None,
    workers: bool = True,
    development: bool = False,
    surfaces: tuple[Surface, ...] = EVERY_SURFACE,
    connections_max: int = 200,
    keys: Keys = KEYS,
    is_public: bool = False,
    has_fleet: bool = False,
    journals: Path | None = None,
    records: bool = False,
    **chosen: Unpack[Chosen],
) -> AsyncIterator[Service]:
    """Run a service on the database until the block ends; with `is_public` it knows its own address.

    Only what `settings` says itself is throttled. `has_fleet`: it runs virtual terminals, with their journals in the
    folder `journals` or in memory. `records`: its workers write the recorded requests. `chosen`: shared objects that
    the test has made itself.
    """
    clock = clock or SystemClock()
    settings = settings or Settings()
    scene = await make_scene(database)
    listener = server.bind("127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if is_public:
        settings = settings.model_copy(update={"public_url": base_url})
    if has_fleet:
        from paydesk_dev.virtual.fleet import Fleet

        chosen["fleet"] = Fleet(base_url, journals)
    made = composed(database, settings, clock, keys=keys, development=development, **chosen)
    shared, fleet = made.shared, chosen.get("fleet")
    ready, stop = asyncio.Event(), asyncio.Event()
    gauges = Gauges()
    serving = server.serve(made.app(surfaces), listener, shared.settings, ready.set, stop, gauges=gauges)
    tasks = [asyncio.create_task(serving)]
    if workers:
        chosen_workers = tuple(one for one in WORKERS if records or one.run is not request_recording.run)
        tasks.append(asyncio.create_task(run_all(made.context, stop, chosen_workers)))
    await ready.wait()
    if has_fleet and fleet is not None:
        await fleet.start()
    connector = aiohttp.TCPConnector(limit=connections_max)
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            with structlog.testing.capture_logs() as logged:
                yield Service(
                    base_url,
                    database,
                    clock,
                    scene,
                    session,
                    await access_token(scene, clock.now_ms(), live=False),
                    await access_token(scene, clock.now_ms(), live=True),
                    fleet,
                    gauges,
                    shared,
                )
            defects = [line for line in logged if line["event"] in ("undeclared_error", "unhandled_exception")]
            assert not defects, defects
    finally:
        stop.set()
        if has_fleet and fleet is not None:
            # Ends the polls, as the workers do.
            database.signals.stop()
            await fleet.stop()
        async with shared.objects[Acquirers].running():
            await asyncio.gather(*tasks)
        database.signals.stopping = False


async def access_token(scene: Scene, now_ms: int, *, live: bool, scope: str = ALL_SCOPES) -> str:
    """Issue a new access token of the scene's seller for its application."""
    return (await tokens(scene, now_ms, live=live, scope=scope)).access_token


async def refresh_token(service: Service) -> str:
    """Issue a new refresh token, and an access token, that are valid for an hour."""
    pair = await tokens(service.scene, service.clock.now_ms(), seconds=3600)
    assert pair.refresh_token is not None
    return pair.refresh_token


async def tokens(
    scene: Scene, now_ms: int, *, live: bool = False, scope: str = ALL_SCOPES, seconds: int = 15_552_000
) -> Pair:
    """Issue new tokens of the scene's seller for its application."""
    return await scene.database.write(
        lambda tx: authorizations.mint_family(
            tx,
            KEYS,
            application_id=scene.application.application_id,
            seller_id=scene.seller.seller_id,
            scope=scope,
            live=live,
            now_ms=now_ms,
            lifetimes=Lifetimes(seconds, seconds),
        )
    )


__all__ = ["KEYS", "REDIRECT_URI", "Device", "Reply", "Service", "Terminal", "access_token", "approved", "order_body",
           "running"]  # fmt: skip
