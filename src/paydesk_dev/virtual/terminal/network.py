"""The network between a virtual terminal and the service: a `Link` that a person can cut, and what disturbs requests.

A script that begins with `flaky:` is a fault of the service's own grammar, so that a run can be repeated by its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable

from paydesk.core.faults import ANY_REQUEST, EVERY_MAX, Fault, create
from paydesk_dev.http_client import Reply

FLAKY_KINDS = ("answer_lost", "reset", "twice", "late", "out_of_order")
FLAKY = "answer_lost,reset,twice,late:1s,out_of_order:1s"

Send = Callable[[], Awaitable[Reply]]


class Link:
    """A connection, up at first."""

    def __init__(self) -> None:
        self._restored = asyncio.Event()
        self._restored.set()
        self._carried = set[asyncio.Timeout]()
        """The scopes of the exchanges under way, which `cut` ends."""
        self._restoring: asyncio.TimerHandle | None = None

    @property
    def is_up(self) -> bool:
        """Whether messages pass."""
        return self._restored.is_set()

    def cut(self, seconds: float | None = None) -> None:
        """Lose the messages under way and all later ones, until `restore`, or for these seconds."""
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
        """Wait these seconds before another try; if the connection is cut, at most until it is restored."""
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


def flaky(probability: float, terminal_id: str, seed: int) -> Fault:
    """Return the fault that disturbs the terminal's requests with this probability, drawn from the seed."""
    every = min(max(round(1 / probability), 1), EVERY_MAX)
    return create("terminal", ANY_REQUEST, FLAKY, {"terminal": terminal_id}, every=every, times=0, seed=seed)


class DisturbedNetwork:
    """The network of one terminal, disturbed by a fault where the service, which has such faults, is another process.

    `counts` has how often by the names of the fault's kinds.
    """

    def __init__(self, fault: Fault, counts: Counter[str]) -> None:
        self._fault, self._counts = fault, counts
        self._sent = self._fired = 0
        self._passed = asyncio.Event()
        """Set once another request was answered."""

    async def exchange(self, send: Send) -> Reply:
        """Send a request, and return the answer. Raises `ConnectionError` for a lost one, and what `send` raises."""
        self._sent += 1
        if not self._fault.hits(self._sent):
            return await self._pass(send)
        self._fired += 1
        kind = self._fault.kind_at(self._fired)
        self._counts[kind.name] += 1
        match kind.name:
            case "reset":
                raise ConnectionResetError("the request was lost")
            case "answer_lost":
                await self._pass(send)
                raise ConnectionResetError("the answer was lost")
            case "twice":
                reply, _ = await asyncio.gather(self._pass(send), self._pass(send))
                return reply
        # Late, or until a later one has overtaken it.
        other = self._passed.wait() if kind.name == "out_of_order" else asyncio.Event().wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(other, self._fault.delay_of(kind))
        return await self._pass(send)

    async def _pass(self, send: Send) -> Reply:
        try:
            return await send()
        finally:
            passed, self._passed = self._passed, asyncio.Event()
            passed.set()
