"""Connections to PostgreSQL: a deadline for every round trip, a free list without reset queries, start-up checks.

After its deadline a connection is dropped, not canceled: a COMMIT that waits for a standby would, if canceled, become
visible without being replicated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg
from asyncpg.protocol import protocol

from paydesk.core.metrics import Labels
from paydesk.core.runtime import monotonic
from paydesk.platform.storage.database import Pooling, ReadOnly, Unavailable, UnsafeDatabase
from paydesk.platform.storage.postgres.hosts import Expired, Hosts, Lost, Unanswered
from paydesk.platform.storage.postgres.pooler import (
    STATEMENTS_LOST,
    STATEMENTS_LOST_ERRORS,
    check_settings,
    pooling,
)
from paydesk.platform.storage.silence import Silence

T = TypeVar("T")

VERSION_MIN: Final = 15
STATEMENTS_CACHED_MAX = 1000

BY_KEY: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "cpu_tuple_cost": "1",
    "jit": "off",
}
"""Plans are made once and find rows by their keys, also if the tables were small when the plan was made.

This includes queries that page through many rows: without statistics (before the first ANALYZE, or after a crash, which
loses them), the server's own plans took over a minute to check 30,000 orders instead of three seconds.
"""

STANDBY: Final = "This PostgreSQL is a standby; the primary is needed."

_LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.DatabaseDroppedError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)

_SESSION = """
SELECT current_setting('server_version_num'), current_setting('synchronous_commit'),
       current_setting('is_superuser'), pg_is_in_recovery(), current_setting('fsync', true),
       pid, backend_start
  FROM pg_stat_activity WHERE pid = pg_backend_pid()"""

# A backend that waits for a standby has committed, keeps its rows locked, and must not be canceled.
_END_BACKEND = """
SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
 WHERE pid = $1 AND backend_start = $2 AND wait_event IS DISTINCT FROM 'SyncRep'"""


def _take_only_lists_for_arrays() -> None:
    """Let asyncpg take lists and tuples for arrays, and no other iterables.

    It asks each member of an array whether it is iterable, which is a tenth of a create in a batch: abstract base
    classes are slow. The names are private; in a version without them nothing changes.
    """
    names = {"IterableABC": (list, tuple), "SizedABC": (list, tuple), "MappingABC": dict}
    if names.keys() <= vars(protocol).keys():
        vars(protocol).update(names)


_take_only_lists_for_arrays()


class Connection:
    """A connection, used by one unit of work or batch at a time."""

    __slots__ = (
        "_deadline", "_loop", "_overdue", "_raw", "_seconds", "_timer", "backend", "expired", "is_pooled", "types",
        "warned",
    )  # fmt: skip

    def __init__(
        self,
        raw: asyncpg.Connection,
        seconds: float,
        types: dict[str, tuple[str, ...] | None],
        overdue: Callable[[], None],
    ) -> None:
        self._raw = raw
        self._overdue = overdue
        self.types = types
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.backend: tuple[Any, ...] = ()
        """The id of the server's process, and when it began."""
        self.is_pooled = False
        """Whether a pooler is in between: the server's process may be another one for each transaction."""
        self.expired = False
        self.warned = False

    def listen_to_warnings(self) -> None:
        """Set `warned` at a warning of the server. Raises `asyncpg.InterfaceError` if the connection was lost."""
        self._raw.add_log_listener(self._note_warning)

    def _note_warning(self, _connection: object, message: Any) -> None:
        self.warned = self.warned or message.severity_en == "WARNING"

    @property
    def usable(self) -> bool:
        """Whether another unit of work can use it."""
        return not self._raw.is_closed() and not self._raw.is_in_transaction()

    def fetch(self, sql: str, args: tuple[Any, ...]) -> Awaitable[Any]:
        """Return all rows, in one round trip."""
        return self._within_the_deadline(self._raw.fetch(sql, *args))

    async def parameter_types(self, sql: str) -> tuple[str, ...] | None:
        """Return the types of a statement's parameters, or None if one is an array or not a built-in type."""
        if sql not in self.types:
            parameters = await self._within_the_deadline(self._described(sql))
            plain = all(parameter.kind == "scalar" and parameter.schema == "pg_catalog" for parameter in parameters)
            self.types[sql] = tuple(parameter.name for parameter in parameters) if plain else None
        return self.types[sql]

    async def _described(self, sql: str) -> Any:
        statement = await self._raw.prepare(sql)
        # Checks the connection, which may have been lost since the response.
        return statement.get_parameters()

    def fetch_many(self, sql: str, many: list[tuple[Any, ...]]) -> Awaitable[Any]:
        """Run a statement once for each tuple of arguments and return all rows in order, in one round trip."""
        return self._within_the_deadline(self._raw.fetchmany(sql, many))

    def execute(self, sql: str, args: tuple[Any, ...] = ()) -> Awaitable[str]:
        """Return the command's tag, such as `UPDATE 3`, in one round trip."""
        return self._within_the_deadline(self._raw.execute(sql, *args))

    async def _within_the_deadline(self, round_trip: Awaitable[T]) -> T:
        # asyncpg's own timeouts send a cancel request; dropping the connection does not.
        self._deadline = monotonic() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._check_deadline)
        try:
            return await round_trip
        except _LOST as error:
            raise self._lost(error) from error
        except (asyncpg.InterfaceError, AttributeError) as error:
            # asyncpg also raises InterfaceError for wrong arguments, which are a defect of the work, and AttributeError
            # if the connection is dropped between the steps of one statement.
            if self._raw.is_closed():
                raise self._lost(error) from error
            raise
        finally:
            self._deadline = None

    def _check_deadline(self) -> None:
        """Expire an overdue round trip. The timer lasts for many: to set and cancel one for each would cost more."""
        self._timer = None
        if self._deadline is None:
            return
        seconds_left = self._deadline - monotonic()
        if seconds_left > 0:
            self._timer = self._loop.call_later(seconds_left, self._check_deadline)
        else:
            self._expire()

    def _lost(self, error: Exception) -> Lost | Expired:
        if self.expired:
            return Expired(f"PostgreSQL did not answer within {self._seconds} s.")
        return Lost(str(error) or type(error).__name__)

    def _expire(self) -> None:
        self.expired = True
        self.drop()
        self._overdue()

    def drop(self) -> None:
        """Close the socket without a message to the server."""
        if self._timer is not None:
            self._timer.cancel()
        self._raw.terminate()

    async def close(self) -> None:
        """Close the connection with a message to the server."""
        self._raw.remove_log_listener(self._note_warning)
        await self._raw.close(timeout=self._seconds)
        self.drop()


class Connections:
    """A pool of at most `connections_max`, last in, first out."""

    def __init__(self, url: str, *, connections_max: int, timeout_seconds: float, lock_timeout_seconds: float) -> None:
        self._url, self._hosts = url, Hosts(url)
        self._timeout_seconds = timeout_seconds
        self._settings = {
            "application_name": "paydesk",
            "lock_timeout": str(round(lock_timeout_seconds * 1000)),
            **BY_KEY,
        }
        self.types: dict[str, tuple[str, ...] | None] = {}
        self._free: list[Connection] = []
        # Not a semaphore of asyncio's, which costs more than the rest of `acquire` and `release`.
        self._connections_max = self._permits = connections_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._left: set[tuple[Any, ...]] = set()
        self.silence = Silence(self._is_answered, timeout_seconds)

    def by_state(self) -> dict[Labels, float]:
        """Return how many connections units of work use, also if one is being opened."""
        return {("in_use",): self._connections_max - self._permits, ("idle",): len(self._free)}

    async def acquire(self) -> Connection:
        """Return a free connection or a new one. Raises `Unavailable` if none is free in time."""
        if self._permits:
            self._permits -= 1
        else:
            await self._wait_for_permit()
        try:
            connection = self._usable_free() or await self._connect(self._timeout_seconds)
            if self._left:
                await self._end_left(connection)
        except BaseException:
            self._release_permit()
            raise
        return connection

    async def pooling(self) -> Pooling | None:
        """Return how a pooler lends connections, None without one. Raises `UnsafeDatabase` or `Unavailable`."""
        first = await self._connect(self._timeout_seconds, is_first=True)
        self._free.append(first)
        mode = None
        try:
            if first.is_pooled:
                second = await self._connect(self._timeout_seconds, is_first=True)
                self._free.append(second)
                mode = await pooling(first, second)
            await self._check_settings(first)
        except (Lost, Expired) as error:
            raise Unavailable(f"PostgreSQL cannot be reached: {error}") from error
        return mode

    async def _check_settings(self, connection: Connection) -> None:
        if connection.is_pooled or self._hosts.refuse_settings:
            await check_settings(connection, {name: self._settings[name] for name in ("lock_timeout", *BY_KEY)})

    def _usable_free(self) -> Connection | None:
        while self._free:
            connection = self._free.pop()
            if connection.usable:
                return connection
            connection.drop()
        return None

    def leave(self, connection: Connection) -> None:
        """Before any other work, end the backend of a connection that was lost within a statement that commits.

        The statement may not have reached it, and must not run later.
        """
        self._left.add(connection.backend)

    async def _end_left(self, connection: Connection) -> None:
        try:
            for backend in tuple(self._left):
                await connection.fetch(_END_BACKEND, backend)
                self._left.discard(backend)
        except (Lost, Expired) as error:
            connection.drop()
            raise Unavailable(f"PostgreSQL: {error}") from error

    async def _wait_for_permit(self) -> None:
        permit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(permit)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await permit
        except BaseException as error:
            if not permit.cancelled():
                # It came just when the waiting ended.
                self._release_permit()
            if isinstance(error, TimeoutError):
                raise Unavailable("Every connection to PostgreSQL is busy.") from None
            raise

    def _release_permit(self) -> None:
        while self._waiting:
            permit = self._waiting.popleft()
            if not permit.done():
                permit.set_result(None)
                return
        self._permits += 1

    def release(self, connection: Connection) -> None:
        """Return the connection to the pool, unless it is broken."""
        if connection.usable:
            self._free.append(connection)
        else:
            connection.drop()
        self._release_permit()

    def drop_free(self) -> None:
        """Drop the idle connections after one was lost: they are to the same server."""
        for connection in self._free:
            connection.drop()
        self._free.clear()

    async def close(self) -> None:
        """Close the idle connections. The caller waits for the others first."""
        await self.silence.close()
        for connection in self._free:
            await connection.close()
        self._free.clear()

    def _overdue(self) -> None:
        """Begin a silence. The idle connections may be as dead as the one that did not answer."""
        if not self.silence.lasts:
            self.drop_free()
            self.silence.begin()

    async def _is_answered(self, seconds: float) -> bool:
        """Return whether the server answers to a new connection within the time, also if it refuses it."""
        try:
            connection = await self._connect(seconds)
        except Unanswered:
            return False
        except (Unavailable, UnsafeDatabase, asyncpg.PostgresError):
            return True
        connection.drop()
        return True

    async def _connect(self, seconds: float, *, is_first: bool = False) -> Connection:
        try:
            raw = await self._hosts.connect(
                seconds,
                server_settings=self._settings,
                statement_cache_size=STATEMENTS_CACHED_MAX,
                max_cached_statement_lifetime=0,
            )
        except Unanswered:
            self._overdue()
            raise
        connection = Connection(raw, seconds, self.types, self._overdue)
        try:
            connection.listen_to_warnings()
            *session, pid, began = (await connection.fetch(_SESSION, ()))[0]
            connection.backend = (pid, began)
            _check(*session)
            connection.is_pooled = raw.get_server_pid() != pid
            if not is_first:
                await self._check_settings(connection)
        except STATEMENTS_LOST_ERRORS as error:
            connection.drop()
            raise UnsafeDatabase(STATEMENTS_LOST) from error
        except Expired as error:
            raise Unanswered(f"PostgreSQL cannot be reached: {error}") from error
        except (Lost, asyncpg.InterfaceError) as error:
            connection.drop()
            raise Unavailable(f"PostgreSQL cannot be reached: {error}") from error
        except BaseException:
            connection.drop()
            raise
        return connection


def _check(version: str, synchronous_commit: str, superuser: str, in_recovery: bool, fsync: str | None) -> None:  # noqa: FBT001 - a row
    """Raise `UnsafeDatabase` for a server that can lose acknowledged commits, `ReadOnly` for a standby."""
    if int(version) // 10_000 < VERSION_MIN:
        raise UnsafeDatabase(f"PostgreSQL {VERSION_MIN} or newer is needed; this server is {int(version) // 10_000}.")
    if synchronous_commit in ("off", "local"):
        raise UnsafeDatabase(
            f"synchronous_commit is {synchronous_commit}: a crash or failover would lose acknowledged commits. "
            "Set it to on for this role and database."
        )
    if fsync == "off":
        raise UnsafeDatabase("fsync is off: a crash of the machine would lose acknowledged commits. Set it to on.")
    if superuser == "on":
        raise UnsafeDatabase("The role is a superuser. Give Paydesk a role of its own that owns its database.")
    if in_recovery:
        raise ReadOnly(STANDBY)
