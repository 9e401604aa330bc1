"""The rules of a run: the next actions, drawn by Hypothesis, sequential and concurrent."""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from model import ending, outsiders
from model.figures import Figures
from model.shop import TERMINALS, Death, Shop, opened
from model.world import Op
from paydesk.core.crash_points import LABELS, STEP_LABELS
from paydesk.engine.orders import status

T = TypeVar("T")
WAIT_SECONDS_MAX = 120.0

terminals = st.integers(0, TERMINALS - 1)
kinds = st.sampled_from(
    (
        *("next",) * 8,
        *("create", "get", "cancel", "cancel_at_terminal", "cancel_at_terminal", "ack", "step"),
        *("authorizing", "result", "result", "release", "refund", "refund_part", "refund_part", "charge"),
    )
)
requests = st.tuples(
    kinds,
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from(("approved", "approved", "declined", "canceled", "unknown", "approved_less")),
    st.sampled_from((30, 170, 900)),
)
"""A request: its kind, the latest order or the one before, a result's content, an order's expiration in seconds."""
deaths = st.one_of(
    st.builds(Death, label=st.sampled_from(LABELS + STEP_LABELS), times=st.integers(1, 3)),
    st.builds(Death, after_ms=st.integers(0, 12)),
)
places = st.integers(0, 50)

LIKELY: dict[str, tuple[str, ...]] = {
    "over": ("create",),
    "created": ("ack", "ack", "cancel", "ack", "ack"),
    "taken": (
        "authorizing",
        "cancel_at_terminal",
        "authorizing",
        "authorizing",
        "charge",
        "cancel_at_terminal",
        "authorizing",
    ),
    "canceling": ("authorizing", "release", "authorizing", "result"),
    "granted": ("result", "cancel_at_terminal", "charge", "result", "authorizing", "cancel", "result"),
    "unknown": ("authorizing", "charge", "create", "result", "cancel_at_terminal"),
    "paid": ("refund_part", "create", "refund_part", "refund", "result"),
}
"""The likely next requests by the state of the terminal's latest order."""

ACTIONS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "asks": (30, {"terminal": terminals, "request": requests}),
    "ask_at_once": (
        20,
        {
            "terminal": terminals,
            "drawn": st.lists(requests, min_size=2, max_size=4),
            "other": st.tuples(terminals, requests),
        },
    ),
    "node_dies": (8, {"terminal": terminals, "drawn": st.lists(requests, min_size=1, max_size=3), "death": deaths}),
    "terminal_starts": (
        6,
        {
            "terminal": terminals,
            "last_step": st.sampled_from((None, "", "acknowledged", "authorizing")),
            "request": requests,
        },
    ),
    "time_passes": (10, {"seconds": st.sampled_from((31, 41, 7, 31, -5, 41, 91, 300))}),
    "clock_jumps": (2, {"hours": st.sampled_from((-1, 1, 24 * 40))}),
    "key_is_repeated": (6, {"place": places}),
    "result_is_repeated": (6, {"place": places, "contradict": st.booleans()}),
    "outsider_tries": (3, {"terminal": terminals}),
    "tokens_are_refreshed": (3, {"times": st.integers(1, 3)}),
}
"""The actions with their weights in percent and their drawn arguments."""

# With one rule per action Hypothesis would mostly draw the simplest ones.
actions = st.sampled_from([name for name, (weight, _) in ACTIONS.items() for _ in range(weight)]).flatmap(
    lambda name: st.tuples(st.just(name), st.fixed_dictionaries(ACTIONS[name][1]))
)


class Background:
    """An event loop in a thread, for the clients and the receiver, also while Hypothesis draws."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine there and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_SECONDS_MAX)

    def end(self) -> None:
        """Cancel its tasks and stop it."""
        self.run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Orders(RuleBasedStateMachine):
    """Orders of several terminals, from creation to end, with concurrent actors and crashes of the node."""

    fresh: Callable[[], AbstractContextManager[str]]
    """Provides a fresh, migrated database."""
    figures: Figures

    def __init__(self) -> None:
        super().__init__()
        self.figures.begin()
        self._stack = ExitStack()
        self.loop = Background()
        self._stack.callback(self.loop.end)
        url = self._stack.enter_context(type(self).fresh())
        folder = Path(tempfile.mkdtemp(prefix="paydesk-model-"))
        self._open = opened(url, folder, self.figures, random.Random(1))
        self.shop: Shop = self.loop.run(self._open.__aenter__())
        self.failed = False

    @rule(action=actions)
    def step(self, action: tuple[str, dict[str, Any]]) -> None:
        """Run one action; some make concurrent requests."""
        name, drawn = action
        self.figures.steps[name] += 1
        work: Coroutine[Any, Any, None] = getattr(self, name)(**drawn)
        try:
            self.loop.run(work)
        except BaseException:
            self.failed = True
            raise

    def _op(self, terminal: int, request: tuple[Any, ...]) -> Op:
        kind, back, content, seconds = request
        if kind == "next":
            kind = self._next(terminal)
        if kind in ("refund", "refund_part"):
            return self.shop.refund(kind, terminal, back)
        return self.shop.op(kind, terminal, back=back, content=content, seconds=seconds)

    def _next(self, terminal: int) -> str:
        """Return a likely next request."""
        likely = LIKELY[self._situation(terminal)]
        return likely[self.shop.number % len(likely)]

    def _situation(self, terminal: int) -> str:
        world = max(self.shop.worlds[terminal], key=repr)
        live = world.live
        if live is None:
            return "paid" if world.orders and world.orders[-1].state.status == "processed" else "over"
        if live.state == status.CREATED:
            return "created"
        if live.state == status.CHECK_ON_TERMINAL:
            return "unknown"
        if live.permitted_ms:
            return "granted"
        return "canceling" if live.state == status.CANCELLATION_REQUESTED else "taken"

    async def asks(self, terminal: int, request: tuple[Any, ...]) -> None:
        """Make one request."""
        await self.shop.perform([self._op(terminal, request)])

    async def ask_at_once(self, terminal: int, drawn: list[tuple[Any, ...]], other: tuple[int, Any]) -> None:
        """Make concurrent requests, most of them about one terminal."""
        await self.shop.perform([*(self._op(terminal, request) for request in drawn), self._op(*other)])

    async def node_dies(self, terminal: int, drawn: list[tuple[Any, ...]], death: Death) -> None:
        """Kill the node during requests, which are then repeated."""
        await self.shop.perform([self._op(terminal, request) for request in drawn], death)

    async def terminal_starts(self, terminal: int, last_step: str | None, request: tuple[Any, ...]) -> None:
        """Restart a terminal, with or without its journal, during a request."""
        beside = self._op(terminal, request)
        await self.shop.perform([self.shop.hello(terminal, last_step), beside])

    async def time_passes(self, seconds: int) -> None:
        """Move the clocks, also back a little. Beyond five minutes the node is restarted."""
        await self.shop.pass_time(seconds * 1000)

    async def clock_jumps(self, hours: int) -> None:
        """Make the clock wrong by hours or weeks for a while."""
        await self.shop.jump(hours * 3_600_000)

    async def key_is_repeated(self, place: int) -> None:
        """Repeat a request long after its response."""
        if self.shop.notes.sent:
            await self.shop.repeat_a_key(place)

    async def result_is_repeated(self, place: int, *, contradict: bool) -> None:
        """Repeat a result, identical or contradicting."""
        if self.shop.notes.results:
            await self.shop.repeat_a_result(place, contradict=contradict)

    async def outsider_tries(self, terminal: int) -> None:
        """Access the order with credentials of another seller or mode."""
        await outsiders.try_all(self.shop, terminal)

    async def tokens_are_refreshed(self, times: int) -> None:
        """Refresh tokens, once or concurrently."""
        await self.shop.refresh(times)

    def teardown(self) -> None:
        """Settle all work, then check every promise from outside."""
        try:
            if not self.failed:
                self.loop.run(ending.settle(self.shop))
                found = self.loop.run(ending.violations(self.shop))
                assert not found, "\n".join(found)
        finally:
            self.loop.run(self._open.__aexit__(None, None, None))
            self._stack.close()


def machine_of(fresh: Callable[[], AbstractContextManager[str]], figures: Figures) -> type[Orders]:
    """Return the machine for this kind of database, which adds to the figures."""
    return type("OrdersThere", (Orders,), {"fresh": staticmethod(fresh), "figures": figures})
