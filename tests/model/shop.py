"""A running service in its own process, its clients, and the check of their responses by the model."""

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
from model.requests import NO_ANSWER, Answer, request_of, response_of
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
"""Amounts whose refunds the acquirer declines, or whose requests or responses are lost or delayed."""
TRUSTED_MS = 280_000
"""How far a running node's clock may move ahead; more is a jump."""


@dataclass(frozen=True, slots=True)
class Death:
    """How the node dies during requests: at a crash point, or after some milliseconds."""

    label: str = ""
    times: int = 1
    after_ms: int = 0


class Shop:
    """One run: the node, the terminals of two sellers, an application's tokens, and the possible worlds."""

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
        """Seed the sellers, start the node, and send each terminal's hello."""
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
        """Return the number of the next request."""
        self.number += 1
        return self.number

    def op(self, kind: Any, terminal: int, *, back: int = 0, price: int = 0, **details: Any) -> Op:
        """Return a request of this kind about the terminal's latest order, or the one `back` before."""
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
        """Return a refund of the latest order that may be paid, or the one `back` before; else of the latest."""
        paid = {
            one.order_id for world in self.worlds[terminal] for one in world.orders if one.state.status == "processed"
        }
        places = [place for place, order_id in enumerate(reversed(self.orders[terminal])) if order_id in paid]
        return self.op(kind, terminal, back=places[min(back, len(places) - 1)] if places else 0)

    def _price(self, terminal: int) -> int:
        is_usual = self.number % 2 or self.seeds[terminal].live
        return USUAL_MINOR if is_usual else SPECIAL_MINOR[self.number // 2 % len(SPECIAL_MINOR)]

    def hello(self, terminal: int, last_step: str | None = None) -> Op:
        """Return the hello of a restarted terminal; with `last_step`, its journal has the latest order."""
        self.next_number()
        self.sessions[terminal] += 1
        orders = self.orders[terminal]
        remembered = orders[-1] if orders and last_step is not None else ""
        return Op("hello", terminal, self.number, remembered, self.sessions[terminal], last_step=last_step or "")

    @property
    def now_ms(self) -> int:
        """Return the time of the node's clock."""
        return time.time_ns() // 1_000_000 + self.offset_ms

    def see_the_time(self) -> int:
        """Return the latest time that a worker may have seen, even if the clock went back since."""
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
            events.append(Event(op, response_of(op, answer), after_ms, self.now_ms))
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
            of_terminal.append(Event(event.op, event.response, event.after_ms, event.until_ms, repeat))
        for terminal, of_terminal in by_terminal.items():
            before = self.worlds[terminal]
            after = explained(before, tuple(of_terminal), self.see_the_time())
            assert after, "nothing explains\n" + "\n".join(map(str, of_terminal)) + f"\nout of\n{listed(before)}"
            self.worlds[terminal] = after
            self.figures.worlds_max = max(self.figures.worlds_max, len(after))

    async def _known(self, op: Op, answer: Answer) -> Answer:
        return answer if not answer.unknown else await self.repeated(lambda: self._attempt(op, {}))

    async def repeated(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Retry until the outcome is known; a dead node is restarted."""
        for _ in range(ATTEMPTS_MAX):
            await self.up()
            answer = await attempt()
            if not answer.unknown:
                return answer
        raise AssertionError(f"never became known: {answer}")

    async def up(self) -> None:
        """Start the node again if it has died."""
        if not await asyncio.to_thread(self.node.runs):
            self.figures.crashes += 1
            await self.start()

    async def start(self) -> None:
        """Start the node; a new process trusts its clock."""
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
        if op.kind == "cancel_at_terminal":
            sent |= AT_TERMINAL
        return await self.ask(method, path, body, sent)

    async def ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        """Make one attempt of any request."""
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
        """Return a result consistent with the acquirer's outcome; a repeated one is unchanged."""
        if op.kind != "result" or self.seeds[op.terminal].live or op in self.notes.results or op.reference_id:
            return op
        if self.purse.card_for(op):
            await self._charge(op)
        return self.purse.honest(op)

    async def _charge(self, op: Op) -> bool:
        """Let the terminal authorize at its acquirer, without a request to us."""
        if not self.seeds[op.terminal].live:
            before_ms = self.now_ms
            done = await self.purse.presented(op, self.purse.card_for(op))
            if done is not None:
                known = before_ms + done.late_ms, self.now_ms + done.late_ms
                worlds = self.worlds[op.terminal]
                self.worlds[op.terminal] = {charged(one, op.order_id, done.outcome, *known) for one in worlds}
                self.figures.answers[f"charge {done.outcome}{', late' if done.late_ms else ''}"] += 1
        return False

    async def _at_the_acquirer(self, method: str, path: str, body: Any) -> Answer:
        return await self.repeated(partial(self.ask, method, path, body, {}))

    async def repeat_a_key(self, place: int) -> None:
        """Repeat a request with its key: the same bytes, and no effect."""
        one = self.notes.sent[place % len(self.notes.sent)]
        again = await self.repeated(lambda: self._attempt(one.op, {}))
        one.record.answers.add((again.status, again.raw))
        assert (again.status, again.raw, again.replayed) == (one.answer.status, one.answer.raw, True), one.op

    async def repeat_a_result(self, place: int, *, contradict: bool) -> None:
        """Repeat a reported result, or report another one under its id."""
        op = self.notes.results[place % len(self.notes.results)]
        if contradict:
            other: Any = {"approved": "declined", "declined": "approved"}.get(op.content, op.content)
            op = replace(op, content=other, reference_id=f"{10**11 + op.number}")
        await self.perform([op])

    async def refresh(self, times: int) -> None:
        """Refresh the application's tokens, concurrently `times` times: all responses are the same."""
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
        """Move all clocks, and restart a node that would take this for a jump."""
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
        """Make the clock wrong for a while: nothing is served, and nothing expires."""
        await self.up()
        write_offset(self._clock, self.offset_ms + by_ms)
        answer = await self.ask("GET", "/readyz", None, {})
        assert answer.status in (NO_ANSWER, 503), answer
        refused = await self._attempt(self.op("get", 0), {})
        assert refused.status in (NO_ANSWER, 503), refused
        write_offset(self._clock, self.offset_ms)

    async def stop(self) -> None:
        """Stop the node by SIGTERM, with all connections closed: it would wait for them."""
        await self.up()
        await self._http.close()
        await asyncio.to_thread(self.node.end, is_armed=True)
        self._http = _session()

    async def close(self) -> None:
        """Stop all processes and remove all files."""
        await self._http.close()
        self.node.close()


def listed(worlds: Iterable[World]) -> str:
    """Return some worlds, one per line."""
    return "\n".join(str(world) for world in list(worlds)[:10])


@asynccontextmanager
async def opened(database_url: str, folder: Path, figures: Figures, chance: Any) -> AsyncIterator[Shop]:
    """Yield a shop and clean up after it."""
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
