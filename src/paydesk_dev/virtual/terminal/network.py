"""The network between a virtual terminal and the service: a `Link` that a person can cut, and a `FlakyNetwork`.

In the latter messages are lost, doubled, late or reordered. A message is a request or its answer. What becomes of each
is drawn from a seed, so that a run can be repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from paydesk_dev.http_client import Reply
from paydesk_dev.virtual.terminal import tasks

REQUEST_FAULTS = ("lost", "doubled", "late", "reordered")
ANSWER_FAULTS = ("lost", "late", "reordered")
"""HTTP has one answer to a request, so that none can come twice."""
SECONDS_MAX = 2.0
"""How late a message is at most, and how long one waits at most to be overtaken."""
OVERTAKING_SECONDS = 0.05
"""The time that the other message has for its way."""

Send = Callable[[], Awaitable[Reply]]


class Link:
    """A connection, up at first."""

    def __init__(self) -> None:
        self._restored = asyncio.Event()
        self._restored.set()
        self._carried = set[asyncio.Timeout]()
        """The scopes of the exchanges under way, which `cut` ends."""
        self._restoring: asyncio.TimerHandle | None = None
        self.loses_acknowledgement = False
        """Whether the answer to the next acknowledgement is lost."""

    @property
    def is_up(self) -> bool:
        """Whether messages pass."""
        return self._restored.is_set()

    def cut(self, seconds: float | None = None) -> None:
        """Lose the messages under way and all later ones, until `restore` or for so many seconds."""
        self.close()
        self._restored.clear()
        loop = asyncio.get_running_loop()
        for scope in self._carried:
            scope.reschedule(loop.time())
        if seconds is not None:
            self._restoring = loop.call_later(seconds, self.restore)

    def restore(self) -> None:
        """Let messages pass."""
        self.close()
        self._restored.set()

    async def wait(self, sleep: Callable[[float], Awaitable[object]], seconds: float) -> None:
        """Wait so long before another try; if the connection is cut, at most until it is restored."""
        if self.is_up:
            await sleep(seconds)
            return
        try:
            await asyncio.wait_for(self._restored.wait(), seconds)
        except TimeoutError:
            return

    async def carry(self, send: Send) -> Reply:
        """Send a request over the connection, and return the answer.

        Raises `ConnectionError` or `TimeoutError` if it is cut, and what `send` raises.
        """
        if not self.is_up:
            raise ConnectionError("the terminal has no network")
        async with asyncio.timeout(None) as scope:
            self._carried.add(scope)
            try:
                return await send()
            finally:
                self._carried.discard(scope)

    def close(self) -> None:
        """Cancel the timer that would restore it."""
        if self._restoring is not None:
            self._restoring.cancel()


class MessageLost(OSError):
    """The request or its answer was lost; the request may or may not have been processed."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a message: a fault, or none; its number of seconds; of two answers, whether the second counts."""

    fault: str
    seconds: float
    second_counts: bool


class FlakyNetwork:
    """The network of one terminal. Without a seed its faults are random; `counts` has their number by name."""

    def __init__(self, probability: float, seed: str | None, counts: Counter[str]) -> None:
        self.probability, self._counts = probability, counts
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._passing = asyncio.Event()
        self._under_way: set[asyncio.Task[Any]] = set()

    def draw(self, faults: tuple[str, ...]) -> Fate:
        """Return the fate of the next message. Each takes four random numbers, whatever becomes of it."""
        is_hit = self._chance.random() < self.probability
        fault = faults[int(self._chance.random() * len(faults))]
        seconds, second_counts = self._chance.random() * SECONDS_MAX, self._chance.random() < 0.5
        return Fate(fault if is_hit else "", seconds, second_counts)

    async def exchange(self, send: Send) -> Reply:
        """Send a request, and return the answer. Raises `MessageLost`, and what `send` raises."""
        request, answer = self.draw(REQUEST_FAULTS), self.draw(ANSWER_FAULTS)
        match request.fault:
            case "reordered":
                # The terminal gives up waiting, and a later message arrives before this one.
                self._counts["reordered"] += 1
                self._in_background(self._send_overtaken(send))
                await asyncio.sleep(request.seconds)
                raise MessageLost("the request was overtaken by a later one")
            case "doubled":
                self._counts["doubled"] += 1
                both = self._in_background(self._send(send)), self._in_background(self._send(send))
                counting, other = reversed(both) if request.second_counts else both
                try:
                    reply = await counting
                except asyncio.CancelledError:
                    other.cancel()
                    raise
            case _:
                await self._pass(request)
                reply = await self._send(send)
        await self._pass(answer)
        return reply

    async def close(self) -> None:
        """Drop the messages that are under way."""
        await tasks.cancel(*self._under_way)

    async def _send(self, send: Send) -> Reply:
        passing, self._passing = self._passing, asyncio.Event()
        passing.set()
        return await send()

    async def _send_overtaken(self, send: Send) -> Reply:
        await self._be_overtaken()
        return await send()

    async def _pass(self, fate: Fate) -> None:
        """Return when the message arrives. Raises `MessageLost`."""
        if not fate.fault:
            return
        self._counts[fate.fault] += 1
        if fate.fault == "reordered":
            await self._be_overtaken()
        else:
            await asyncio.sleep(fate.seconds)
        if fate.fault == "lost":
            raise MessageLost("a message was lost")

    async def _be_overtaken(self) -> None:
        """Wait until another message was sent, at most `SECONDS_MAX`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._passing.wait(), SECONDS_MAX)
        await asyncio.sleep(OVERTAKING_SECONDS)

    def _in_background(self, work: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
        def ended(task: asyncio.Task[Reply]) -> None:
            self._under_way.discard(task)
            if not task.cancelled():
                task.exception()  # Retrieved: of an answer that does not count, the exception does not count either.

        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(ended)
        return task
