"""A shop that sells while versions change: terminals that ask their acquirer themselves, and of kind `service`."""

from __future__ import annotations

import secrets
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import shared_objects
from authorize_scene import SET_KIND, request_of
from oauth_scene import make_scene
from paydesk.core.clock import MovableClock
from paydesk.engine.terminals.schemas import Kind
from paydesk.platform.storage.connect import open_database
from service import Service, access_token, approved, order_body
from switch_process import SwitchProcess
from upgrade import kept
from upgrade.versions import Version

TABLE = """
[acquirers.{name}]
adapter = "http"
url = "http://127.0.0.1:{port}/paydesk"
key_id = "shop-1"
secret = "file:{key}"
capabilities = {{ needs_confirmation = true, confirm_before = 3600, at_deadline = "confirms" }}
"""
OPEN = """
SELECT 1 FROM confirmations WHERE seller_id = $1 AND status IN ('provisional', 'confirming')
 UNION ALL SELECT 1 FROM refunds WHERE seller_id = $1 AND status = 'processing'
 UNION ALL SELECT 1 FROM inquiries WHERE seller_id = $1 AND ended_ms IS NULL
 UNION ALL SELECT 1 FROM reversals WHERE seller_id = $1 AND status = 'pending'"""
EVENTS = "SELECT kind, message FROM operator_events WHERE seller_id = $1"


@dataclass
class Till:
    """A terminal, and the application that sells at it: one sale after the other.

    Of a terminal of kind `service` each second one is refunded; the others' acquirer is not known to the service.
    """

    access_token: str
    terminal_id: str
    device_token: str
    kind: Kind
    boot_id: str = ""
    sold: list[str] = field(default_factory=list)

    def sells(self, pick: Callable[[], Version]) -> None:
        """Sell and refund, each request at the version that `pick` returns. Raises `AssertionError`."""
        if not self.boot_id:
            boot_id = str(uuid.uuid4())
            hello = {"boot_id": boot_id, "app_version": "1", "journal": []}
            pick().ask("POST", "/device/v1/hello", self.device_token, hello)
            self.boot_id = boot_id
        body = order_body(self.terminal_id)
        order_id: str = pick().ask("POST", "/v1/orders", self.access_token, body, expected=201)["id"]
        lease, boot = f"/device/v1/leases/{order_id[3:]}", {"boot_id": self.boot_id}
        pick().ask("POST", f"{lease}/ack", self.device_token, boot)
        self._is_paid(pick, lease, boot)
        order = pick().ask("GET", f"/v1/orders/{order_id}", self.access_token)
        assert order["status"] == "processed", order
        self.sold.append(order_id)
        if self.kind == "service" and len(self.sold) % 2:
            pick().ask("POST", f"/v1/orders/{order_id}/refund", self.access_token, expected=201)

    def _is_paid(self, pick: Callable[[], Version], lease: str, boot: dict[str, Any]) -> None:
        result = {**boot, **approved()}
        if self.kind == "service":
            answer = pick().ask("POST", f"{lease}/authorize", self.device_token, request_of(self.boot_id))
            assert answer["outcome"] == "approved", answer
            if not answer.get("result_required"):
                return
            result["reference_id"] = answer["reference_id"]
        else:
            pick().ask("POST", f"{lease}/progress", self.device_token, {**boot, "seq": 1, "step": "authorizing"})
        pick().ask("PUT", f"{lease}/results/{uuid.uuid4()}", self.device_token, result)


@dataclass
class Shop:
    """A seller on a database of the version before, whose tills are open for test orders and for live ones."""

    database_url: str
    seller_id: int
    test: Till
    live: Till
    """At a terminal that asks its acquirer itself."""
    served: Till
    """At a terminal whose live orders need an acquirer in the service."""

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about the seller."""
        database = await open_database(self.database_url, exclusive=False)
        try:
            return [tuple(row) for row in await database.read(lambda tx: tx.all(sql, self.seller_id))]
        finally:
            await database.close()

    async def is_settled(self) -> bool:
        """Return whether no job at an acquirer is open."""
        return not await self.rows(OPEN)

    async def events(self) -> list[tuple[str, str]]:
        """Return the operators' events about the seller."""
        return await self.rows(EVENTS)


async def opened(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Write the shop into the database."""
    monkeypatch.setitem(shared_objects.KEYS._keys, 1, kept.KEY)
    database = await open_database(database_url)
    try:
        async with aiohttp.ClientSession() as session:
            scene = await make_scene(database)
            scene.clock = clock = MovableClock()
            tokens = {live: await access_token(scene, clock.now_ms(), live=live) for live in (False, True)}
            service = Service("", database, clock, scene, session, tokens[False], tokens[True])
            tills = []
            kinds: tuple[tuple[Kind, bool], ...] = (("service", False), ("terminal", True), ("service", True))
            for kind, live in kinds:
                # What is kept has those that tests count.
                terminal = await service.terminal(live=live, terminal_id=f"NEWLAND_N950__{secrets.token_hex(8)}")
                await scene.run(SET_KIND, service.seller_id, terminal.id, kind, None)
                tills.append(Till(tokens[live], terminal.id, terminal.token, kind))
            return Shop(database_url, service.seller_id, *tills)
    finally:
        await database.close()


def acquirers_file(folder: Path, switch: SwitchProcess, *names: str) -> str:
    """Write a file that names the switch, which confirms by itself after an hour; return its path."""
    (key := folder / "new.key").chmod(0o600)
    file = folder / f"{'-'.join(names)}.toml"
    file.touch(0o600)
    file.write_text("".join(TABLE.format(name=name, port=switch.port, key=key) for name in names))
    return str(file)


def booked(switch: SwitchProcess) -> dict[str, int]:
    """Return how many entries of each kind its ledger has."""
    with closing(sqlite3.connect(switch.folder / "switch.db")) as database:
        return dict(database.execute("SELECT kind, count(*) FROM ledger GROUP BY kind").fetchall())
