"""An operation in three steps, served: the intent is committed, somebody asked, the outcome committed and answered.

A repeat that comes meanwhile waits for the answer. Whatever of this a crash cuts off a worker of the domain takes up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from paydesk.core.crash_points import reached
from paydesk.core.errors import RESOURCE_LOCKED, Refusal
from paydesk.core.idempotency import Key, complete
from paydesk.http import idempotency
from paydesk.http.reply import Reply, replayed
from paydesk.operation import Call, ThreePhase
from paydesk.storage.database import Database, Transaction

REPEAT_WAITS_SECONDS_MAX = 10.0
POLL_INTERVAL_SECONDS = 1.0
"""Another node's wake may be lost."""


class ThreePhaseRunner:
    """The three steps of one operation; `reply` makes a reply of what a step answers."""

    def __init__(self, steps: ThreePhase, database: Database, reply: Callable[[Any], Reply]) -> None:
        self._steps, self._database, self._reply = steps, database, reply

    async def run(self, call: Call, key: Key, digest: bytes, conflict_keys: Iterable[Hashable]) -> Reply:
        """The answer of the key, given now or before."""
        begun = await self._begun(call, key, digest, conflict_keys)
        if isinstance(begun, Reply):
            return begun
        reached("intent_committed")
        outcome = await self._steps.ask(call, begun)
        reached("asked")
        return await self._ended(call, key, begun, outcome, conflict_keys)

    async def _begun(self, call: Call, key: Key, digest: bytes, conflict_keys: Iterable[Hashable]) -> Any:
        """The intent, or the reply where there is nothing to ask; a repeat waits for that of the first request."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REPEAT_WAITS_SECONDS_MAX
        while True:
            with self._database.signals.subscribe(key.topic) as answered:
                try:
                    return await self._begin(call, key, digest, conflict_keys)
                except Refusal as refusal:
                    left = deadline - loop.time()
                    if refusal.kind is not RESOURCE_LOCKED or left <= 0:
                        raise
                    await answered.wait(min(left, POLL_INTERVAL_SECONDS))

    async def _begin(self, call: Call, key: Key, digest: bytes, conflict_keys: Iterable[Hashable]) -> Any:
        async def work(tx: Transaction) -> Any:
            call.begin(tx)
            reached("before_claim")
            stored = await idempotency.claim(tx, key, digest, call.now_ms)
            if stored is not None:
                return replayed(stored.status, stored.body)
            reached("after_claim")
            begun = await idempotency.unless_it_wrote(call, self._steps.begin)
            reached("after_effect")
            if isinstance(begun, Refusal):
                await idempotency.release(tx, key)
                return self._reply(begun)
            return begun

        return await self._database.write(work, conflict_keys=conflict_keys)

    async def _ended(self, call: Call, key: Key, intent: Any, outcome: Any, conflict_keys: Iterable[Hashable]) -> Reply:
        call.now_ms = call.clock.now_ms()

        async def work(tx: Transaction) -> Reply:
            call.begin(tx)
            stored = await idempotency.lock(tx, key)
            reply = self._reply(await self._steps.end(call, intent, outcome, late=stored is not None))
            if stored is not None:
                return Reply(stored.status, stored.body)
            completed = await complete(tx, key, reply.status, reply.body)
            assert completed, "the key is held"
            return reply

        reply = await self._database.write(work, conflict_keys=conflict_keys)
        reached("outcome_committed")
        return reply
