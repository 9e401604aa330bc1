"""Virtual terminals driven by API: a running service with a fleet, and one terminal's requests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from paydesk.core.clock import Clock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from service import Reply, Service, Terminal, running
from shared_objects import Chosen

TERMINALS = "/virtual/v1/terminals"


@dataclass(frozen=True, slots=True)
class Virtual:
    """A virtual terminal of a running service, driven with the service's test token unless `token` says another."""

    service: Service
    id: str
    made: dict[str, Any]
    token: str = ""

    @property
    def terminal(self) -> Terminal:
        """Return the terminal, for `Service.create`."""
        return Terminal(self.id, "")

    async def act(self, action: str, **fields: Any) -> dict[str, Any]:
        """Do it; return the screen after it."""
        reply = await self.try_to(action, **fields)
        assert reply.status == 200, (action, reply.body)
        screen: dict[str, Any] = reply.body
        return screen

    async def try_to(self, action: str, **fields: Any) -> Reply:
        """Send an action that may be refused."""
        body = {"action": action, **fields}
        return await self.service.request("POST", f"{TERMINALS}/{self.id}/actions", body, token=self.token, key=None)

    async def screen(self, until: str = "", seconds: int = 10) -> dict[str, Any]:
        """Return the screen, once it is the one `until`."""
        query = f"?wait={seconds}&until={until}" if until else ""
        reply = await self.service.request("GET", f"{TERMINALS}/{self.id}/screen{query}", token=self.token)
        assert reply.status == 200, reply.body
        screen: dict[str, Any] = reply.body
        assert not until or screen["screen"] == until, screen
        return screen

    async def delete(self, query: str = "") -> Reply:
        """Delete it."""
        return await self.service.request("DELETE", f"{TERMINALS}/{self.id}{query}", token=self.token)

    async def order(self, amount: str = "24.90", **fields: Any) -> str:
        """Create an order for it."""
        reply = await self.service.create(self.terminal, amount=amount, **fields)
        assert reply.status == 201, reply.body
        order_id: str = reply.body["id"]
        return order_id


async def create(service: Service, *, token: str = "", **body: Any) -> Virtual:
    """Create a virtual terminal."""
    reply = await service.request("POST", TERMINALS, body, token=token, key=None)
    assert reply.status == 201, reply.body
    return Virtual(service, reply.body["id"], reply.body, token)


async def ended(service: Service, order_id: str, status: str) -> dict[str, Any]:
    """Return the order once it has this status."""
    return await service.until(order_id, status)


@contextlib.asynccontextmanager
async def playing(
    database: Database,
    *,
    clock: Clock | None = None,
    settings: Settings | None = None,
    journals: Path | None = None,
    **chosen: Unpack[Chosen],
) -> AsyncIterator[Service]:
    """Run the service for development with its workers and virtual terminals, whose journals may be in a folder."""
    async with running(
        database,
        clock=clock,
        settings=settings,
        development=True,
        is_public=True,
        has_fleet=True,
        journals=journals,
        **chosen,
    ) as service:
        yield service
