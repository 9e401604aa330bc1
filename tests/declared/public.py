"""Errors of operations without credentials: health, docs, and the pages of development."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from declared.attempt import Attempt, Table
from faulty_database import FaultyDatabase
from paydesk.operation import Operation
from paydesk.storage.database import Unavailable
from service import Reply, Service

LOOKS_ANEW_SECONDS, LOOKS_MAX = 0.05, 200


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    return Attempt(service, database, operation, body={})


TABLE = Table("public", _good)


@TABLE.way("livez/bad_request", "readyz/bad_request")
async def _two_lengths(attempt: Attempt) -> Reply:
    return await attempt.send_raw("Content-Length: 2", "Content-Length: 3")


@TABLE.way("not_ready")
async def _database_away(attempt: Attempt) -> Reply:
    return await _once_it_looks(attempt, Unavailable("away"))


@TABLE.way("readyz/internal_error")
async def _defect(attempt: Attempt) -> Reply:
    with structlog.testing.capture_logs() as logged:
        reply = await _once_it_looks(attempt, RuntimeError("a defect"))
    assert "unhandled_exception" in {line["event"] for line in logged}
    return reply


async def _once_it_looks(attempt: Attempt, fault: Exception) -> Reply:
    """It looks at the database once a second: what it saw before is gone when this begins."""
    await _until(attempt, lambda reply: reply.status == 200)
    attempt.database.fault = fault
    try:
        return await _until(attempt, lambda reply: reply.status != 200)
    finally:
        attempt.database.fault = None


async def _until(attempt: Attempt, is_it: Callable[[Reply], bool]) -> Reply:
    for _ in range(LOOKS_MAX):
        reply = await attempt.send()
        if is_it(reply):
            return reply
        await asyncio.sleep(LOOKS_ANEW_SECONDS)
    raise AssertionError(reply)
