"""A service of `paydesk dev` with its credentials file, whose orders are removed by resets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev import credentials_file as dev_credentials
from paydesk_dev.dev.credentials import CredentialsFile, LiveCredentials, spare_password
from paydesk_dev.dev.demo import find_or_create
from service import KEYS, Reply, Service, running
from shared_objects import Chosen


@dataclass(frozen=True, slots=True)
class Resettable:
    """A running service, its owner, its clock and its credentials file, which has the service's tokens too."""

    service: Service
    owner: Operator
    clock: MovableClock
    file: Path

    async def reset(self, body: Any = None) -> Reply:
        """Send the request."""
        document = {} if body is None else body
        return await self.service.request("POST", "/dev/reset", document, token=self.owner.token, key=None)

    def document(self) -> dict[str, Any]:
        """Return the credentials file."""
        document: dict[str, Any] = json.loads(self.file.read_text())
        return document

    async def counts(self, *tables: str) -> dict[str, int]:
        """Return how many rows the tables have."""
        return {table: int(await self.service.scene.value(f"SELECT COUNT(*) FROM {table}")) for table in tables}

    async def subscribe(self) -> None:
        """Subscribe the service's application to the demo inbox."""
        scene, url = self.service.scene, f"{self.service.base_url}/demo/inbox"
        await self.service.database.write(
            lambda tx: subscriptions.create(
                tx,
                KEYS,
                application_id=scene.application.application_id,
                live=False,
                url=url,
                actions=(),
                now_ms=0,
            )
        )


@contextlib.asynccontextmanager
async def resettable(
    database: Database, folder: Path, *, workers: bool = True, records: bool = False
) -> AsyncIterator[Resettable]:
    """Run the service with virtual terminals and a credentials file in the folder."""
    clock, file, settings = MovableClock(), folder / "credentials.json", Settings(acquirer="simulator")
    now_ms, base_url = clock.now_ms(), "http://127.0.0.1:8377"
    demo = await database.write(lambda tx: find_or_create(tx, base_url, KEYS, now_ms))
    password = asyncio.create_task(spare_password(file))
    credentials = CredentialsFile(database, KEYS, settings, demo, base_url, now_ms, password)
    await credentials.refresh(file)
    live = LiveCredentials(credentials, file, clock)
    chosen: Chosen = {"credentials": dev_credentials.KeptCredentials(live.texts, live.renew)}
    async with running(
        database,
        clock=clock,
        settings=settings,
        workers=workers,
        development=True,
        has_fleet=True,
        journals=folder / "terminals",
        records=records,
        **chosen,
    ) as service:
        document = json.loads(file.read_text())
        file.write_text(json.dumps({**document, "scene": [service.access_token, service.live_access_token]}))
        yield Resettable(service, await operator(service), clock, file)
