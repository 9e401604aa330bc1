"""A background worker, and the context that all workers get."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from paydesk.core.clock import Clock
from paydesk.core.keys import Keys
from paydesk.core.objects import Objects
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The context of every worker. `loopback_allowed`: webhooks may be sent to this machine (development only).

    `development`: this is `paydesk dev`, which logs and records for a developer who watches.
    `objects`: those of this process's listener, such as the acquirers and the gateway.
    """

    database: Database
    settings: Settings
    clock: Clock
    keys: Keys
    loopback_allowed: bool = False
    development: bool = False
    objects: Objects = field(default_factory=Objects)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker: its name in the log, and what it does until `stop` is set."""

    name: str
    run: Callable[[WorkerContext, asyncio.Event], Awaitable[None]]
