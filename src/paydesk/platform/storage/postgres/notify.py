"""Exchanges notifications between the nodes of one PostgreSQL database: LISTEN and NOTIFY on a separate connection.

Notifications are hints. They are sent after the commit, because PostgreSQL commits transactions that notify one after
the other, are collected for 5 ms, and are lost with the connection. Nodes find every change without them, only later.
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
from paydesk.platform.storage.database import Unavailable, UnsafeDatabase
from paydesk.platform.storage.postgres.hosts import Hosts

REMOTE_TOPICS: Final = (
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
    "hint:",
    "watching",
    EVERYTHING,
)
"""Prefixes of the topics that other nodes wait for or cache. The rest is local: `deliveries` and `money`, because this
node's workers process what it wrote and the others poll every second; `events:`, which is published as `remote-events:`
while a client waits on another node; `clock` and `stop`, which concern this process."""

CHANNEL: Final = "paydesk"
NOTIFY = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest(CAST($1 AS text[])) AS payload"

COALESCE_SECONDS = 0.005
TOPICS_MAX = 10_000
PAYLOAD_BYTES_MAX = 7_999
HEARTBEAT_SECONDS = 5.0
ALONE_HEARTBEATS = 3
"""A node that hears no other during this many of its own heartbeats publishes nothing but these. A message for each
order would be a tenth of the order's cost."""
ANSWER_SECONDS_MAX = 5.0
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 15.0
CLOSE_SECONDS_MAX = 1.0

PORTION, PORTION_SECONDS = 20, 0.01
"""After a reconnect all waiters are notified in portions: all at once they would delay every other task."""

_CONNECTION_ERRORS = (
    Unavailable,
    UnsafeDatabase,
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)

log = structlog.get_logger("notifications")


class Relay:
    """Publishes this node's topics to the others and receives theirs until the end of its block.

    A heartbeat must come back as a notification: that detects a dead connection, and a pooler that sends LISTEN and
    NOTIFY to different server connections.
    """

    def __init__(self, url: str, signals: Signals) -> None:
        self._hosts, self._signals = Hosts(url), signals
        self._node = secrets.token_hex(8)
        self._topics: dict[str, None] = {}
        self._unnotified: dict[str, None] = {}
        self._pending, self._received = asyncio.Event(), asyncio.Event()
        self._heartbeats_alone, self._next_heartbeat = 0, 0.0
        self._connected = False
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._signals.publish_remote = self.publish
        self._start(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._signals.publish_remote = None
        self._closing = True
        self._pending.set()
        # Send the last topics, unless the database is unreachable.
        await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS_MAX)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_alone(self) -> bool:
        """Whether no other node is there, as far as this one has heard."""
        return self._heartbeats_alone > ALONE_HEARTBEATS

    def publish(self, topics: Collection[str]) -> None:
        """Queue topics for the other nodes, if any. Never waits or fails; too many topics become `everything`."""
        if self.is_alone:
            return
        for topic in topics:
            if topic.startswith(REMOTE_TOPICS):
                self._topics[topic] = None
        if len(self._topics) > TOPICS_MAX:
            self._topics = {EVERYTHING: None}
        if self._topics:
            self._pending.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        pause = PAUSE_SECONDS_MIN
        while True:
            self._connected = False
            try:
                await self._serve()
            except _CONNECTION_ERRORS as error:
                log.warning("notifications_disconnected", reason=str(error) or type(error).__name__)
            except Exception:
                log.exception("notifications_failed")
            if self._closing:
                return
            pause = PAUSE_SECONDS_MIN if self._connected else min(pause * 2, PAUSE_SECONDS_MAX)
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret

    async def _serve(self) -> None:
        """Connect, listen, and send topics until the connection or the node ends."""
        connection = await self._hosts.connect(
            ANSWER_SECONDS_MAX,
            # Notifications need not be durable, here or on a standby.
            server_settings={"application_name": "paydesk notifications", "synchronous_commit": "off"},
        )
        connection.add_termination_listener(lambda _: self._pending.set())
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await connection.add_listener(CHANNEL, self._on_notification)
            # A lone node publishes once it hears this, first `everything`, in place of what it did not publish before.
            await self._notify(connection, ())
            self._connected = self._signals.remote_connected = True
            log.info("notifications_connected")
            # Earlier notifications may have been missed; later ones are not.
            self._everything_changed()
            while self._topics or not self._closing:
                await self._send(connection)
            await connection.close(timeout=CLOSE_SECONDS_MAX)
        finally:
            self._signals.remote_connected = False
            self._expect_others()
            self._signals.notify_local(("remote_lost",))
            if not connection.is_closed():
                connection.terminate()

    async def _send(self, connection: asyncpg.Connection) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._pending.wait()
        except TimeoutError:
            await self._notify(connection, ())
            return
        await asyncio.sleep(COALESCE_SECONDS)
        self._pending.clear()
        topics, self._topics = self._topics, {}
        try:
            await self._notify(connection, topics)
        except BaseException:
            # Perhaps not sent: to be sent on the next connection.
            self.publish((*topics, *self._topics))
            raise

    async def _notify(self, connection: asyncpg.Connection, topics: Iterable[str]) -> None:
        """Send the topics and wait until this connection receives them. Raises `TimeoutError`."""
        self._received.clear()
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await connection.execute(NOTIFY, payloads(self._node, topics))
                await self._received.wait()
        except TimeoutError:
            raise TimeoutError(
                "a notification did not come back: set database_listen_url to PostgreSQL itself, not to a pooler"
            ) from None
        # Of what others sent before, everything has been received by now, also after a pause of this process.
        now = asyncio.get_running_loop().time()
        if now >= self._next_heartbeat:
            self._heartbeats_alone, self._next_heartbeat = self._heartbeats_alone + 1, now + HEARTBEAT_SECONDS

    def _expect_others(self) -> None:
        """Publish again. If this node was alone, others may have missed any topic."""
        was_alone, self._heartbeats_alone = self.is_alone, 0
        if was_alone:
            self.publish((EVERYTHING,))

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        node, *topics = payload.split("\n")
        if node == self._node:
            self._received.set()
            return
        self._expect_others()
        if EVERYTHING in topics:
            self._everything_changed()
        else:
            self._signals.notify_local(topics)

    def _everything_changed(self) -> None:
        """Notifications may be lost: clear all caches now, and notify all waiters in portions."""
        self._signals.notify_local((EVERYTHING,))
        is_running = bool(self._unnotified)
        self._unnotified |= dict.fromkeys(
            topic for topic in self._signals.waited_on() if topic.startswith(REMOTE_TOPICS)
        )
        if self._unnotified and not is_running:
            self._start(self._notify_all())

    async def _notify_all(self) -> None:
        while self._unnotified and not self._closing:
            portion = tuple(islice(self._unnotified, PORTION))
            for topic in portion:
                del self._unnotified[topic]
            self._signals.notify_local(portion)
            await asyncio.sleep(PORTION_SECONDS)


def payloads(node: str, topics: Iterable[str]) -> list[str]:
    """Return the topics in as few payloads as PostgreSQL permits, at least one, each starting with the sender's id."""
    lines, size, done = [node], len(node), []
    for topic in topics:
        topic_bytes = len(topic.encode()) + 1
        if size + topic_bytes > PAYLOAD_BYTES_MAX:
            done.append("\n".join(lines))
            lines, size = [node], len(node)
        lines.append(topic)
        size += topic_bytes
    return [*done, "\n".join(lines)]
