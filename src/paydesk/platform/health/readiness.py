"""The readiness of this node for traffic. The database is checked at most once a second."""

from __future__ import annotations

import asyncio

from paydesk.core.clock import Clock
from paydesk.core.errors import NOT_READY, Refusal
from paydesk.core.keys import Keys
from paydesk.platform.health import store
from paydesk.platform.health.clock import ClockNotTrusted
from paydesk.platform.storage.database import Database, DiskFull, Locked, ReadOnly, Unavailable, UnsafeDatabase
from paydesk.platform.storage.migrate import pending

FRESH_SECONDS = 1.0
ANSWER_SECONDS = 0.7
"""A database that does not respond within this time is unreachable; the client gets that within a second."""


class Readiness:
    """Checks this node, and shares one check of the database between concurrent requests."""

    def __init__(self, database: Database, keys: Keys, clock: Clock) -> None:
        self._database, self._keys, self._clock = database, keys, clock
        self._check: asyncio.Task[Refusal | None] | None = None
        self._started = 0.0
        self.draining = False

    async def refusal(self) -> Refusal | None:
        """Return why this node is not ready, or None."""
        if self.draining:
            return NOT_READY.with_reason("draining", "draining: this process is stopping")
        try:
            self._clock.now_ms()
        except ClockNotTrusted as error:
            return NOT_READY.with_reason(str(error), f"clock: {error}")
        now = asyncio.get_running_loop().time()
        check = self._check
        if check is None or (check.done() and now >= self._started + FRESH_SECONDS):
            check = asyncio.create_task(self._check_database())
            self._check, self._started = check, now
        # A request that joins a check waits only for the rest of its time.
        done, _ = await asyncio.wait((check,), timeout=max(self._started + ANSWER_SECONDS - now, 0))
        return check.result() if done else _unreachable(f"no answer within {ANSWER_SECONDS} s")

    async def _check_database(self) -> Refusal | None:
        try:
            return await self._missing()
        except UnsafeDatabase as error:
            return NOT_READY.with_reason(str(error), "schema: the database belongs to another version")
        except ReadOnly as error:
            return NOT_READY.with_reason(str(error), f"database: read-only: {error}")
        except DiskFull as error:
            return NOT_READY.with_reason(str(error), "database: the disk is full")
        except (Unavailable, Locked) as error:
            return _unreachable(str(error))

    async def _missing(self) -> Refusal | None:
        """Return which migrations or keys are missing, or None. Raises the errors of the database."""
        unapplied = await pending(self._database)
        if unapplied:
            reason = f"the database lacks {', '.join(unapplied)}"
            return NOT_READY.with_reason(reason, "schema: the database lacks migrations; run `paydesk migrate`")
        versions = await self._database.read(store.key_versions)
        await self._database.check_writable()
        missing = [version for version in versions if version not in self._keys.versions]
        if missing:
            reason = f"no server key of version {', '.join(map(str, missing))}"
            return NOT_READY.with_reason(reason, f"keys: {reason}")
        return None


def _unreachable(reason: str) -> Refusal:
    return NOT_READY.with_reason(reason, "database: unreachable")
