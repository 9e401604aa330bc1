"""The wait for locks of PostgreSQL during a migration: it is short, and the sessions that keep the lock are named.

A statement that waits for a lock on a table lets every later one of other sessions wait too.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from types import TracebackType
from typing import Self

from paydesk.platform.storage.database import Database, Locked, Row, Transaction, Unavailable

WAIT_SECONDS = 5.0
QUERY_CHARACTERS_MAX = 80

_BEGIN = "SELECT pg_backend_pid(), set_config('lock_timeout', $1, $2)"
_HOLDERS = """
SELECT pid, application_name, state,
       to_char(COALESCE(xact_start, backend_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), query
  FROM pg_stat_activity WHERE pid = ANY(pg_blocking_pids($1)) ORDER BY pid"""
_VALUE = re.compile(
    r"""(/\*.*?(?:\*/|$)|--[^\n]*)|'(?:[^'\\]|''|\\.)*(?:'|\\?$)|"[^"]*(?:"|$)|\$\w*\$.*|\b\d[\w.]*""", re.DOTALL
)
"""Parts of a statement that may be secrets or personal data: comments, texts, quoted names and numbers, cut off or not.

A backslash is always read as an escape: where it is none, more is masked.
"""


class LockWatch:
    """Notes which sessions keep the lock that a work waits for, and names them in the `Locked` that it ends with."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pid, self._holders = 0, list[Row]()

    async def begin(self, tx: Transaction, *, in_transaction: bool) -> None:
        """Let the work wait for a lock for at most `WAIT_SECONDS`, to the end of its transaction if it has one."""
        self._holders = []
        ((self._pid, _),) = await tx.all(_BEGIN, f"{round(WAIT_SECONDS * 1000)}ms", in_transaction)

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, _type: object, error: BaseException | None, _traceback: TracebackType | None) -> None:
        self._watching.cancel()
        await asyncio.wait((self._watching,))
        if isinstance(error, Locked) and self._pid:
            holders = "; ".join(map(_described, self._holders)) or "it has ended, or is a prepared transaction"
            raise Locked(
                f"The migration was given up and not applied: another session has kept a lock that it needs for more"
                f" than {WAIT_SECONDS:g} s: {holders}. Wait for the end of that session, or end it, and run `paydesk"
                " migrate` again."
            ) from error

    async def _watch(self) -> None:
        while self._database.name == "postgres":
            # The first look opens the connection of all others, before a lock is waited for.
            with suppress(Unavailable, Locked):
                found = await self._database.read(lambda tx: tx.all(_HOLDERS, self._pid))
                self._holders = found or self._holders
            await asyncio.sleep(WAIT_SECONDS / 10)


def _described(holder: Row) -> str:
    """Return a session in a few words, with the beginning of its query without values."""
    pid, application, state, since, query = holder
    harmless = _VALUE.sub(lambda match: " " if match[1] else "?", query or "")
    begin = " ".join(harmless.split())[:QUERY_CHARACTERS_MAX]
    return f"pid {pid} ({application or 'no application_name'}, {state or 'state unknown'}, since {since} UTC): {begin}"
