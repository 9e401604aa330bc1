"""The rows of the table: what each is compared with, and the order of a round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Server = Literal["service", "oidc-provider", "prism", "pgbench"]

OPERATIONS = ("noop", "get", "poll", "refresh", "create", "logged", "half")
CONNECTIONS = (1, 32, 128, 256)
DATABASES = ("sqlite", "postgres")
LOGGED_AT = 128
"""Logged rows and half load are measured once: the cost of a log line hardly depends on the number of connections."""
PGBENCH_RAMP_SECONDS = 3
"""The time in which PostgreSQL accepts 256 connections; pgbench is measured after it."""
CREATES_PER_SECOND_MAX = 20_000
CREATES_PER_SECOND_ALONE_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table. `script` is the load's; `beside` names the service's row with which it is compared."""

    name: str
    operation: str
    script: str
    server: Server = "service"
    beside: str | None = None

    @property
    def is_peer(self) -> bool:
        """Return whether it is a peer, which has to be installed."""
        return self.server in ("oidc-provider", "prism")

    @property
    def label(self) -> str:
        """Return the peer's name."""
        return self.name.partition(":")[0]


ROWS = (
    Row("no-op", "noop", "noop"),
    Row("get", "get", "get"),
    Row("poll", "poll", "poll"),
    Row("refresh", "refresh", "refresh"),
    Row("oidc-provider: refresh", "refresh", "oidc_refresh", "oidc-provider", beside="refresh"),
    Row("create", "create", "create"),
    Row("Prism: create", "create", "create", "prism", beside="create"),
    Row("pgbench: create", "create", "", "pgbench", beside="create"),
    Row("get, logged", "logged", "get", beside="get"),
    Row("create, logged", "logged", "create", beside="create"),
    Row("create, half load", "half", "create"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The selection of one invocation."""

    databases: tuple[str, ...] = DATABASES
    connections: tuple[int, ...] = CONNECTIONS
    operations: tuple[str, ...] = OPERATIONS
    seconds: int = 3
    runs: int = 3
    peers: bool = True

    def steps(self, database: str) -> Iterator[tuple[int, Row, int]]:
        """Yield round, row and connections in order; compared rows follow each other in every round."""
        for number in range(1, self.runs + 1):
            for connections in self.connections:
                for row in ROWS:
                    if self._has(row, database, connections):
                        yield number, row, connections

    def _has(self, row: Row, database: str, connections: int) -> bool:
        if row.operation not in self.operations:
            return False
        if row.operation in ("logged", "half"):
            # Half of the rate that creates had before.
            return connections == self.logged_at and (row.operation == "logged" or "create" in self.operations)
        # The peers' figures do not depend on our database, so they are measured once, with PostgreSQL.
        return row.server == "service" or (database == "postgres" and (self.peers or not row.is_peer))

    @property
    def logged_at(self) -> int:
        """With so many connections the logged rows are measured."""
        return max((count for count in self.connections if count <= LOGGED_AT), default=min(self.connections))

    @property
    def families_per_run(self) -> int:
        """Return the number of token families: one per connection; wrk generates one more request than it sends."""
        return max(self.connections) + 8

    @property
    def refresh_runs(self) -> int:
        """Return the number of families of all runs and the warm-up, which share none."""
        return self.runs * len(self.connections) + 1

    def terminals(self, database: str) -> int:
        """Return a number of terminals above that of the possible creates, one terminal each."""
        creates = sum(
            min(CREATES_PER_SECOND_MAX, CREATES_PER_SECOND_ALONE_MAX * connections)
            * (self.seconds + (PGBENCH_RAMP_SECONDS if row.server == "pgbench" else 0))
            for _, row, connections in self.steps(database)
            if row.server in ("service", "pgbench") and row.name.endswith(("create", "create, logged", "half load"))
        )
        return creates + 50_000
