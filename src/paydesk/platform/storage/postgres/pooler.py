"""A connection pooler between Paydesk and PostgreSQL: how it lends connections, and what it must let through.

In transaction mode each transaction may run on another connection to the server. Nothing of Paydesk depends on a
session then, but on prepared statements, which PgBouncer 1.21 and later carry from one connection to another, and on
the session's settings, which the role has in place of the client's startup message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final, Protocol

import asyncpg

from paydesk.platform.storage.database import Pooling, UnsafeDatabase
from paydesk.platform.storage.postgres.hosts import Expired, Lost

STATEMENTS_LOST: Final = (
    "The connection pooler loses prepared statements. PgBouncer in transaction mode needs version 1.21 or newer with"
    " max_prepared_statements above 0 (1000 is enough for Paydesk); otherwise use pool_mode = session."
)
STATEMENT_MODE: Final = "The connection pooler permits no transactions. Set pool_mode = transaction."
ONE_CONNECTION: Final = (
    "A second connection of the connection pooler got no answer while a first one had a transaction open. Raise"
    " default_pool_size: each process of Paydesk uses up to database_connections_max connections."
)

STATEMENTS_LOST_ERRORS = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)

_TRIES: Final = 10
_BACKEND = "SELECT pg_backend_pid()"
_SETTINGS = """
SELECT name, setting, quote_ident(session_user), quote_ident(current_database())
  FROM pg_settings WHERE name = ANY(CAST($1 AS text[])) ORDER BY name"""


class Connection(Protocol):
    """What is asked of a connection here."""

    def fetch(self, sql: str, args: tuple[Any, ...]) -> Awaitable[Any]:
        """Return all rows."""

    def execute(self, sql: str) -> Awaitable[str]:
        """Run a statement without arguments."""


async def pooling(first: Connection, second: Connection) -> Pooling:
    """Return how a pooler lends connections. Raises `UnsafeDatabase` if it loses prepared statements.

    While the second connection has a transaction open, the first keeps its backend only if that is its own, or by
    chance, which is why this is tried more than once.
    """
    ((before,),) = await first.fetch(_BACKEND, ())
    try:
        for _ in range(_TRIES):
            await second.execute("BEGIN")
            ((other,),) = await second.fetch(_BACKEND, ())
            ((after,),) = await first.fetch(_BACKEND, ())
            await second.execute("ROLLBACK")
            if other == before or after != before:
                return "transaction"
    except STATEMENTS_LOST_ERRORS as error:
        raise UnsafeDatabase(STATEMENTS_LOST) from error
    except Expired as error:
        raise UnsafeDatabase(ONE_CONNECTION) from error
    except Lost as error:
        if "statement pooling" in str(error):
            raise UnsafeDatabase(STATEMENT_MODE) from error
        raise
    return "session"


async def check_settings(connection: Connection, needed: Mapping[str, str]) -> None:
    """Raise `UnsafeDatabase`, with the statements to run, if the server's session lacks settings of Paydesk.

    A pooler ignores or refuses what it does not know in the startup message.
    """
    rows = await connection.fetch(_SETTINGS, (list(needed),))
    lines = [
        f"  ALTER ROLE {role} IN DATABASE {database} SET {name} = '{needed[name]}';"
        for name, value, role, database in rows
        if value != needed[name]
    ]
    if lines:
        raise UnsafeDatabase(
            "The connection pooler does not pass on the settings of Paydesk's sessions, so the role needs them. Run as"
            " this role, then `RECONNECT` in the console of PgBouncer:\n" + "\n".join(lines)
        )
