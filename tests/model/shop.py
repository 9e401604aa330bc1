"""A running service in a process of its own, its clients, and what the model makes of their answers."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from faults import inbox, scene
from faults.clocked_node import write_offset
from faults.cluster import VARIABLES
from faults.inbox import Inbox
from faults.records import FamilyRecord
from faults.scene import ApplicationSeed
from model.explaining import Event, explained
from model.figures import Figures
from model.notes import Notes
from model.purse import Purse
from model.requests import NO_ANSWER, Answer, request_of, told_by
from model.world import USUAL_MINOR, Op, World, charged
from node_process import MOVES_ALL_CLOCKS, NodeProcess

TEST_TERMINALS = 3
TERMINALS = TEST_TERMINALS + 1
"""The last is live."""
TIMEOUT_SECONDS = 10.0
ATTEMPTS_MAX = 40
AT_TERMINAL = {"X-Allow-Cancelable-Status": "at_terminal"}
PARTS_MINOR = (1_000, 245, 1_245, 2_490, 2_491)
SPECIAL_MINOR = (*range(9_990_030, 9_990_036), 9_990_030, 9_990_035, 9_990_025, 9_990_026, *range(9_990_040, 9_990_044))
"""Amounts that the acquirer declines to give back, or whose answers it loses, delays or never gets the question of."""
TRUSTED_MS = 280_000
"""A node's clock may go ahead by so much while it runs; more would be a jump."""


@dataclass(frozen=True, slots=True)
class Death:
    """How the node dies while requests are under way: at a labelled place, or after so many milliseconds."""

    label: str = ""
    times: int = 1
    after_ms: int = 0


class Shop:
    """One run: the node, three terminals of two sellers, an application's tokens, and all that could be so far."""

    def __init__(self, database_url: str, folder: Path, figures: Figures) -> None:
        self.database_url, self.figures = database_url, figures
        self.notes = Notes(figures)
        self.records, self.orders = self.notes.records, self.notes.orders
        self.purse = Purse(self.notes, self._at_the_acquirer)
        self.worlds: list[set[World]] = []
        self.sessions: list[int] = []
        self.offset_ms = self.trusted_ms = self.latest_ms = 0
        self.number = 0
        self._http = _session()
        self._clock = folder / "clock"
        write_offset(self._clock, 0)
        self.node = NodeProcess(
            database_url, folder, module="faults.clocked_node", **VARIABLES, **{MOVES_ALL_CLOCKS: "yes"}
        )
        self.node.arguments.append(str(self._clock))

    async def begin(self, receiver: Inbox, chance: Any) -> None:
        """Everybody is known, the node serves, and each terminal has said hello."""
        self.receiver = receiver
        everybody = await scene.cast(
            self.database_url, receiver, chance, devices=TEST_TERMINALS + 1, applications=2, live_devices=2
        )
        live = next(seed for seed in everybody.terminals if seed.live)
        self.seeds = self.notes.seeds = [*everybody.terminals[:TEST_TERMINALS], live]
        self.records.sellers = {seed.terminal_id: seed.seller for seed in everybody.terminals}
        self.records.live = {seed.terminal_id for seed in everybody.terminals if seed.live}
        self.application: ApplicationSeed = everybody.applications[0]
        self.family = FamilyRecord(self.application.refresh_token)
        self.records.families.append(self.family)
        self.worlds = [{World(0, seed.live)} for seed in self.seeds]
        self.orders += [[] for _ in self.seeds]
        self.sessions = [0 for _ in self.seeds]
        await asyncio.to_thread(self.node.start)
        await self.perform([self.hello(place) for place in range(TERMINALS)])

    def next_number(self) -> int:
        """The number of the next request."""
        self.number += 1
        return self.number

    def op(self, kind: Any, terminal: int, *, back: int = 0, price: int = 0, **details: Any) -> Op:
        """A request of this kind about the terminal's newest order, or the one so many before."""
        self.next_number()
        orders = self.orders[terminal]
        order_id = orders[max(len(orders) - 1 - back, 0)] if orders else ""
        if not order_id:
            kind = "create"
        if kind == "create":
            order_id = ""
            details["amount_minor"] = price or self._price(terminal)
        if kind == "refund_part":
            details["amount_minor"] = PARTS_MINOR[self.number % len(PARTS_MINOR)]
        if kind == "result":
            details["amount_minor"] = self.notes.amounts[order_id]
        return Op(kind, terminal, self.number, order_id, self.sessions[terminal], **details)

    def refund(self, kind: Any, terminal: int, back: int) -> Op:
        """Of the newest order that may be paid, or the one so many of these before; of the newest where none is."""
        paid = {
            one.order_id for world in self.worlds[terminal] for one in world.orders if one.state.status == "processed"
        }
        places = [place for place, order_id in enumerate(reversed(self.orders[terminal])) if order_id in paid]
        return self.op(kind, terminal, back=places[min(back, len(places) - 1)] if places else 0)

    def _price(self, terminal: int) -> int:
        is_usual = self.number % 2 or self.seeds[terminal].live
        return USUAL_MINOR if is_usual else SPECIAL_MINOR[self.number // 2 % len(SPECIAL_MINOR)]

    def hello(self, terminal: int, last_step: str | None = None) -> Op:
        """A new start of the terminal, which remembers its newest order if there is a `last_step`."""
        self.next_number()
        self.sessions[terminal] += 1
        orders = self.orders[terminal]
        remembered = orders[-1] if orders and last_step is not None else ""
        return Op("hello", terminal, self.number, remembered, self.sessions[terminal], last_step=last_step or "")

    @property
    def now_ms(self) -> int:
        """What the node's clock shows."""
        return time.time_ns() // 1_000_000 + self.offset_ms

    def see_the_time(self) -> int:
        """The latest that any worker may have seen; a clock that goes back undoes nothing."""
        self.latest_ms = max(self.latest_ms, self.now_ms)
        return self.latest_ms

    async def perform(self, ops: Sequence[Op], death: Death | None = None) -> None:
        """All of them at once; what is unknown is repeated until it is known. Then every answer must be explained.

        Before a terminal reports it was at its acquirer's, or charges there and says nothing.
        """
        ops = [await self._after_charging(op) for op in ops if op.kind != "charge" or await self._charge(op)]
        after_ms = self.now_ms
        labelled = f"{death.label}:{death.times}" if death is not None and death.label else ""
        firsts = [self._attempt(op, {"X-Crash-At": labelled} if labelled and op is ops[0] else {}) for op in ops]
        if death is not None and not death.label:
            answers, _ = await asyncio.gather(asyncio.gather(*firsts), self._killed_after(death.after_ms))
        else:
            answers = await asyncio.gather(*firsts)
        events: list[Event] = []
        for op, first in zip(ops, answers, strict=True):
            answer = await self._known(op, first)
            self.notes.keep(op, answer, repeated=first.unknown)
            events.append(Event(op, told_by(op, answer), after_ms, self.now_ms))
            if first.unknown and not op.keyed:
                events.append(Event(op, None, after_ms, self.now_ms, repeat=len(events) - 1))
        await self.up()
        self._explain(events)

    def _explain(self, events: Iterable[Event]) -> None:
        by_terminal: dict[int, list[Event]] = {}
        for event in events:
            of_terminal = by_terminal.setdefault(event.op.terminal, [])
            # Places are counted among the terminal's own.
            repeat = len(of_terminal) - 1 if event.repeat >= 0 else -1
            of_terminal.append(Event(event.op, event.told, event.after_ms, event.until_ms, repeat))
        for terminal, of_terminal in by_terminal.items():
            before = self.worlds[terminal]
            after = explained(before, tuple(of_terminal), self.see_the_time())
            assert after, "nothing explains\n" + "\n".join(map(str, of_terminal)) + f"\nout of\n{listed(before)}"
            self.worlds[terminal] = after
            self.figures.worlds_max = max(self.figures.worlds_max, len(after))

    async def _known(self, op: Op, answer: Answer) -> Answer:
        return answer if not answer.unknown else await self.repeated(lambda: self._attempt(op, {}))

    async def repeated(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Attempts until one is known; a node that died is started again, also where it dies of an earlier arming."""
        for _ in range(ATTEMPTS_MAX):
            await self.up()
            answer = await attempt()
            if not answer.unknown:
                return answer
        raise AssertionError(f"never became known: {answer}")

    async def up(self) -> None:
        """The node serves; where it died it is started again."""
        if not await asyncio.to_thread(self.node.runs):
            self.figures.crashes += 1
            await self.start()

    async def start(self) -> None:
        """Start the node; a process that starts trusts the clock that it finds."""
        self.trusted_ms = self.offset_ms
        await asyncio.to_thread(self.node.start)

    async def _killed_after(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)
        await asyncio.to_thread(self.node.kill)

    async def _attempt(self, op: Op, headers: dict[str, str]) -> Answer:
        method, path, body, token = request_of(op, self.seeds[op.terminal])
        sent = {"Authorization": f"Bearer {token}", **headers}
        if op.keyed:
            sent["X-Idempotency-Key"] = f"key-{op.number}"
        if op.kind == "ask_back":
            sent |= AT_TERMINAL
        return await self.ask(method, path, body, sent)

    async def ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        """One attempt of any request."""
        self.figures.requests += 1
        try:
            async with self._http.request(method, self.node.base_url + path, json=body, headers=headers) as reply:
                raw = await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return Answer()
        assert reply.status != 500, (method, path, raw)
        return Answer(reply.status, raw, reply.headers.get("x-idempotent-replayed") == "true")

    # What is no request about an order of one's own.

    async def _after_charging(self, op: Op) -> Op:
        """A result as an honest terminal reports it; what was reported before is repeated as it was."""
        if op.kind != "result" or self.seeds[op.terminal].live or op in self.notes.results or op.reference_id:
            return op
        if self.purse.wanted(op):
            await self._charge(op)
        return self.purse.honest(op)

    async def _charge(self, op: Op) -> bool:
        """Let the terminal go to its acquirer, who knows of it from then on; no request of ours comes of it."""
        if not self.seeds[op.terminal].live:
            before_ms = self.now_ms
            done = await self.purse.presented(op, self.purse.wanted(op))
            if done is not None:
                known = before_ms + done.late_ms, self.now_ms + done.late_ms
                worlds = self.worlds[op.terminal]
                self.worlds[op.terminal] = {charged(one, op.order_id, done.outcome, *known) for one in worlds}
                self.figures.answers[f"charge {done.outcome}{', late' if done.late_ms else ''}"] += 1
        return False

    async def _at_the_acquirer(self, method: str, path: str, body: Any) -> Answer:
        return await self.repeated(partial(self.ask, method, path, body, {}))

    async def repeat_a_key(self, place: int) -> None:
        """A request that was answered long ago, once more: the very same bytes, and nothing happens."""
        one = self.notes.sent[place % len(self.notes.sent)]
        again = await self.repeated(lambda: self._attempt(one.op, {}))
        one.record.answers.add((again.status, again.raw))
        assert (again.status, again.raw, again.replayed) == (one.answer.status, one.answer.raw, True), one.op

    async def repeat_a_result(self, place: int, *, contradict: bool) -> None:
        """A result that was reported before, or another one under its id."""
        op = self.notes.results[place % len(self.notes.results)]
        if contradict:
            other: Any = {"approved": "declined", "declined": "approved"}.get(op.content, op.content)
            op = replace(op, content=other, reference_id=f"{10**11 + op.number}")
        await self.perform([op])

    async def refresh(self, times: int) -> None:
        """The application's next tokens, asked for as often at once: all are the same."""
        token = self.family.newest_refresh_token
        body = {**self.application.credentials, "grant_type": "refresh_token", "refresh_token": token}
        attempt = partial(self.ask, "POST", "/oauth/token", body, {})
        answers = [
            one if not one.unknown else await self.repeated(attempt)
            for one in await asyncio.gather(*(attempt() for _ in range(times)))
        ]
        assert {answer.status for answer in answers} == {200}, answers
        self.family.steps.append((token, {(one.body["access_token"], one.body["refresh_token"]) for one in answers}))
        probe = await self._probe()
        assert probe.status == 404, probe

    async def _probe(self) -> Answer:
        token = next(iter(self.family.steps[-1][1]))[0]
        path, headers = f"/v1/orders/ORD{'0' * 26}", {"Authorization": f"Bearer {token}"}
        return await self.repeated(partial(self.ask, "GET", path, None, headers))

    async def pass_time(self, by_ms: int) -> None:
        """All clocks go ahead, or a little back; a node that would not trust that is started anew."""
        is_trusted = abs(self.offset_ms + by_ms - self.trusted_ms) <= TRUSTED_MS
        if not is_trusted:
            await self.stop()
        self.see_the_time()
        self.offset_ms += by_ms
        write_offset(self._clock, self.offset_ms)
        self.see_the_time()
        if not is_trusted:
            await self.start()

    async def jump(self, by_ms: int) -> None:
        """The clock is off by hours for a while: nothing is served, and nothing happens by it."""
        await self.up()
        write_offset(self._clock, self.offset_ms + by_ms)
        answer = await self.ask("GET", "/readyz", None, {})
        assert answer.status in (NO_ANSWER, 503), answer
        refused = await self._attempt(self.op("get", 0), {})
        assert refused.status in (NO_ANSWER, 503), refused
        write_offset(self._clock, self.offset_ms)

    async def stop(self) -> None:
        """SIGTERM, when nobody holds a connection any more: for those it would wait a little."""
        await self.up()
        await self._http.close()
        await asyncio.to_thread(self.node.end, is_armed=True)
        self._http = _session()

    async def close(self) -> None:
        """Leave nothing behind."""
        await self._http.close()
        self.node.close()


def listed(worlds: Iterable[World]) -> str:
    """Some of them, one a line."""
    return "\n".join(str(world) for world in list(worlds)[:10])


@asynccontextmanager
async def opened(database_url: str, folder: Path, figures: Figures, chance: Any) -> AsyncIterator[Shop]:
    """A shop that is open until the block ends; nothing of it is left behind."""
    shop = Shop(database_url, folder, figures)
    try:
        async with inbox.listening(shop.records, chance) as receiver:
            await shop.begin(receiver, chance)
            yield shop
    finally:
        await shop.close()
        shutil.rmtree(folder, ignore_errors=True)


def _session() -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT_SECONDS))
    # A repeat that the library made by itself would be explained by nothing.
    session._retry_connection = False
    return session
