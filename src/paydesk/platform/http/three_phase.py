"""Run a three-phase operation: commit the intent, call the external system, commit the outcome and the response.

A repeated request waits meanwhile for the response. A worker of the domain resumes an operation that a crash cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from paydesk.core.crash_points import reached
from paydesk.core.errors import RESOURCE_LOCKED, Refusal
from paydesk.platform import idempotency
from paydesk.platform.http.reply import Reply, replayed
from paydesk.platform.idempotency import complete
from paydesk.platform.idempotency_key import Key
from paydesk.platform.operation import Call, ThreePhase
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Transaction

REPEAT_WAITS_SECONDS_MAX = 10.0
POLL_INTERVAL_SECONDS = 1.0
"""A notification of another node may be lost."""


class ThreePhaseRunner:
    """Runs one operation; `reply` turns what a phase returns into a reply."""

    def __init__(self, phases: ThreePhase, database: Database, reply: Callable[[Any], Reply]) -> None:
        self._phases, self._database, self._reply = phases, database, reply

    async def run(self, call: Call, key: Key, digest: bytes, conflict_keys: tuple[ConflictKey, ...]) -> Reply:
        """Return the key's response, new or stored."""
        intent = await self._begin_or_wait(call, key, digest, conflict_keys)
        if isinstance(intent, Reply):
            return intent
        reached("intent_committed")
        outcome = await self._phases.call(call, intent)
        reached("asked")
        return await self._finish(call, key, intent, outcome, conflict_keys)

    async def _begin_or_wait(self, call: Call, key: Key, digest: bytes, conflict_keys: tuple[ConflictKey, ...]) -> Any:
        """Return the committed intent, or the reply of a refused or repeated request."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REPEAT_WAITS_SECONDS_MAX
        while True:
            with self._database.signals.subscribe(key.topic) as completed:
                try:
                    return await self._begin(call, key, digest, conflict_keys)
                except Refusal as refusal:
                    left = deadline - loop.time()
                    if refusal.kind is not RESOURCE_LOCKED or left <= 0:
                        raise
                    await completed.wait(min(left, POLL_INTERVAL_SECONDS))

    async def _begin(self, call: Call, key: Key, digest: bytes, conflict_keys: tuple[ConflictKey, ...]) -> Any:
        call.read_wall_clock()

        async def work(tx: Transaction) -> Any:
            call.begin(tx)
            reached("before_claim")
            stored = await idempotency.claim(tx, key, digest, call.now_ms)
            if stored is not None:
                return replayed(stored.status, stored.body)
            reached("after_claim")
            intent = await idempotency.unless_it_wrote(call, self._phases.begin)
            reached("after_effect")
            if isinstance(intent, Refusal):
                await idempotency.release(tx, key)
                return self._reply(intent)
            return intent

        return await self._database.write(work, conflict_keys=conflict_keys)

    async def _finish(
        self, call: Call, key: Key, intent: Any, outcome: Any, conflict_keys: tuple[ConflictKey, ...]
    ) -> Reply:
        call.now_ms = call.clock.now_ms()

        async def work(tx: Transaction) -> Reply:
            call.begin(tx)
            stored = await idempotency.lock(tx, key)
            reply = self._reply(await self._phases.finish(call, intent, outcome, late=stored is not None))
            if stored is not None:
                return Reply(stored.status, stored.body)
            completed = await complete(tx, key, reply.status, reply.body)
            assert completed or call.shared.development, "the key is locked, and only a reset in development deletes it"
            return reply

        reply = await self._database.write(work, conflict_keys=conflict_keys)
        reached("outcome_committed")
        return reply
