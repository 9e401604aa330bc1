"""Carries wakes between the nodes of one PostgreSQL: LISTEN and NOTIFY on a connection of its own.

What is carried are hints. They are sent after the commit and never within it, since transactions that notify commit one
after another; they are gathered for a few milliseconds, and lost with the connection. Whatever they tell is found
without them too, only later.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Collection, Coroutine, Iterable
from itertools import islice
from typing import Any, Final, Self

import asyncpg
import structlog

from paydesk.core.signals import EVERYTHING, Signals
from paydesk.storage.database import Unavailable, UnsafeDatabase
from paydesk.storage.postgres_hosts import Hosts

CROSSING: Final = (
    "terminal:",
    "moved:",
    "device:",
    "family:",
    "authorization:",
    "applications",
    "sellers",
    "known-",
    "answer:",
    "reads:",
    "remote-events:",
    EVERYTHING,
)
"""What others wait for or remember. The rest stays: `deliveries` and `money`, since this node's worker does what this
node wrote and the others look every second; `events:`, which goes as `remote-events:` while a client waits on another
node; `clock` and `stop`, a process's own."""

CHANNEL: Final = "paydesk"
NOTIFY = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest(CAST($1 AS text[])) AS payload"

GATHER_SECONDS = 0.005
TOPICS_MAX = 10_000
PAYLOAD_BYTES_MAX = 7_999
HEARTBEAT_SECONDS = 5.0
ANSWER_SECONDS_MAX = 5.0
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 15.0
CLOSE_SECONDS_MAX = 1.0

PORTION, PORTION_SECONDS = 20, 0.01
"""After a new connection all who wait are woken, so many at a time: all at once they would hold everybody else up."""

_AWAY = (
    Unavailable,
    UnsafeDatabase,
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)

log = structlog.get_logger("wakes")


class Relay:
    """Sends this node's wakes to the others and hears theirs, for as long as its block lasts.

    The heartbeat must come back as a notification: a connection that is silently dead, or a pooler that hands LISTEN to
    one server connection and the rest to another, is noticed.
    """

    def __init__(self, url: str, signals: Signals) -> None:
        self._hosts, self._signals = Hosts(url), signals
        self._node = secrets.token_hex(8)
        self._topics: dict[str, None] = {}
        self._unwoken: dict[str, None] = {}
        self._filled, self._heard = asyncio.Event(), asyncio.Event()
        self._connected = False
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._signals.publish_remote = self.carry
        self._start(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._signals.publish_remote = None
        self._closing = True
        self._filled.set()
        # The last wakes still go out, unless the database is away.
        await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS_MAX)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def carry(self, topics: Collection[str]) -> None:
        """Take what others may care for; it never waits and never fails. Too much becomes `everything`."""
        for topic in topics:
            if topic.startswith(CROSSING):
                self._topics[topic] = None
        if len(self._topics) > TOPICS_MAX:
            self._topics = {EVERYTHING: None}
        if self._topics:
            self._filled.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        pause = PAUSE_SECONDS_MIN
        while True:
            self._connected = False
            try:
                await self._converse()
            except _AWAY as error:
                log.warning("wakes are not carried", reason=str(error) or type(error).__name__)
            except Exception:
                log.exception("wakes are not carried, by a defect")
            if self._closing:
                return
            pause = PAUSE_SECONDS_MIN if self._connected else min(pause * 2, PAUSE_SECONDS_MAX)
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - so that nodes don't return in step

    async def _converse(self) -> None:
        """Connect, listen, and send what there is, until the connection or the node ends."""
        connection = await self._hosts.connect(
            ANSWER_SECONDS_MAX,
            # Nothing that is sent here needs to be durable, on this server or on a standby.
            server_settings={"application_name": "paydesk wakes", "synchronous_commit": "off"},
        )
        connection.add_termination_listener(lambda _: self._filled.set())
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await connection.add_listener(CHANNEL, self._on_notification)
            await self._notify(connection, ())
            self._connected = self._signals.remote_connected = True
            log.info("wakes are carried")
            # From here on nothing is missed; what happened before may have been.
            self._everything_changed()
            while self._topics or not self._closing:
                await self._send(connection)
            await connection.close(timeout=CLOSE_SECONDS_MAX)
        finally:
            self._signals.remote_connected = False
            self._signals.notify_local(("remote_lost",))
            if not connection.is_closed():
                connection.terminate()

    async def _send(self, connection: asyncpg.Connection) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._filled.wait()
        except TimeoutError:
            await self._notify(connection, ())
            return
        await asyncio.sleep(GATHER_SECONDS)
        self._filled.clear()
        topics, self._topics = self._topics, {}
        try:
            await self._notify(connection, topics)
        except BaseException:
            # Not sent, or not known to be: to be sent with the next connection.
            self.carry((*topics, *self._topics))
            raise

    async def _notify(self, connection: asyncpg.Connection, topics: Iterable[str]) -> None:
        """Send the topics, and wait until they are heard on this very connection. Raises `TimeoutError`."""
        self._heard.clear()
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await connection.execute(NOTIFY, payloads(self._node, topics))
                await self._heard.wait()
        except TimeoutError:
            raise TimeoutError("what was notified did not come back; is there a pooler between?") from None

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        node, *topics = payload.split("\n")
        if node == self._node:
            self._heard.set()
        elif EVERYTHING in topics:
            self._everything_changed()
        else:
            self._signals.notify_local(topics)

    def _everything_changed(self) -> None:
        """Wakes were lost: what is remembered is dropped at once, and all who wait look again, some at a time."""
        self._signals.notify_local((EVERYTHING,))
        is_waking = bool(self._unwoken)
        self._unwoken |= dict.fromkeys(topic for topic in self._signals.waited_on() if topic.startswith(CROSSING))
        if self._unwoken and not is_waking:
            self._start(self._wake_all())

    async def _wake_all(self) -> None:
        while self._unwoken and not self._closing:
            portion = tuple(islice(self._unwoken, PORTION))
            for topic in portion:
                del self._unwoken[topic]
            self._signals.notify_local(portion)
            await asyncio.sleep(PORTION_SECONDS)


def payloads(node: str, topics: Iterable[str]) -> list[str]:
    """The topics in as few payloads as PostgreSQL takes, one at least, each behind the sender's name."""
    lines, size, done = [node], len(node), []
    for topic in topics:
        topic_bytes = len(topic.encode()) + 1
        if size + topic_bytes > PAYLOAD_BYTES_MAX:
            done.append("\n".join(lines))
            lines, size = [node], len(node)
        lines.append(topic)
        size += topic_bytes
    return [*done, "\n".join(lines)]
