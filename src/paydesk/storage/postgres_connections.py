"""Connections to PostgreSQL: a deadline on every round trip, a free list without reset queries, start-up checks.

On a deadline a connection is dropped, never canceled: a canceled COMMIT that waits for a standby becomes visible
without being replicated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

import asyncpg

from paydesk.storage.database import ReadOnly, Unavailable, UnsafeDatabase
from paydesk.storage.postgres_hosts import Hosts

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
"""Rows are found by their keys, by plans that are made once, however few rows there were then: rows are what costs.

Also for what looks at many rows, page after page: before the first ANALYZE, and after a crash, which takes what the
server had counted, its own choice made the ledger's check of 30,000 orders last more than a minute instead of three
seconds.
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

_ABOUT_THE_SESSION = """
SELECT current_setting('server_version_num'), current_setting('synchronous_commit'),
       current_setting('is_superuser'), pg_is_in_recovery(), current_setting('fsync', true)"""


class Lost(Exception):
    """The connection is gone, or the server is."""


class Expired(Exception):
    """The deadline of a round trip passed, and the connection was dropped."""


class Connection:
    """One connection; used by one unit of work at a time."""

    __slots__ = ("_loop", "_raw", "_seconds", "_types", "expired", "warned")

    def __init__(self, raw: asyncpg.Connection, seconds: float, types: dict[str, tuple[str, ...] | None]) -> None:
        self._raw = raw
        self._types = types
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self.expired = False
        self.warned = False

    def listen_to_warnings(self) -> None:
        """Note the server's warnings in `warned`. Raises `asyncpg.InterfaceError` where the connection is gone."""
        self._raw.add_log_listener(self._note_warning)

    def _note_warning(self, _connection: object, message: Any) -> None:
        self.warned = self.warned or message.severity_en == "WARNING"

    @property
    def usable(self) -> bool:
        """Whether another unit of work can have it."""
        return not self._raw.is_closed() and not self._raw.is_in_transaction()

    async def fetch(self, sql: str, args: tuple[Any, ...]) -> Any:
        """One round trip: all rows."""
        return await self._within_the_deadline(self._raw.fetch(sql, *args))

    async def parameter_types(self, sql: str) -> tuple[str, ...] | None:
        """The types of a statement's parameters, or None where one of them is an array or of the user's own making."""
        if sql not in self._types:
            parameters = await self._within_the_deadline(self._described(sql))
            plain = all(parameter.kind == "scalar" and parameter.schema == "pg_catalog" for parameter in parameters)
            self._types[sql] = tuple(parameter.name for parameter in parameters) if plain else None
        return self._types[sql]

    async def _described(self, sql: str) -> Any:
        statement = await self._raw.prepare(sql)
        # It asks whether the connection still lives, which may have ended since the answer came.
        return statement.get_parameters()

    async def fetch_many(self, sql: str, many: list[tuple[Any, ...]]) -> Any:
        """One round trip: the rows of one statement run with each of many arguments, in their order."""
        return await self._within_the_deadline(self._raw.fetchmany(sql, many))

    async def execute(self, sql: str, args: tuple[Any, ...] = ()) -> str:
        """One round trip: the command's tag, such as `UPDATE 3`."""
        tag: str = await self._within_the_deadline(self._raw.execute(sql, *args))
        return tag

    async def _within_the_deadline(self, round_trip: Awaitable[T]) -> T:
        # asyncpg's own timeouts send a cancel request; dropping the connection does not.
        timer = self._loop.call_later(self._seconds, self._expire)
        try:
            return await round_trip
        except _LOST as error:
            raise self._gone(error) from error
        except (asyncpg.InterfaceError, AttributeError) as error:
            # Also what asyncpg says of wrong arguments: those are a defect of the work. Where the connection is dropped
            # between the steps of one statement, it looks for what is no longer there.
            if self._raw.is_closed():
                raise self._gone(error) from error
            raise
        finally:
            timer.cancel()

    def _gone(self, error: Exception) -> Lost | Expired:
        if self.expired:
            return Expired(f"PostgreSQL did not answer within {self._seconds} s.")
        return Lost(str(error) or type(error).__name__)

    def _expire(self) -> None:
        self.expired = True
        self.drop()

    def drop(self) -> None:
        """Close the socket without another word."""
        self._raw.terminate()

    async def close(self) -> None:
        """Say goodbye to the server."""
        self._raw.remove_log_listener(self._note_warning)
        await self._raw.close(timeout=self._seconds)


class Connections:
    """The free list: at most `connections_max`, the one used last is used first."""

    def __init__(self, url: str, *, connections_max: int, timeout_seconds: float, lock_timeout_seconds: float) -> None:
        self._url, self._hosts = url, Hosts(url)
        self._timeout_seconds = timeout_seconds
        self._settings = {
            "application_name": "paydesk",
            "lock_timeout": f"{round(lock_timeout_seconds * 1000)}ms",
            **BY_KEY,
        }
        self._types: dict[str, tuple[str, ...] | None] = {}
        self._free: list[Connection] = []
        self._permits = asyncio.Semaphore(connections_max)

    async def take(self) -> Connection:
        """A free connection, or a new one. Raises `Unavailable` when there is none to be had in time."""
        if self._permits.locked():
            await self._wait_for_permit()
        else:
            await self._permits.acquire()
        try:
            while self._free:
                connection = self._free.pop()
                if connection.usable:
                    return connection
                connection.drop()
            return await self._connect()
        except BaseException:
            self._permits.release()
            raise

    async def _wait_for_permit(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._permits.acquire()
        except TimeoutError:
            raise Unavailable("Every connection to PostgreSQL is busy.") from None

    def give_back(self, connection: Connection) -> None:
        """Let the next one have it, unless it broke."""
        if connection.usable:
            self._free.append(connection)
        else:
            connection.drop()
        self._permits.release()

    def drop_free(self) -> None:
        """One connection was lost: the others that are idle go to the same server."""
        for connection in self._free:
            connection.drop()
        self._free.clear()

    async def close(self) -> None:
        """Close those that are idle; the caller waits for the others first."""
        for connection in self._free:
            await connection.close()
        self._free.clear()

    async def _connect(self) -> Connection:
        raw = await self._hosts.connect(
            self._timeout_seconds,
            server_settings=self._settings,
            statement_cache_size=STATEMENTS_CACHED_MAX,
            max_cached_statement_lifetime=0,
        )
        connection = Connection(raw, self._timeout_seconds, self._types)
        try:
            connection.listen_to_warnings()
            _check(*(await connection.fetch(_ABOUT_THE_SESSION, ()))[0])
        except (Lost, Expired, asyncpg.InterfaceError) as error:
            # It was there a moment ago.
            connection.drop()
            raise Unavailable(f"PostgreSQL cannot be reached: {error}") from error
        except BaseException:
            connection.drop()
            raise
        return connection


def _check(version: str, synchronous_commit: str, superuser: str, in_recovery: bool, fsync: str | None) -> None:  # noqa: FBT001 - a row
    """Refuse, on every new connection, what could lose acknowledged commits."""
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
