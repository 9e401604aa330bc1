"""The deadlines of PostgreSQL's answers and of connecting to it, which no test moves but those of the deadlines.

A statement that is under way when a test moves time would be given up at once: the server's work takes real time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from moved_time import by_the_machine
from paydesk.core import runtime
from paydesk.platform.storage.postgres import connections as postgres_connections
from paydesk.platform.storage.postgres.connections import Connection
from paydesk.platform.storage.postgres.hosts import Hosts
from paydesk.platform.storage.postgres.notify import Relay

WAITING: tuple[tuple[Any, str], ...] = ((Connection, "_within_the_deadline"), (Hosts, "connect"), (Relay, "_notify"))
"""What waits for an answer."""


def install() -> None:
    """Let the machine's own time decide about every round trip to PostgreSQL in this process."""
    for owner, name in WAITING:
        setattr(owner, name, by_the_machine(getattr(owner, name)))
    vars(postgres_connections)["monotonic"] = time.monotonic


@contextmanager
def moved_deadlines() -> Iterator[None]:
    """Let moved time decide until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in WAITING:
            patch.setattr(owner, name, getattr(owner, name).__wrapped__)
        patch.setattr(postgres_connections, "monotonic", runtime.monotonic)
        yield
