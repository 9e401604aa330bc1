"""A server whose answer was overdue: new requests are refused soon until it answers, others keep their time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import structlog

from event_loops import passes_until
from machine_deadlines import moved_deadlines
from moved_time import advance
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Unavailable
from paydesk.platform.storage.postgres.database import PostgresDatabase
from paydesk.platform.storage.silence import PATIENCE_SECONDS, PAUSE_SECONDS, Silence
from postgres_server import PostgresServer
from service import Reply, Service, Terminal, running
from stopped_postgres import stopped
from waiting import until, until_found

SECONDS = 15


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """A database with a deadline of 15 s, which tests move."""
    with moved_deadlines():
        opened = await open_database(postgres_url, timeout_seconds=SECONDS)
        assert isinstance(opened, PostgresDatabase)
        yield opened
        await opened.close()


async def _begun(service: Service, terminal: Terminal, is_begun: Callable[[], bool]) -> asyncio.Task[Reply]:
    """Begin to create an order; return once its request has come so far."""
    task = asyncio.create_task(service.create(terminal, key=f"key-{terminal.id}"))
    await until(is_begun)
    return task


async def test_new_requests_are_refused_soon_until_the_server_answers(
    postgres_server: PostgresServer, database: PostgresDatabase
) -> None:
    """Within the first second they wait for an answer, then they are refused at once. What was begun is completed."""
    connections, waiting_for_answer = database._connections, database.silence._answered
    async with running(database, workers=False) as service:
        first, under_way, new, last = [await service.terminal() for _ in range(4)]
        assert (await service.create(first)).status == 201
        free = connections._permits
        with stopped(postgres_server):
            expiring = await _begun(service, first, lambda: connections._permits == free - 1)
            advance(SECONDS - 5)
            kept = await _begun(service, under_way, lambda: connections._permits == free - 2)
            advance(5)
            await until(lambda: database.silence.lasts)
            waiting = await _begun(service, new, lambda: bool(waiting_for_answer._waiters))
            advance(PATIENCE_SECONDS)
            refused = [await expiring, await waiting, await service.create(last, key="last")]
            refused.append(await service.request("GET", "/terminals/v1/list"))
            for reply in refused:
                assert (reply.status, reply.code) == (503, "service_unavailable")
                assert reply.headers["retry-after"] == "1"
            assert not kept.done(), kept.result()
        assert (await kept).status == 201
        await until(lambda: not database.silence.lasts)
        assert (await service.create(last, key="last")).status == 201
        assert await service.scene.value("SELECT COUNT(*) FROM orders") == 3


async def test_nothing_ends_the_asking_but_an_answer() -> None:
    """An error that is not expected counts as no answer, and is in the log."""
    answers: list[Exception | bool] = [RuntimeError("a defect"), False, True]

    async def ask(_: float) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    silence = Silence(ask, SECONDS)
    with structlog.testing.capture_logs() as logged:
        silence.begin()
        await passes_until(lambda: not silence.lasts, PAUSE_SECONDS)
    assert [line["event"] for line in logged][:2] == ["database_silence_unclear", "database_silent"]
    await silence.close()


async def test_one_slow_statement_refuses_no_request(database: PostgresDatabase) -> None:
    """The server answers the question whether it does, before the requests that wait for that are refused."""
    async with running(database, workers=False) as service:
        terminal = await service.terminal()
        slow = asyncio.create_task(database.read(lambda tx: tx.one("SELECT pg_sleep(3600)"), heavy=True))
        sleeping = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        await until_found(lambda: service.scene.value(sleeping))
        advance(SECONDS)
        with pytest.raises(Unavailable):
            await slow
        assert database.silence.lasts
        assert (await service.create(terminal)).status == 201
