"""A service with one of everything that the console shows, and the pages and forms of the console for its ids."""

from __future__ import annotations

import asyncio
import itertools
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from console_scene import Console, console
from every_operation import OPERATIONS
from operator_calls import Operator, operator
from pairing_scene import ask_to_pair
from paydesk.core.clock import MovableClock
from paydesk.platform.operation import Operation
from paydesk.platform.storage.database import Database
from print_scene import print_on
from refund_scene import part_of, pay, refund
from service import Device, Service, Terminal, running
from waiting import HANGS_SECONDS
from webhooks_scene import Receiver, receiver, subscribe

RECEIVED = "the receiver's answer"
VIRTUAL_ID = "PAYDESK_VIRTUAL__0123456789AB"
PASSWORD = "correct horse battery staple"
INVITED = {"name": "Rita", "role": "support", "email": "rita@shop.example"}
"""An operator who has not opened the link."""
SUSPENDED = {"name": "Bistro", "email": "bistro@shop.example", "country": "BRA", "currency": "BRL"}
"""A seller who is suspended, and has no store."""
RECORDED = ("idempotency_key", "error")
"""Fields of recorded requests: pages differ for requests that have them."""
OTHER_ENDS = ("/sign-in", "/sign-out", "/enter", "/password", "/events")
"""Ends of paths that are no screens: before sign-in, and the stream."""
OF_SELLER = ("/console/pair/{user_code}/approve",)
"""Forms that ask for the seller first, and have it in their query."""


@dataclass
class World:
    """A running service with orders in every status, terminals, deliveries and recorded requests."""

    service: Service
    receiver: Receiver
    owner: Operator
    device: Device
    virtual: Terminal
    clock: MovableClock
    orders: dict[str, str] = field(default_factory=dict)
    """Ids of orders by what became of them."""
    values: dict[str, list[str]] = field(default_factory=dict)
    """Of each parameter of a path, the ids that there are."""

    async def console(self, role: str = "owner") -> Console:
        """Return the signed-in browser of a new operator."""
        return await console(self.service, role)

    async def learn_ids(self) -> None:
        """Find the ids for the paths of the console."""
        deliveries = (await self.owner.did("GET", "deliveries?limit=50"))["data"]
        tried = next(one for one in deliveries if one["attempts"])
        await self.console("viewer")
        requests = (await self.owner.did("GET", "requests?limit=50"))["data"]
        subscriptions = (await self.owner.did("GET", "subscriptions"))["data"]
        reversals = (await self.owner.did("GET", "reversals"))["data"]
        refunds = (await self.owner.did("GET", "refunds"))["data"]
        secrets = [secret["id"] for one in subscriptions for secret in one.get("secrets", [])]
        sessions = (await self.owner.did("GET", "sessions?operator=all"))["data"]
        invited = await self.owner.did("POST", "operators", INVITED)
        own = f"seller={self.service.seller_id}"
        (pos, *_) = (await self.owner.did("GET", f"pos?{own}"))["data"]
        suspended = await self.owner.did("POST", "sellers", SUSPENDED)
        await self.owner.did("POST", f"sellers/{suspended['user_id']}/suspend")
        grants = (await self.owner.did("GET", f"grants?status=valid&{own}"))["data"]
        client_id = grants[0]["client_id"]
        applications = (await self.owner.did("GET", "applications"))["data"]
        client_secrets = (await self.owner.did("GET", f"applications/{client_id}"))["secrets"]
        codes = await ask_to_pair(self.service)
        self.values = {
            "order_id": list(self.orders.values()),
            "delivery_id": [tried["id"]],
            "entry_id": [next(one["entry_id"] for one in requests if name in one) for name in RECORDED],
            "subscription_id": [one["id"] for one in subscriptions],
            "secret_id": secrets[:1],
            "client_id": sorted((one["client_id"] for one in applications), key=lambda one: one != client_id),
            "client_id/secret_id": [one["id"] for one in client_secrets],
            "grant_id": [grants[0]["id"]],
            "reversal_id": [one["id"] for one in reversals],
            "refund_id": [one["id"] for one in refunds],
            "terminal_id": [self.device.terminal.id, self.virtual.id],
            "session_id": [one["session_id"] for one in sessions][:1],
            "user_code": [codes["user_code"]],
            "user_id": [str(self.service.seller_id), str(suspended["user_id"])],
            "store_id": [str(pos["store_id"])],
            "pos_id": [str(pos["pos_id"])],
            "operator_id": [self.owner.operator_id, invited["operator_id"]],
            "scenario": ["approved"],
            "action": ["power_off"],
            "card": ["visa_approved"],
        }

    def paths(self, operation: Operation) -> Iterator[str]:
        """Yield the paths of a page or form: one for each id, with the first of the others."""
        names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
        pairs = itertools.pairwise(["", *names])
        known = [self.values.get(f"{before}/{name}") or self.values.get(name, []) for before, name in pairs]
        assert all(known), f"the tests know no value of {names} in {operation.path}: add it to console_world.World"
        for chosen in itertools.product(*known) if len(names) < 2 else [tuple(values[0] for values in known)]:
            path = operation.path
            for name, value in zip(names, chosen, strict=True):
                path = path.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
            yield path + (f"?seller={self.service.seller_id}" if operation.path in OF_SELLER else "")

    async def until(self, path: str, is_met: Any) -> dict[str, Any]:
        """Return what `/operator/v1` answers once the condition holds."""
        async with asyncio.timeout(HANGS_SECONDS):
            while True:
                found = await self.owner.did("GET", path)
                if is_met(found):
                    return found
                await asyncio.sleep(0.05)


def screens() -> list[Operation]:
    """Return the pages of the console for operators who are signed in, those of the actions included."""
    return [one for one in OPERATIONS if _is_screen(one) and one.method == "GET" and "/pages/assets" not in one.path]


def forms() -> list[Operation]:
    """Return the operations to which the forms of screens are sent."""
    return [one for one in OPERATIONS if _is_screen(one) and one.method == "POST"]


def _is_screen(one: Operation) -> bool:
    return one.surface == "console" and one.path.startswith("/console") and not one.path.endswith(OTHER_ENDS)


@asynccontextmanager
async def world(
    database: Database, folder: Path, *, said: str = RECEIVED, clock: MovableClock | None = None, **options: Any
) -> AsyncIterator[World]:
    """Run a service in development that has one of everything. `said`: what the receiver answers."""
    clock = clock or MovableClock()

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=500, text=said, headers={"X-Said": "no"})

    async with (
        receiver(answer) as listening,
        running(
            database,
            clock=clock,
            development=True,
            has_fleet=True,
            records=True,
            is_public=True,
            journals=folder / "terminals",
            **options,
        ) as service,
    ):
        owner = await operator(service)
        await subscribe(database, listening.url, application_id=_application(service))
        device = await service.device(await service.terminal())
        virtual = await service.terminal(terminal_id=VIRTUAL_ID)
        await service.scene.run(
            "UPDATE terminals SET script = 'manual', is_virtual = 1 WHERE terminal_id = $1", VIRTUAL_ID
        )
        assert service.fleet is not None
        await service.fleet.add(virtual.id, virtual.token, "manual")
        made = World(service, listening, owner, device, virtual, clock)
        await _pay_and_decline(made)
        await made.until("requests?limit=50", _has_recorded)
        await made.until("deliveries?status=pending", lambda found: any(one["attempts"] for one in found["data"]))
        await made.learn_ids()
        yield made


def _has_recorded(found: Mapping[str, Any]) -> bool:
    """Return whether the requests that the pages show are recorded: a worker writes them a little later."""
    rows = found["data"]
    return len(rows) >= 10 and all(any(name in one for one in rows) for name in RECORDED)


def _application(service: Service) -> int:
    return int(service.scene.application.application_id)


async def _pay_and_decline(made: World) -> None:
    """Bring orders to every status that a screen shows in its own way."""
    service, device, orders = made.service, made.device, made.orders
    orders["processed"] = await pay(device)
    orders["partly refunded"] = await pay(device, "80.00")
    assert (await refund(service, orders["partly refunded"], "10.00")).status in (200, 201, 202)
    assert part_of(orders["processed"], "1.00")
    orders["declined"] = await _taken(made, device)
    made.clock.advance(6200)
    assert (await device.authorizing(orders["declined"][3:], seq=2)).status == 200
    made.clock.advance(640)
    await device.result(orders["declined"][3:], outcome="declined", status_detail="insufficient_amount")
    orders["canceled"] = (await _create(device)).body["id"]
    await service.cancel(orders["canceled"])
    # A late approval, which is reversed.
    await device.approve(orders["canceled"][3:])
    refused = await service.request("POST", "/v1/orders", {"type": "point"})
    assert refused.status == 400
    unknown = await service.device(await service.terminal())
    orders["unknown"] = await _taken(made, unknown)
    assert (await unknown.authorizing(orders["unknown"][3:], seq=2)).status == 200
    assert (await unknown.result(orders["unknown"][3:], outcome="unknown")).status == 200
    orders["at terminal"] = await _taken(made, device)
    waiting = await service.terminal()
    orders["created"] = (await service.create(waiting)).body["id"]
    await print_on(service, await service.terminal())


async def _create(device: Device) -> Any:
    created = await device.service.create(
        device.terminal, description="Two coffees", payer={"email": "buyer@mail.example"}
    )
    assert created.status == 201, created.body
    return created


async def _taken(made: World, device: Device) -> str:
    """Create an order whose terminal asks for a card."""
    order_id: str = (await _create(device)).body["id"]
    made.clock.advance(60)
    assert (await device.ack(order_id[3:])).status == 200
    body = {"boot_id": device.boot_id, "seq": 1, "step": "card_requested"}
    assert (await device.post(f"/leases/{order_id[3:]}/progress", body)).status == 200
    return order_id
