"""Whether this node may be given traffic, asked of the database at most once a second however many want to know."""

from __future__ import annotations

import asyncio

from paydesk.core.clock import Clock
from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.health import store
from paydesk.health.clock import ClockNotTrusted
from paydesk.health.errors import NOT_READY
from paydesk.storage.database import Database, DiskFull, Locked, ReadOnly, Unavailable, UnsafeDatabase
from paydesk.storage.migrate import behind

FRESH_SECONDS = 1.0
ANSWER_SECONDS = 0.7
"""A database that has not answered by then is away; an asker hears so within a second."""


class Readiness:
    """What stands against giving this node traffic."""

    def __init__(self, database: Database, keys: Keys, clock: Clock) -> None:
        self._database, self._keys, self._clock = database, keys, clock
        self._look: asyncio.Task[Refusal | None] | None = None
        self._began = 0.0
        self.draining = False

    async def refusal(self) -> Refusal | None:
        """Why not, or None."""
        if self.draining:
            return NOT_READY.with_reason("draining", "draining: this process ends")
        try:
            self._clock.now_ms()
        except ClockNotTrusted as error:
            return NOT_READY.with_reason(str(error), f"clock: {error}")
        return await self._seen()

    async def _seen(self) -> Refusal | None:
        now = asyncio.get_running_loop().time()
        look = self._look
        if look is None or (look.done() and now >= self._began + FRESH_SECONDS):
            look = asyncio.create_task(self._look_into_the_database())
            self._look, self._began = look, now
        # Who comes late to a look that hangs waits only for what is left of its time.
        done, _ = await asyncio.wait((look,), timeout=max(self._began + ANSWER_SECONDS - now, 0))
        return look.result() if done else _away(f"no answer within {ANSWER_SECONDS} s")

    async def _look_into_the_database(self) -> Refusal | None:
        try:
            return await self._lacks()
        except UnsafeDatabase as error:
            return NOT_READY.with_reason(str(error), "schema: the database belongs to another version")
        except ReadOnly as error:
            return NOT_READY.with_reason(str(error), f"database: read-only: {error}")
        except DiskFull as error:
            return NOT_READY.with_reason(str(error), "database: its disk is full")
        except (Unavailable, Locked) as error:
            return _away(str(error))

    async def _lacks(self) -> Refusal | None:
        """Return what the database lacks, or None. Raises what a database that can't be used raises."""
        lacking = await behind(self._database)
        if lacking:
            reason = f"the database lacks {', '.join(lacking)}"
            return NOT_READY.with_reason(reason, "schema: the database lacks migrations; run `paydesk migrate`")
        versions = await self._database.read(store.key_versions)
        await self._database.check_writable()
        missing = [version for version in versions if version not in self._keys.versions]
        if missing:
            reason = f"no server key of version {', '.join(map(str, missing))}"
            return NOT_READY.with_reason(reason, f"keys: {reason}")
        return None


def _away(reason: str) -> Refusal:
    return NOT_READY.with_reason(reason, "database: out of reach")
