"""The deadlines of PostgreSQL's answers and of connecting to it, which no test moves.

A statement that is under way when a test moves time would be given up at once: the server's work takes real time.
"""

from __future__ import annotations

from moved_time import by_the_machine
from paydesk.storage.postgres_connections import Connection
from paydesk.storage.postgres_hosts import Hosts
from paydesk.storage.postgres_notify import Relay


def install() -> None:
    """Let the machine's own time decide about every round trip to PostgreSQL in this process."""
    Connection._within_the_deadline = by_the_machine(Connection._within_the_deadline)  # type: ignore[method-assign,assignment]
    Hosts.connect = by_the_machine(Hosts.connect)  # type: ignore[method-assign,assignment]
    Relay._notify = by_the_machine(Relay._notify)  # type: ignore[method-assign,assignment]
