"""The circuit breaker of the HTTP adapter: when it opens, when it asks for an echo, and what operators hear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

from paydesk.engine.payments.acquirer import Echo
from paydesk.engine.payments.adapters.context import AdapterContext
from paydesk.engine.payments.http.breaker import Breaker
from waiting import until


class World:
    """Faults of the next echoes (the last one repeats), pauses that a test ends, and reports."""

    def __init__(self, *faults: str | None) -> None:
        self.faults, self.pauses = list(faults), list[float]()
        self.reports: list[tuple[bool, str]] = []
        self.report_fails = False
        self.meanwhile: Callable[[], None] = lambda: None
        self._end, self.now_ns = asyncio.Event(), 0
        context = AdapterContext(report=self._report, now_ns=lambda: self.now_ns, sleep=self._sleep)
        self.breaker = Breaker("main", self._echo, context)

    @property
    def changes(self) -> list[tuple[bool, str]]:
        """Return the reports that differ from those before them."""
        return [one for before, one in pairwise([None, *self.reports]) if one is not None and one != before]

    async def next_echo(self) -> None:
        """End the pause, and wait until the next one has begun or the breaker is closed."""
        await until(lambda: self._is_paused)
        before = len(self.pauses)
        self._end.set()
        await until(lambda: len(self.pauses) > before or self.breaker.state == "closed")

    @property
    def _is_paused(self) -> bool:
        return bool(self.pauses) and not self._end.is_set()

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._end.clear()
        await self._end.wait()

    async def _echo(self) -> Echo:
        fault = self.faults.pop(0) if len(self.faults) > 1 else self.faults[0]
        if fault == "raise":
            raise RuntimeError
        return Echo(fault)

    async def _report(self, is_reachable: bool, reason: str) -> None:  # noqa: FBT001
        if self.report_fails:
            raise RuntimeError
        self.reports.append((is_reachable, reason))
        self.meanwhile()


async def test_a_new_one_admits_after_an_echo() -> None:
    """All first calls wait for one echo. It is reported: an earlier process may have left an outage."""
    world = World(None)
    assert world.breaker.state == "untested"
    assert await asyncio.gather(*(world.breaker.refusal() for _ in range(5))) == [None] * 5
    await until(lambda: bool(world.reports))
    assert (world.breaker.state, world.reports, world.pauses) == ("closed", [(True, "it answers an echo")], [])
    await world.breaker.close()


async def test_an_outage_that_begins_during_a_report_is_reported_at_once() -> None:
    """The report is of the state before."""
    world = World(None)
    world.meanwhile = lambda: world.breaker.trip("a wrong signature") if len(world.reports) == 1 else None
    await world.breaker.refusal()
    await until(lambda: bool(world.pauses))
    assert world.reports == [(True, "it answers an echo"), (False, "a wrong signature")]
    await world.breaker.close()


async def test_a_first_echo_without_answer_refuses_and_is_repeated() -> None:
    """Pauses double to 60 s. Operators hear once that it is unreachable, and once that it is reachable."""
    world = World(*["no answer"] * 6, None)
    assert await world.breaker.refusal() == "the circuit breaker is open: no answer"
    for _ in range(5):
        await world.next_echo()
        assert await world.breaker.refusal() == "the circuit breaker is open: no answer"
    await world.next_echo()
    assert await world.breaker.refusal() is None
    assert world.pauses == [5, 10, 20, 40, 60, 60]
    await until(lambda: len(world.changes) > 1)
    assert world.changes == [(False, "no answer"), (True, "it answers an echo")]
    await world.breaker.close()


async def test_the_fifth_failure_in_a_row_opens_it() -> None:
    """An answer begins the count anew; an answer while it is open does not close it."""
    world = World(None)
    await world.breaker.refusal()
    for _ in range(4):
        world.breaker.failed("reset")
    world.breaker.succeeded()
    for _ in range(4):
        world.breaker.failed("reset")
    assert await world.breaker.refusal() is None
    world.breaker.failed("reset")
    assert await world.breaker.refusal() == "the circuit breaker is open: reset"
    world.breaker.succeeded()
    assert world.breaker.state == "open"
    await world.next_echo()
    assert (await world.breaker.refusal(), world.pauses) == (None, [5])
    for _ in range(4):
        world.breaker.failed("reset")
    assert await world.breaker.refusal() is None
    await world.breaker.close()


async def test_a_wrong_signature_opens_it_at_once_each_time() -> None:
    """Pauses begin at 5 s again after a minute without an outage; before, they go on to grow."""
    world = World(None, "wrong", None)
    await world.breaker.refusal()
    world.breaker.trip("wrong")
    assert await world.breaker.refusal() == "the circuit breaker is open: wrong"
    await world.next_echo()
    await world.next_echo()
    world.now_ns += 59 * 10**9
    world.breaker.trip("wrong again")
    assert await world.breaker.refusal() == "the circuit breaker is open: wrong again"
    await world.next_echo()
    world.now_ns += 60 * 10**9
    world.breaker.trip("wrong anew")
    await world.next_echo()
    await until(lambda: len(world.changes) == 7)
    assert world.pauses == [5, 10, 20, 5]
    assert [is_reachable for is_reachable, _ in world.changes] == [True, False, True, False, True, False, True]
    await world.breaker.close()


async def test_a_defect_keeps_it_open_and_the_echoes_going() -> None:
    """Of the echo and of the report."""
    world = World("raise", None)
    world.report_fails = True
    assert await world.breaker.refusal() == "the circuit breaker is open: the echo failed: RuntimeError"
    await world.next_echo()
    assert await world.breaker.refusal() is None
    await world.breaker.close()


async def test_a_test_by_an_operator_counts() -> None:
    """A good answer closes an open breaker at once, in a pause too; a first fault opens one and is reported."""
    world = World("no answer", None)
    assert (await world.breaker.echo()).fault == "no answer"
    await until(lambda: bool(world.pauses))
    assert (world.breaker.state, world.breaker.next_echo_ms, world.changes) == ("open", 5000, [(False, "no answer")])
    assert (await world.breaker.echo()).fault is None
    await until(lambda: len(world.changes) == 2)
    assert (await world.breaker.refusal(), world.breaker.next_echo_ms) == (None, None)
    await world.breaker.close()


async def test_a_report_that_fails_is_repeated() -> None:
    """Also that it is reachable again: without it operators would read of an outage that is over."""
    world = World(None)
    world.report_fails = True
    assert await world.breaker.refusal() is None
    await until(lambda: bool(world.pauses))
    world.report_fails = False
    world._end.set()
    await until(lambda: bool(world.reports))
    assert world.reports == [(True, "it answers an echo")]
    await world.breaker.close()
