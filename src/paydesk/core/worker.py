"""A background worker, and the context that all workers get."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paydesk.core.clock import Clock
from paydesk.core.keys import Keys

if TYPE_CHECKING:
    from paydesk.device.gateway import Gateway
    from paydesk.http.request_recorder import RequestRecorder
    from paydesk.payments.acquirer import Acquirer, Acquirers
    from paydesk.settings import Settings
    from paydesk.storage.database import Database


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What every worker gets. `loopback_allowed`: webhooks may be sent to this machine (development only).

    `development`: this is `paydesk dev`, the only place where webhook faults are applied.
    `gateway` has the terminals that poll this node, `recorder` the requests that wait to be recorded.
    """

    database: Database
    settings: Settings
    clock: Clock
    keys: Keys
    loopback_allowed: bool = False
    development: bool = False
    acquirers: Acquirers | None = None
    gateway: Gateway | None = None
    recorder: RequestRecorder | None = None

    def acquirer(self, *, live: bool) -> Acquirer | None:
        """Return the acquirer of live or of test orders, or None if none is configured."""
        return None if self.acquirers is None else self.acquirers.of(live)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker: its name in the log, and what it does until `stop` is set."""

    name: str
    run: Callable[[WorkerContext, asyncio.Event], Awaitable[None]]
