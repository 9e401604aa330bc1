"""`/livez` and `/readyz`: who may be given traffic, and what is said of who may not."""

from __future__ import annotations

import asyncio
import time

import pytest
import structlog

from moved_time import advance
from paydesk import __version__
from paydesk.core.clock import SystemClock
from paydesk.core.keys import Keys
from paydesk.core.version import version
from paydesk.engine.orders import expiry
from paydesk.platform.health import readiness as health
from paydesk.platform.health.clock import JUMP_SECONDS_MAX, ClockJumped, WatchedClock
from paydesk.platform.health.readiness import Readiness
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, T, Unavailable, Work
from paydesk.platform.worker import WorkerContext
from paydesk.service.serve import _drain
from postgres_server import PostgresServer
from raw_http import exchange, head
from service import KEYS, Service, refresh_token, running
from stopped_postgres import stopped
from waiting import until, until_found
from webhooks_scene import subscribe

HOUR_NS = 3600 * 10**9
NEXT = """
INSERT INTO schema_migrations (version, name, checksum, applied_ms, runs_with)
VALUES (9999, '9999_next.sql', '', 0, $1)"""
ANSWER_SECONDS, FRESH_SECONDS = 60.0, 600.0


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the database more time than a busy machine needs, so that only a move of time ends it."""
    monkeypatch.setattr(health, "ANSWER_SECONDS", ANSWER_SECONDS)
    monkeypatch.setattr(health, "FRESH_SECONDS", FRESH_SECONDS)


class Counted:
    """A database that counts its reads, and may hang."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name, self.signals, self.silence = database.name, database.signals, database.silence
        self.reads, self.answers = 0, asyncio.Event()
        self.answers.set()

    async def write(self, work: Work[T], **options: object) -> T:
        """Not asked for."""
        raise AssertionError((work, options))

    async def read(self, work: Work[T], *, heavy: bool = False) -> T:
        """Read, once it answers."""
        self.reads += 1
        await self.answers.wait()
        return await self._database.read(work, heavy=heavy)

    async def check_writable(self) -> None:
        """Ask the database."""
        await self._database.check_writable()

    async def close(self) -> None:
        """Nothing of its own."""


class Wall:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def now_ns(self) -> int:
        """What the machine would say."""
        return time.time_ns() + self.ahead_ns


@pytest.mark.on_postgres
async def test_a_healthy_node(service: Service) -> None:
    """It lives and is ready, says what runs, and both answers are not to be kept."""
    for path, body in (("/livez", {"status": "alive"}), ("/readyz", {"status": "ready", "version": version()})):
        reply = await service.request("GET", path, token=None)
        assert (reply.status, reply.body) == (200, body)
        assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["10.1.2.3:8377", "elsewhere.example", ""])
async def test_health_checks_accept_any_host(service: Service, host: str) -> None:
    """Load balancers ask by address, and some name no host at all."""
    for path in ("/livez", "/readyz"):
        assert (await exchange(service, head("GET", path, "Connection: close", host=host))).status == 200
    assert (await exchange(service, head("GET", "/docs", host=host))).status in (400, 421)


async def test_draining(database: Database) -> None:
    """A node that is about to end is not ready, and lives."""
    readiness = Readiness(database, KEYS, SystemClock())
    async with running(database, readiness=readiness) as service:
        assert (await service.request("GET", "/readyz")).status == 200
        readiness.draining = True
        reply = await service.request("GET", "/readyz")
        assert (reply.status, reply.code, reply.details) == (503, "not_ready", ["draining: this process is stopping"])
        assert reply.headers["retry-after"] == "1"
        assert (await service.request("GET", "/livez")).status == 200


async def test_draining_ends(database: Database) -> None:
    """After its time, and then the node stops."""
    readiness, stop = Readiness(database, KEYS, SystemClock()), asyncio.Event()
    _drain(readiness, 300, stop)
    assert (readiness.draining, stop.is_set()) == (True, False)
    advance(300)
    await stop.wait()


@pytest.mark.on_postgres
async def test_the_database_is_checked_at_most_once_a_second(database: Database) -> None:
    """However many want to know."""
    counted = Counted(database)
    readiness = Readiness(counted, KEYS, SystemClock())
    assert await asyncio.gather(*(readiness.refusal() for _ in range(200))) == [None] * 200
    asked = counted.reads
    assert asked <= 2
    assert await readiness.refusal() is None
    assert counted.reads == asked
    readiness._started -= FRESH_SECONDS
    assert await readiness.refusal() is None
    assert counted.reads > asked


@pytest.mark.on_postgres
async def test_concurrent_requests_share_a_check(database: Database) -> None:
    """Who waited for one look is not given the next one, which is still under way."""
    counted = Counted(database)
    counted.answers.clear()
    readiness = Readiness(counted, KEYS, SystemClock())
    first = asyncio.create_task(readiness.refusal())
    await until(lambda: counted.reads > 0)
    look = readiness._check
    assert look is not None
    look.add_done_callback(lambda _: setattr(readiness, "_check", asyncio.create_task(asyncio.Event().wait())))
    counted.answers.set()
    assert await first is None
    assert readiness._check is not None
    readiness._check.cancel()


@pytest.mark.on_postgres
async def test_a_database_that_hangs(database: Database) -> None:
    """The answer does not hang with it; who asks later does not even wait; one look is under way, not many."""
    counted = Counted(database)
    counted.answers.clear()
    readiness = Readiness(counted, KEYS, SystemClock())
    refusing = asyncio.gather(*(readiness.refusal() for _ in range(20)))
    await until(lambda: counted.reads > 0)
    advance(ANSWER_SECONDS)
    refusals = await refusing
    assert {str(refusal) for refusal in refusals} == {f"not_ready: no answer within {ANSWER_SECONDS} s"}
    assert await readiness.refusal() is not None
    assert counted.reads == 1
    counted.answers.set()
    assert readiness._check is not None
    await readiness._check
    readiness._started -= FRESH_SECONDS
    assert await readiness.refusal() is None


async def test_postgresql_that_stops_answering(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped rather than dead: not ready within a second, ready again when it goes on."""
    monkeypatch.undo()
    assert health.ANSWER_SECONDS < 1
    database = await open_database(postgres_url)
    async with running(database, workers=False) as service:
        assert await _until(service, 200) == []
        with stopped(postgres_server):
            reply = await _until(service, 503)
            assert reply == ["database: unreachable"]
            assert (await service.request("GET", "/livez")).status == 200
        assert await _until(service, 200) == []
    await database.close()


async def _until(service: Service, status: int) -> list[str]:
    async def details() -> list[list[str]]:
        reply = await service.request("GET", "/readyz")
        return [reply.details if status == 503 else []] if reply.status == status else []

    (found,) = await until_found(details)
    return found


@pytest.mark.on_postgres
async def test_a_database_of_another_version(database: Database) -> None:
    """Without its tables a node is not ready, nor with later migrations on which it may not run, but with others."""
    readiness = Readiness(database, KEYS, SystemClock())
    await database.write(lambda tx: tx.run(NEXT, __version__))
    assert await readiness.refusal() is None
    for change, reason in (
        ("UPDATE schema_migrations SET runs_with = '999.0.0' WHERE version = 9999", "belongs to another version"),
        ("UPDATE schema_migrations SET name = '0001_other.sql' WHERE version = 1", "belongs to another version"),
        ("DELETE FROM schema_migrations", "run `paydesk migrate`"),
    ):
        await database.write(lambda tx, change=change: tx.run(change))  # type: ignore[misc]
        readiness._started -= FRESH_SECONDS
        refusal = await readiness.refusal()
        assert refusal is not None
        assert refusal.details[0].startswith("schema: ")
        assert reason in refusal.details[0]


@pytest.mark.on_postgres
async def test_a_key_that_is_missing(service: Service) -> None:
    """A node that lacks a key with which webhooks are signed is not ready."""
    await subscribe(
        service.database, "https://till.example/hook", application_id=service.scene.application.application_id
    )
    readiness = Readiness(service.database, Keys(7, {7: b"k" * 32}), service.clock)
    refusal = await readiness.refusal()
    assert refusal is not None
    assert refusal.details == ("keys: no server key of version 1",)


@pytest.mark.on_postgres
async def test_a_clock_that_jumps(database: Database) -> None:
    """Forward or back: not ready, requests that need the time are refused, workers leave all as it is; then it is back.

    An order that would have expired by the wrong clock is alive afterwards, and so is the token that was refreshed.
    """
    wall = Wall()
    clock = WatchedClock(wall.now_ns)
    async with running(database, clock=clock, workers=False) as service:
        order = (await service.create(await service.terminal())).body
        refreshing = await refresh_token(service)
        context = WorkerContext(database, Settings(), clock, KEYS)
        for ahead_ns in (24 * HOUR_NS, -24 * HOUR_NS):
            with structlog.testing.capture_logs() as logged:
                wall.ahead_ns = ahead_ns
                reply = await service.request("GET", "/readyz")
                assert (reply.status, reply.code) == (503, "not_ready")
                jumped = f"clock: the wall clock jumped by {ahead_ns // 10**9} s since this process started"
                assert reply.details == [jumped]
                assert (await service.request("GET", "/livez")).status == 200
                refused = await service.request("GET", f"/v1/orders/{order['id']}")
                assert (refused.status, refused.code) == (503, "service_unavailable")
                assert "clock" in refused.body["message"]
                flat = await service.request("POST", "/oauth/token", service.scene.refresh(refreshing))
                assert (flat.status, flat.body["error"]) == (503, "service_unavailable")
                with pytest.raises(Unavailable):
                    await expiry.EXPIRY.step(context)
                wall.ahead_ns = 0
                assert await service.get(order["id"]) == order
            events = [line["event"] for line in logged if line["event"].startswith("clock_")]
            assert events == ["clock_jumped", "clock_trusted"]
        assert await expiry.EXPIRY.step(context) == 0
        assert (await service.request("GET", "/readyz")).status == 200
        assert (await service.request("POST", "/oauth/token", service.scene.refresh(refreshing))).status == 200


def test_small_clock_changes_are_no_jump() -> None:
    """What a time server corrects is nothing to stop for; a process that starts trusts the clock that it finds."""
    steady_ns = 5 * HOUR_NS
    wall = Wall()
    clock = WatchedClock(lambda: 100 * HOUR_NS + wall.ahead_ns, lambda: steady_ns)
    for seconds in (0, JUMP_SECONDS_MAX - 1, 1 - JUMP_SECONDS_MAX):
        wall.ahead_ns = seconds * 10**9
        assert clock.now_ms() == 100 * 3_600_000 + seconds * 1000
    wall.ahead_ns = (JUMP_SECONDS_MAX + 1) * 10**9
    with pytest.raises(ClockJumped, match="jumped by 301 s"):
        clock.now_ms()
    assert WatchedClock(lambda: 100 * HOUR_NS + wall.ahead_ns, lambda: steady_ns).now_ms() > 0
