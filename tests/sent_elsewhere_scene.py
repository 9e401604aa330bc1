"""A service in development with one delivery, which the tests send to another URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import webhooks_scene as scene
from operator_calls import Operator, operator
from paydesk.core.secrets import Secret
from paydesk.platform.storage.database import Database, Transaction
from service import Reply, Service, running

URL = "http://127.0.0.1:9/hooks?shop=7"
KEPT = ("deliveries", "attempts", "subscriptions", "subscription_secrets", "order_events")


@dataclass(frozen=True)
class Desk:
    """A service in development, with a delivery to a subscription, and an operator of role `support`."""

    service: Service
    support: Operator
    subscription_id: str
    secret: Secret
    delivery_id: str

    async def ask(self, url: Any, one: Operator | None = None) -> Reply:
        """Ask to send the notification to this URL."""
        return await (one or self.support).ask("POST", f"deliveries/{self.delivery_id}/send-to", {"url": url})

    async def sent(self, url: str) -> dict[str, Any]:
        """Return what came of the notification at this URL."""
        reply = await self.ask(url)
        assert reply.status == 200, reply.raw
        document: dict[str, Any] = reply.body
        return document

    async def state(self) -> dict[str, list[Any]]:
        """Return the rows that must not change."""

        async def read(tx: Transaction) -> dict[str, list[Any]]:
            return {name: sorted(map(repr, map(tuple, await tx.all(f"SELECT * FROM {name}")))) for name in KEPT}

        return await self.service.database.read(read)


@asynccontextmanager
async def desk(
    database: Database, *, url: str = URL, topic: str = "orders", workers: bool = False, **options: Any
) -> AsyncIterator[Desk]:
    """Run a service, by default without workers: nothing else sends notifications."""
    async with running(database, workers=workers, development=True, **options) as service:
        application_id = service.scene.application.application_id
        subscription_id, secret = await scene.subscribe(database, url, application_id=application_id, topic=topic)
        owner = await operator(service)
        if topic == "orders":
            await service.create(await service.terminal())
        else:
            grant = (await owner.did("GET", "grants"))["data"][0]
            assert (await owner.ask("DELETE", f"grants/{grant['id']}")).status == 204
        (delivery,) = (await owner.did("GET", "deliveries"))["data"]
        await service.scene.run("DELETE FROM operator_audit")
        yield Desk(service, await operator(service, "support"), subscription_id, secret, delivery["id"])
