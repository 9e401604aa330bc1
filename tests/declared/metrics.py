"""Errors of the pages that Prometheus reads."""

from __future__ import annotations

from declared.attempt import Attempt, Table
from faulty_database import FaultyDatabase
from paydesk.platform.operation import Operation
from service import Reply, Service

VARIABLE, TOKEN = "METRICS_TOKEN", "0123456789abcdef" * 2


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    return Attempt(service, database, operation, token=TOKEN)


TABLE = Table("metrics", _good, elsewhere=("internal_error", "service_unavailable"))
"""The page of the process needs no database."""


@TABLE.way("bad_request")
async def _two_lengths(attempt: Attempt) -> Reply:
    return await attempt.send_raw("Content-Length: 2", "Content-Length: 3")
