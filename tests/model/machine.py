"""The rules of a run: what clients may do next, drawn by Hypothesis, one after the other and at once."""

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

from model import ending, strangers
from model.figures import Figures
from model.shop import TERMINALS, Death, Shop, opened
from model.world import Op
from paydesk.core.crash_points import LABELS, STEP_LABELS
from paydesk.orders import status

T = TypeVar("T")
WAIT_SECONDS_MAX = 120.0

terminals = st.integers(0, TERMINALS - 1)
kinds = st.sampled_from(
    (
        *("next",) * 8,
        *("create", "get", "cancel", "ask_back", "ask_back", "ack", "step"),
        *("authorizing", "result", "result", "give_back", "refund", "refund_part", "refund_part", "charge"),
    )
)
wishes = st.tuples(
    kinds,
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from(("approved", "approved", "declined", "canceled", "unknown", "approved_less")),
    st.sampled_from((30, 170, 900)),
)
"""A request: its kind, of the newest order or the one before, what a result says, how many seconds an order lives."""
deaths = st.one_of(
    st.builds(Death, label=st.sampled_from(LABELS + STEP_LABELS), times=st.integers(1, 3)),
    st.builds(Death, after_ms=st.integers(0, 12)),
)
places = st.integers(0, 50)

LIKELY: dict[str, tuple[str, ...]] = {
    "over": ("create",),
    "created": ("ack", "ack", "cancel", "ack", "ack"),
    "taken": ("authorizing", "ask_back", "authorizing", "authorizing", "charge", "ask_back", "authorizing"),
    "canceling": ("authorizing", "give_back", "authorizing", "result"),
    "granted": ("result", "ask_back", "charge", "result", "authorizing", "cancel", "result"),
    "unknown": ("authorizing", "charge", "create", "result", "ask_back"),
    "paid": ("refund_part", "create", "refund_part", "refund", "result"),
}
"""What comes next on a terminal, more often than other things, by how its newest order stands."""

ACTIONS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "asks": (30, {"terminal": terminals, "wish": wishes}),
    "ask_at_once": (
        20,
        {
            "terminal": terminals,
            "drawn": st.lists(wishes, min_size=2, max_size=4),
            "elsewhere": st.tuples(terminals, wishes),
        },
    ),
    "node_dies": (8, {"terminal": terminals, "drawn": st.lists(wishes, min_size=1, max_size=3), "death": deaths}),
    "terminal_starts": (
        6,
        {
            "terminal": terminals,
            "last_step": st.sampled_from((None, "", "acknowledged", "authorizing")),
            "wish": wishes,
        },
    ),
    "time_passes": (10, {"seconds": st.sampled_from((31, 41, 7, 31, -5, 41, 91, 300))}),
    "clock_jumps": (2, {"hours": st.sampled_from((-1, 1, 24 * 40))}),
    "key_is_repeated": (6, {"place": places}),
    "result_is_repeated": (6, {"place": places, "contradict": st.booleans()}),
    "stranger_looks": (3, {"terminal": terminals}),
    "tokens_are_refreshed": (3, {"times": st.integers(1, 3)}),
}
"""What may come next: how often among a hundred, and what is drawn with it."""

# Of rules of its own Hypothesis would draw the simplest ones most of the time.
actions = st.sampled_from([name for name, (weight, _) in ACTIONS.items() for _ in range(weight)]).flatmap(
    lambda name: st.tuples(st.just(name), st.fixed_dictionaries(ACTIONS[name][1]))
)


class Background:
    """An event loop of its own thread: the clients' and the receiver's, also while Hypothesis draws."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_SECONDS_MAX)

    def end(self) -> None:
        """Stop it, and whatever still runs there."""
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
    """Orders of three terminals, from their creation to their end, whoever acts on them and whenever the node dies."""

    fresh: Callable[[], AbstractContextManager[str]]
    """A fresh, migrated database, gone when the block ends."""
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
        """One thing after the other; some of them are many at once."""
        name, drawn = action
        self.figures.steps[name] += 1
        work: Coroutine[Any, Any, None] = getattr(self, name)(**drawn)
        try:
            self.loop.run(work)
        except BaseException:
            self.failed = True
            raise

    def _op(self, terminal: int, wish: tuple[Any, ...]) -> Op:
        kind, back, content, seconds = wish
        if kind == "next":
            kind = self._next(terminal)
        if kind in ("refund", "refund_part"):
            return self.shop.refund(kind, terminal, back)
        return self.shop.op(kind, terminal, back=back, content=content, seconds=seconds)

    def _next(self, terminal: int) -> str:
        """What usually comes next there."""
        likely = LIKELY[self._standing(terminal)]
        return likely[self.shop.number % len(likely)]

    def _standing(self, terminal: int) -> str:
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

    async def asks(self, terminal: int, wish: tuple[Any, ...]) -> None:
        """One request."""
        await self.shop.perform([self._op(terminal, wish)])

    async def ask_at_once(self, terminal: int, drawn: list[tuple[Any, ...]], elsewhere: tuple[int, Any]) -> None:
        """Several clients at once, most of them about one terminal."""
        await self.shop.perform([*(self._op(terminal, wish) for wish in drawn), self._op(*elsewhere)])

    async def node_dies(self, terminal: int, drawn: list[tuple[Any, ...]], death: Death) -> None:
        """`kill -9` in the midst of requests, each of which is repeated."""
        await self.shop.perform([self._op(terminal, wish) for wish in drawn], death)

    async def terminal_starts(self, terminal: int, last_step: str | None, wish: tuple[Any, ...]) -> None:
        """A terminal starts again, with its journal or without, beside a request."""
        beside = self._op(terminal, wish)
        await self.shop.perform([self.shop.hello(terminal, last_step), beside])

    async def time_passes(self, seconds: int) -> None:
        """A clock may go back a little, too. Over five minutes the node is stopped in order, and started again."""
        await self.shop.pass_time(seconds * 1000)

    async def clock_jumps(self, hours: int) -> None:
        """For a moment the clock is off by hours, or by weeks."""
        await self.shop.jump(hours * 3_600_000)

    async def key_is_repeated(self, place: int) -> None:
        """Long after it was answered."""
        if self.shop.notes.sent:
            await self.shop.repeat_a_key(place)

    async def result_is_repeated(self, place: int, *, contradict: bool) -> None:
        """As it was, or otherwise."""
        if self.shop.notes.results:
            await self.shop.repeat_a_result(place, contradict=contradict)

    async def stranger_looks(self, terminal: int) -> None:
        """Somebody who has no business with the order."""
        await strangers.look(self.shop, terminal)

    async def tokens_are_refreshed(self, times: int) -> None:
        """By one process or several at once."""
        await self.shop.refresh(times)

    def teardown(self) -> None:
        """All comes to rest; then every promise is checked from outside."""
        try:
            if not self.failed:
                self.loop.run(ending.settle(self.shop))
                found = self.loop.run(ending.hold_to_account(self.shop))
                assert not found, "\n".join(found)
        finally:
            self.loop.run(self._open.__aexit__(None, None, None))
            self._stack.close()


def machine_of(fresh: Callable[[], AbstractContextManager[str]], figures: Figures) -> type[Orders]:
    """The machine on databases of this kind, which adds to these figures."""
    return type("OrdersThere", (Orders,), {"fresh": staticmethod(fresh), "figures": figures})
