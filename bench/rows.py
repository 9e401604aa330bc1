"""What is measured: each row of the table, what it is compared with, and in which order a round goes through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Server = Literal["service", "oidc-provider", "prism", "pgbench"]

OPERATIONS = ("noop", "get", "poll", "refresh", "create", "logged")
CONNECTIONS = (1, 32, 128, 256)
DATABASES = ("sqlite", "postgres")
LOGGED_AT = 128
"""What a logged line costs a request hardly depends on how many are connected: once is enough."""
PGBENCH_RAMP_SECONDS = 3
"""PostgreSQL needs so long for 256 new connections; pgbench is measured after it."""
CREATES_PER_SECOND_MAX = 20_000
CREATES_PER_SECOND_ALONE_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `script` is the load's; `beside` names the row of the service that it is held against."""

    name: str
    operation: str
    script: str
    server: Server = "service"
    beside: str | None = None

    @property
    def is_peer(self) -> bool:
        """Whether it is another's service, which has to be installed."""
        return self.server in ("oidc-provider", "prism")

    @property
    def label(self) -> str:
        """How others speak of it."""
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
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one invocation is asked to measure."""

    databases: tuple[str, ...] = DATABASES
    connections: tuple[int, ...] = CONNECTIONS
    operations: tuple[str, ...] = OPERATIONS
    seconds: int = 3
    runs: int = 3
    peers: bool = True

    def steps(self, database: str) -> Iterator[tuple[int, Row, int]]:
        """Round, row and connections, in order: what is compared follows one another closely, in every round."""
        for number in range(1, self.runs + 1):
            for connections in self.connections:
                for row in ROWS:
                    if self._has(row, database, connections):
                        yield number, row, connections

    def _has(self, row: Row, database: str, connections: int) -> bool:
        if row.operation not in self.operations:
            return False
        if row.operation == "logged":
            return connections == self.logged_at
        # The peers' own figures don't depend on our database, so they are measured once, beside PostgreSQL.
        return row.server == "service" or (database == "postgres" and (self.peers or not row.is_peer))

    @property
    def logged_at(self) -> int:
        """With so many connections the logged rows are measured."""
        return max((count for count in self.connections if count <= LOGGED_AT), default=min(self.connections))

    @property
    def families_per_run(self) -> int:
        """A family of tokens for each connection; wrk asks for one request that it doesn't send."""
        return max(self.connections) + 8

    @property
    def refresh_runs(self) -> int:
        """Every run has families of its own, and so has the warm-up."""
        return self.runs * len(self.connections) + 1

    def terminals(self, database: str) -> int:
        """More terminals than creates can be made meanwhile, each on one of its own."""
        creates = sum(
            min(CREATES_PER_SECOND_MAX, CREATES_PER_SECOND_ALONE_MAX * connections)
            * (self.seconds + (PGBENCH_RAMP_SECONDS if row.server == "pgbench" else 0))
            for _, row, connections in self.steps(database)
            if row.server in ("service", "pgbench") and row.name.endswith(("create", "create, logged"))
        )
        return creates + 50_000
