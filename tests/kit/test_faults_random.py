"""Random faults between tills, terminals and the service: no money is lost, and no error comes unasked."""

from __future__ import annotations

import asyncio
import random
import uuid
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog.testing

from authorize_scene import is_consistent, service_terminal
from conftest import short_and_long
from every_operation import OPERATIONS
from paydesk.core import faults
from paydesk.core.faults import KINDS
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.active import ON_WIRE, Active, Faults
from paydesk_dev.faults.requests import EDGE_OF
from print_scene import action_body
from seeds import seeded
from service import Service, order_body, refresh_token
from virtual_scene import Virtual, create, playing

pytestmark = pytest.mark.on_postgres

UNSPENT = 12
"""The faults that wait for their request at any time."""
CALLS_BEFORE_ANOTHER = 40
"""A fault that was not met in this time makes room for another."""
ALL_ARE_MET = 10_000
"""This number of faults meets each operation that tills and virtual terminals send."""
NEVER_SENT = "acquirer_reverse"
"""A virtual terminal sends it if its card is taken out, which no script does."""
SCRIPTS = ("approve:0.01s", "approve:0.01s", "decline:insufficient_amount", "manual")
ARGUMENTS = {"late": ":0.02s", "slow": ":0.02s", "dribble": ":0.02s", "limited": ":0.01s", "out_of_order": ":0.05s"}
SET = {"/status": "weird", "/id": 7, "/data": [], "/transactions/payments/0/amount": "1.00"}


class Bench:
    """Keeps random faults in place, and knows what they met."""

    def __init__(self, service: Service, chance: random.Random) -> None:
        self._faults, self._chance = service.shared.objects[Faults], chance
        self.names = {
            edge: [
                row.name
                for row in OPERATIONS
                if EDGE_OF.get(row.surface) == edge and row.media_type == "application/json"
            ]
            for edge in ON_WIRE
        }
        self._waiting = list[tuple[Active, int]]()
        self._kept = list[Active]()
        self._calls = 0

    @property
    def fired(self) -> int:
        """How often faults have fired."""
        return sum(active.fired for active in self._kept)

    @property
    def request_ids(self) -> set[str]:
        """The ids of the requests that faults met."""
        return {firing.request.request_id for active in self._kept for firing in active.firings}

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """The operations that faults met, each with the kind."""
        return {(firing.operation, firing.kind.name) for active in self._kept for firing in active.firings}

    def refill(self) -> None:
        """Put new faults in the places of those that have fired, or were not met for long."""
        self._calls += 1
        for active, since in list(self._waiting):
            if self._calls - since > CALLS_BEFORE_ANOTHER or (active.fired and not active.firings[0].is_held):
                self._waiting.remove((active, since))
                self._faults.remove(active)
        while len(self._waiting) < UNSPENT:
            active = self._faults.add(self._draw(), 0)
            self._waiting.append((active, self._calls))
            self._kept.append(active)

    def clear(self) -> None:
        """Remove the faults."""
        self._faults.remove(*self._faults)

    def _draw(self) -> faults.Fault:
        edge = self._chance.choice(ON_WIRE)
        name = self._chance.choice(self.names[edge])
        kind = self._chance.choice([kind for kind, edges in KINDS.items() if edge in edges])
        pointer = self._chance.choice(list(SET))
        given: dict[str, Any] = {"set": {pointer: SET[pointer]}} if kind == "altered" else {}
        return faults.create(edge, name, kind + ARGUMENTS.get(kind, ""), **given)


class Till:
    """A till that repeats what was not answered, with the same key, and calls everything else at random."""

    def __init__(self, service: Service, terminals: list[Virtual], bench: Bench, chance: random.Random) -> None:
        self._service, self._terminals, self._bench, self._chance = service, terminals, bench, chance
        self.orders = dict[str, str]()
        """The orders that were acknowledged, by their keys."""
        self.errors = list[tuple[int, str, str]]()
        """The answers of 500 and above: status, request, request id."""

    async def work(self, count: int) -> None:
        """Sell and ask, until so many faults have fired."""
        while self._bench.fired < count:
            await self._sell(self._chance.choice(self._terminals))
            for _ in range(3):
                await self._ask_anything()

    async def _sell(self, terminal: Virtual) -> None:
        key, amount = uuid.uuid4().hex, f"{self._chance.randrange(100, 9000) / 100:.2f}"
        body = order_body(terminal.id, amount, external_reference=f"r{key[:20]}")
        order = await self._repeat("POST", "/v1/orders", body, key=key)
        if order is None or not isinstance(order.get("id"), str):
            return
        order_id = self.orders[key] = order["id"]
        if terminal.made["script"] == "manual":
            await self._send("POST", f"/v1/orders/{order_id}/cancel",
                             headers={"X-Allow-Cancelable-Status": "at_terminal"})  # fmt: skip
        for _ in range(20):
            seen = await self._send("GET", f"/v1/orders/{order_id}")
            if seen is not None and seen[1].get("status") in ("processed", "failed", "canceled", "expired"):
                break
            await asyncio.sleep(0.01)
        if self._chance.random() < 0.5:
            await self._repeat("POST", f"/v1/orders/{order_id}/refund", None, key=uuid.uuid4().hex)

    async def _repeat(self, *request: Any, key: str) -> dict[str, Any] | None:
        """Send it until it is answered; None if it is refused."""
        for _ in range(20):
            answer = await self._send(*request, key=key)
            if answer is not None and answer[0] in (200, 201):
                return answer[1]
            if answer is not None and answer[0] in (400, 401, 403, 404, 409) and answer[1].get("error") != "conflict":
                return None
            await asyncio.sleep(0.01)
        return None

    async def _ask_anything(self) -> None:
        order = self._chance.choice([*self.orders.values()] or ["ORD" + "0" * 26])
        terminal = self._chance.choice(self._terminals)
        client = {**self._service.scene.credentials(), "token": self._service.access_token}
        printed = action_body(terminal.id, external_reference=uuid.uuid4().hex)
        mode = {"terminals": [{"id": terminal.id, "operating_mode": "PDV"}]}
        action = self._chance.choice(
            (
                ("GET", "/v1/orders?limit=5"),
                ("GET", "/v1/events"),
                ("GET", "/terminals/v1/list"),
                ("PATCH", "/terminals/v1/setup", mode),
                ("POST", "/terminals/v1/actions", printed),
                ("GET", "/users/me"),
                ("GET", "/.well-known/oauth-authorization-server"),
                ("POST", "/oauth/introspect", client),
                ("POST", "/oauth/token", None),
                ("POST", "/oauth/revoke", None),
                ("POST", f"/v1/orders/{order}/events", {"status": "processed"}),
            )
        )
        if action[1] in ("/oauth/token", "/oauth/revoke"):
            grant, secret = await refresh_token(self._service), self._service.scene.credentials()
            named = (
                {"grant_type": "refresh_token", "refresh_token": grant} if action[1][-1] == "n" else {"token": grant}
            )
            action = (*action[:2], {**secret, **named})
        answer = await self._send(*action)
        if action[1] == "/terminals/v1/actions" and answer is not None and answer[0] == 201:
            path = f"/terminals/v1/actions/{answer[1].get('id')}"
            await self._send("GET", path)
            await self._send("POST", f"{path}/cancel")

    async def _send(
        self, method: str, path: str, body: Any = None, *, key: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]] | None:
        """Send a request; None if no whole answer came."""
        self._bench.refill()
        sent = {"Authorization": f"Bearer {self._service.access_token}", **(headers or {})}
        if method == "POST":
            sent["X-Idempotency-Key"] = key or str(uuid.uuid4())
        try:
            async with self._service.session.request(
                method, self._service.base_url + path, json=body, headers=sent, allow_redirects=False
            ) as answer:
                if answer.status >= 500:
                    self.errors.append((answer.status, f"{method} {path}", answer.headers.get("X-Request-Id", "")))
                document = await answer.json()
                return answer.status, document if isinstance(document, dict) else {}
        except (aiohttp.ClientError, ValueError, OSError):
            return None


@pytest.mark.long("faults are met one after the other")
@pytest.mark.parametrize("count", short_and_long(250, 10_000))
async def test_random_faults_lose_nothing(database: Database, tmp_path: Path, count: int) -> None:
    """Each acknowledged order is there once, each invariant holds, and each 5xx is one that a fault asked for."""
    chance = seeded()
    async with playing(database, settings=Settings(), journals=tmp_path) as service:
        terminals = [await create(service, script=script) for script in SCRIPTS]
        charged_by_service = await service_terminal(service, kind="service")
        assert service.fleet is not None
        await service.fleet.add(charged_by_service.id, charged_by_service.token, "approve:0.01s", kind="service")
        terminals.append(Virtual(service, charged_by_service.id, {"script": "approve:0.01s"}))
        bench = Bench(service, chance)
        tills = [Till(service, terminals, bench, random.Random(chance.random())) for _ in range(4)]
        with structlog.testing.capture_logs() as logged:
            async with asyncio.timeout(60 + count / 5):
                await asyncio.gather(*(till.work(count) for till in tills))
            bench.clear()
        asked = bench.request_ids
        assert [one for till in tills for one in till.errors if one[2] not in asked] == []
        failed = [line for line in logged if line["log_level"] in ("error", "critical")]
        assert [line for line in failed if line.get("request_id") not in asked] == []
        orders = {key: order_id for till in tills for key, order_id in till.orders.items()}
        for key, order_id in orders.items():
            found = await service.request("GET", f"/v1/orders?external_reference=r{key[:20]}")
            assert [order["id"] for order in found.body["data"]] == [order_id]
        met = {operation for operation, _ in bench.pairs}
        known = {name for names in bench.names.values() for name in names} - {NEVER_SENT}
        assert count < ALL_ARE_MET or met == known
        await is_consistent(service)
    print(f"{bench.fired} faults at {len(bench.pairs)} pairs of operation and kind, {len(orders)} orders")  # noqa: T201
