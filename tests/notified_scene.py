"""Operators that are notified: a service without workers, a receiver, and the steps that a worker makes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import webhooks_scene as hooks
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.operators.attention import notifying
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from plain_rows import run
from service import KEYS, Service, running

CONSOLE = "https://desk.example"
FAIL = "UPDATE subscriptions SET failing_since_ms = $2 WHERE subscription_id = $1"


@dataclass
class Notified:
    """A service whose operators may have subscriptions, and a receiver of them."""

    service: Service
    desk: Operator
    receiver: hooks.Receiver
    worker: hooks.DeliveryWorker
    clock: MovableClock

    @property
    def context(self) -> WorkerContext:
        """Return what the worker of a node gets."""
        return context_of(self.service, self.service.database)

    async def subscribe(self, *actions: str, url: str = "") -> dict[str, Any]:
        """Subscribe operators; return the document with the secret."""
        made = await hooks.subscribe(
            self.service.database, url or self.receiver.url, actions=actions, application_id=1, topic="operators"
        )
        await run(self.service.database, "UPDATE subscriptions SET created_ms = $1 WHERE created_ms = 0", self.now_ms)
        return {"id": made[0], "secret": made[1]}

    @property
    def now_ms(self) -> int:
        """Return the time."""
        return self.clock.now_ms()

    async def minute(self) -> list[dict[str, Any]]:
        """Let a minute pass; return the notifications that arrive, as JSON."""
        self.clock.advance(60_000)
        return await self.step()

    async def step(self) -> list[dict[str, Any]]:
        """Announce and deliver what is due; return the notifications that arrive, as JSON."""
        before = len(self.receiver.got)
        await notifying.step(self.context)
        await hooks.step(self.worker)
        return [json.loads(one.body) for one in self.receiver.got[before:]]

    async def application(self) -> str:
        """Subscribe the application; return the id."""
        application_id = self.service.scene.application.application_id
        return (await hooks.subscribe(self.service.database, "https://8.8.8.8/hook", application_id=application_id))[0]

    async def fail(self, subscription_id: str, since_ms: int | None) -> None:
        """Let a subscription fail since a time, or no longer."""
        await run(self.service.database, FAIL, subscription_id, since_ms)


def context_of(service: Service, database: Database) -> WorkerContext:
    """Return what a worker on a node of the service gets."""
    settings = Settings(operator_public_url=CONSOLE)
    assert service.shared_objects is not None, "the service runs in this process"
    return WorkerContext(database, settings, service.clock, KEYS, objects=service.shared_objects.objects)


@asynccontextmanager
async def notified(database: Database, answer: hooks.Answering = hooks.ok, **settings: Any) -> AsyncIterator[Notified]:
    """Run a service without workers whose clock stands still, with a receiver."""
    clock = MovableClock()
    clock.freeze()
    async with (
        running(database, clock=clock, workers=False) as service,
        hooks.receiver(answer) as receiver,
        hooks.worker(database, clock, **settings) as worker,
    ):
        yield Notified(service, await operator(service), receiver, worker, clock)
