"""A running service in a process of its own, its clients, and what the model makes of their answers."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from faults import checker, inbox, scene, truth
from faults.clocked_node import write_offset
from faults.cluster import VARIABLES
from faults.inbox import Inbox
from faults.records import ChainRecord, KeyRecord, Operation, Records, RefundRecord, ResultRecord
from faults.scene import ApplicationSeed, TerminalSeed
from model.explaining import Event, explained
from model.world import Op, Told, World, overdue
from node_process import NodeProcess
from paydesk import ledger
from paydesk.storage.connect import open_database
from service import approved, order_body

TERMINALS = 3
TIMEOUT_SECONDS = 10.0
ATTEMPTS_MAX = 40
AT_TERMINAL = {"X-Allow-Cancelable-Status": "at_terminal"}
PARTS_MINOR = (1_000, 245, 1_245, 2_490, 2_491)
TRUSTED_MS = 280_000
"""A node's clock may go ahead by so much while it runs; more would be a jump."""
SETTLE_MS, SETTLE_SECONDS_MAX = 200_000, 30.0
NO_ANSWER = 0
OPERATIONS: dict[str, Operation] = {
    "create": "create",
    "cancel": "cancel",
    "ask_back": "cancel",
    "refund": "refund",
    "refund_part": "refund",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came: the status, 0 where nothing came, the headers that matter, and the body."""

    status: int = NO_ANSWER
    raw: bytes = b""
    replayed: bool = False

    @property
    def unknown(self) -> bool:
        """Whether it happened or not is not known."""
        return self.status in (NO_ANSWER, 423) or self.status >= 500

    @property
    def body(self) -> Any:
        """The document."""
        return json.loads(self.raw) if self.raw else {}


@dataclass(frozen=True, slots=True)
class Death:
    """How the node dies while requests are under way: at a labelled place, or after so many milliseconds."""

    label: str = ""
    times: int = 1
    after_ms: int = 0


@dataclass
class Sent:
    """A request with a key, so that it can be sent again."""

    op: Op
    record: KeyRecord
    answer: Answer


@dataclass
class Figures:
    """What was done in all runs."""

    runs: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    crashes: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    worlds_max: int = 0
    told: Callable[[], object] = lambda: None
    """Called when a run begins."""

    def begin(self) -> None:
        """One more run."""
        self.runs += 1
        self.told()

    def table(self) -> dict[str, object]:
        """As they are printed."""
        return {
            "runs": self.runs,
            "steps": self.steps.total(),
            **{f"  {name}": count for name, count in self.steps.most_common()},
            "requests": self.requests,
            "deaths of the node": self.crashes,
            "worlds at once, at most": self.worlds_max,
            "answers": self.answers.total(),
            **{f"  {what}": count for what, count in sorted(self.answers.items())},
            **{f"shown as {status}": count for status, count in sorted(self.statuses.items())},
        }


class Shop:
    """One run: the node, three terminals of two sellers, an application's tokens, and all that could be so far."""

    def __init__(self, database_url: str, folder: Path, figures: Figures) -> None:
        self.database_url, self.figures = database_url, figures
        self.records = Records()
        self.seeds: list[TerminalSeed] = []
        self.worlds: list[set[World]] = []
        self.orders: list[list[str]] = []
        self.sessions: list[int] = []
        self.sent: list[Sent] = []
        self.results: list[Op] = []
        self.offset_ms = self.trusted_ms = self.latest_ms = 0
        self.number = 0
        self._clock = folder / "clock"
        write_offset(self._clock, 0)
        self.node = NodeProcess(database_url, folder, module="faults.clocked_node", **VARIABLES)
        self.node.arguments.append(str(self._clock))

    async def begin(self, session: aiohttp.ClientSession, receiver: Inbox, chance: Any) -> None:
        """Everybody is known, the node serves, and each terminal has said hello."""
        self._http, self._receiver = session, receiver
        everybody = await scene.cast(self.database_url, receiver, chance, devices=TERMINALS + 1, applications=2)
        self.seeds = everybody.terminals[:TERMINALS]
        self.records.sellers = {seed.terminal_id: seed.seller for seed in everybody.terminals}
        self._application: ApplicationSeed = everybody.applications[0]
        self._chain = ChainRecord(self._application.refresh_token)
        self.records.chains.append(self._chain)
        self.worlds = [{World(0)} for _ in self.seeds]
        self.orders = [[] for _ in self.seeds]
        self.sessions = [0 for _ in self.seeds]
        await asyncio.to_thread(self.node.start)
        await self.perform([self.hello(place) for place in range(TERMINALS)])

    def op(self, kind: Any, terminal: int, *, back: int = 0, **details: Any) -> Op:
        """A request of this kind about the terminal's newest order, or the one so many before."""
        self.number += 1
        orders = self.orders[terminal]
        order_id = orders[max(len(orders) - 1 - back, 0)] if orders else ""
        if not order_id:
            kind = "create"
        if kind == "create":
            order_id = ""
        if kind == "refund_part":
            details["amount_minor"] = PARTS_MINOR[self.number % len(PARTS_MINOR)]
        return Op(kind, terminal, self.number, order_id, self.sessions[terminal], **details)

    def hello(self, terminal: int, last_step: str | None = None) -> Op:
        """A new start of the terminal, which remembers its newest order if there is a `last_step`."""
        self.number += 1
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
        """All of them at once; what is unknown is repeated until it is known. Then every answer must be explained."""
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
            self._keep(op, answer, repeated=first.unknown)
            events.append(Event(op, _told(op, answer), after_ms, self.now_ms))
            if first.unknown and not op.keyed:
                events.append(Event(op, None, after_ms, self.now_ms, repeat=len(events) - 1))
        await self._up()
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
            assert after, "nothing explains\n" + "\n".join(map(str, of_terminal)) + f"\nout of\n{_listed(before)}"
            self.worlds[terminal] = after
            self.figures.worlds_max = max(self.figures.worlds_max, len(after))

    async def _known(self, op: Op, answer: Answer) -> Answer:
        return answer if not answer.unknown else await self.repeated(lambda: self._attempt(op, {}))

    async def repeated(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Attempts until one is known; a node that died is started again, also where it dies of an earlier arming."""
        for _ in range(ATTEMPTS_MAX):
            await self._up()
            answer = await attempt()
            if not answer.unknown:
                return answer
        raise AssertionError(f"never became known: {answer}")

    async def _up(self) -> None:
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
        method, path, body, token = self._request(op)
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

    def _request(self, op: Op) -> tuple[str, str, Any, str]:
        seed = self.seeds[op.terminal]
        if op.kind in ("create", "get", "cancel", "ask_back", "refund", "refund_part"):
            method, path, body = self._of_application(op)
            return method, path, body, seed.access_token
        method, path, body = self._of_terminal(op, {"boot_id": _uuid(op.terminal, op.session)})
        return method, f"/device/v1{path}", body, seed.device_token

    def _of_application(self, op: Op) -> tuple[str, str, Any]:
        path = f"/v1/orders/{op.order_id}"
        if op.kind == "create":
            fields = {"external_reference": f"ref-{op.number}", "expiration_time": f"PT{op.seconds}S"}
            return "POST", "/v1/orders", order_body(self.seeds[op.terminal].terminal_id, **fields)
        if op.kind in ("refund", "refund_part"):
            part = {"id": f"PAY{op.order_id[3:]}", "amount": f"{op.amount_minor / 100:.2f}"}
            return "POST", f"{path}/refund", {"transactions": [part]} if op.amount_minor else None
        return ("GET", path, None) if op.kind == "get" else ("POST", f"{path}/cancel", None)

    def _of_terminal(self, op: Op, boot: dict[str, Any]) -> tuple[str, str, Any]:
        lease = f"/leases/{op.order_id[3:]}"
        if op.kind == "hello":
            journal = [{"lease_id": op.order_id[3:], "last_step": op.last_step}] if op.order_id else []
            return "POST", "/hello", {**boot, "app_version": "1", "journal": journal}
        if op.kind == "result":
            return "PUT", f"{lease}/results/{_uuid(9, op.number)}", {**boot, **content_of(op)}
        if op.kind == "ack":
            return "POST", f"{lease}/ack", boot
        if op.kind == "give_back":
            return "POST", f"{lease}/cancel-result", {**boot, "done": True}
        step = "card_requested" if op.kind == "step" else "authorizing"
        return "POST", f"{lease}/progress", {**boot, "seq": op.number, "step": step}

    def _keep(self, op: Op, answer: Answer, *, repeated: bool) -> None:
        """Write the answer down for the checks at the end of the run."""
        body = answer.body
        code = body.get("error", "")
        self.figures.answers[f"{op.kind} {answer.status}{code and f' {code}'}"] += 1
        terminal_id = self.seeds[op.terminal].terminal_id
        if op.kind == "create" and answer.status == 201:
            self.orders[op.terminal].append(body["id"])
        if op.keyed:
            self._keep_key(op, answer, repeated=repeated)
        if "config" in body:
            self.figures.statuses[f"{body['status']}/{body['status_detail']}"] += 1
            self.records.saw(body)
        record = self.records.order(op.order_id, terminal_id) if op.order_id else None
        if record is None:
            return
        record.cancel_asked = record.cancel_asked or op.kind in ("cancel", "ask_back")
        if op.kind in ("cancel", "ask_back") and answer.status == 200:
            record.canceled_answer = True
        if op.kind == "authorizing" and answer.status == 200:
            record.granted = True
        if op.kind == "ack" and answer.status == 200:
            record.acknowledged = True
        if op.kind == "result":
            self._keep_result(op, answer)

    def _keep_key(self, op: Op, answer: Answer, *, repeated: bool) -> None:
        operation = OPERATIONS[op.kind]
        reference = f"ref-{op.number}" if op.kind == "create" else ""
        record = KeyRecord(f"key-{op.number}", operation, reference, op.order_id)
        if answer.status < 300:
            record.answers.add((answer.status, answer.raw))
            record.ending, record.order_id = "created", answer.body["id"]
            self.sent.append(Sent(op, record, answer))
            if operation == "refund":
                self._keep_refund(answer)
        elif repeated:
            record.ending = "maybe"
        self.records.keys.append(record)

    def _keep_refund(self, answer: Answer) -> None:
        body = answer.body
        refund = body["transactions"]["refunds"][0]
        self.records.refunds.append(RefundRecord(body["id"], refund["id"], refund["amount"], refund["status"]))

    def _keep_result(self, op: Op, answer: Answer) -> None:
        body = answer.body
        self.results.append(op)
        kept = ResultRecord(
            op.order_id,
            _uuid(9, op.number),
            content_of(op),
            answer.status,
            body.get("recorded") is True,
            body.get("order", {}).get("status", ""),
        )
        is_new = not any(one.result_id == kept.result_id for one in self.records.results)
        if is_new and op.content in ("approved", "declined", "canceled"):
            self.records.results.append(kept)

    # What is no request about an order of one's own.

    async def repeat_a_key(self, place: int) -> None:
        """A request that was answered long ago, once more: the very same bytes, and nothing happens."""
        one = self.sent[place % len(self.sent)]
        again = await self.repeated(lambda: self._attempt(one.op, {}))
        one.record.answers.add((again.status, again.raw))
        assert (again.status, again.raw, again.replayed) == (one.answer.status, one.answer.raw, True), one.op

    async def repeat_a_result(self, place: int, *, contradict: bool) -> None:
        """A result that was reported before, or another one under its id."""
        op = self.results[place % len(self.results)]
        if contradict:
            other: Any = {"approved": "declined", "declined": "approved"}.get(op.content, op.content)
            op = Op(op.kind, op.terminal, op.number, op.order_id, op.session, other)
        await self.perform([op])

    async def look_as_a_stranger(self, terminal: int) -> None:
        """Another seller neither sees the order nor cancels it nor reports on it."""
        orders, owner = self.orders[terminal], self.seeds[terminal].seller
        strangers = [seed for seed in self.seeds if seed.seller != owner]
        if not orders or not strangers:
            return
        other, order_id = strangers[0], orders[-1]
        app = {"Authorization": f"Bearer {other.access_token}", "X-Idempotency-Key": f"strange-{self.number}"}
        device = {"Authorization": f"Bearer {other.device_token}"}
        boot = {"boot_id": _uuid(self.seeds.index(other), 1)}
        result = f"/device/v1/leases/{order_id[3:]}/results/{_uuid(8, self.number)}"
        for method, path, body, headers, code in (
            ("GET", f"/v1/orders/{order_id}", None, app, "order_not_found"),
            ("POST", f"/v1/orders/{order_id}/cancel", None, app, "order_not_found"),
            ("POST", f"/v1/orders/{order_id}/refund", None, app, "order_not_found"),
            ("PUT", result, {**boot, **approved()}, device, "lease_not_found"),
        ):
            answer = await self.repeated(partial(self.ask, method, path, body, headers))
            assert (answer.status, answer.body.get("error")) == (404, code), (path, answer)

    async def refresh(self, times: int) -> None:
        """The application's next tokens, asked for as often at once: all are the same."""
        token = self._chain.newest_refresh_token
        body = {**self._application.credentials, "grant_type": "refresh_token", "refresh_token": token}
        attempt = partial(self.ask, "POST", "/oauth/token", body, {})
        answers = [
            one if not one.unknown else await self.repeated(attempt)
            for one in await asyncio.gather(*(attempt() for _ in range(times)))
        ]
        assert {answer.status for answer in answers} == {200}, answers
        self._chain.steps.append((token, {(one.body["access_token"], one.body["refresh_token"]) for one in answers}))
        probe = await self._probe()
        assert probe.status == 404, probe

    async def _probe(self) -> Answer:
        token = next(iter(self._chain.steps[-1][1]))[0]
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
        await self._up()
        write_offset(self._clock, self.offset_ms + by_ms)
        answer = await self.ask("GET", "/readyz", None, {})
        assert answer.status in (NO_ANSWER, 503), answer
        refused = await self._attempt(self.op("get", 0), {})
        assert refused.status in (NO_ANSWER, 503), refused
        write_offset(self._clock, self.offset_ms)

    async def stop(self) -> None:
        """SIGTERM."""
        await self._up()
        await asyncio.to_thread(self.node.end)

    async def settle(self) -> None:
        """Let everything come due and be done; then nothing may be left that a worker should have moved."""
        self._receiver.calm()
        await self.pass_time(SETTLE_MS)
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while await truth.unsettled(self.database_url) != (0, 0):
            await self._up()
            assert time.monotonic() < deadline, "what is due is not done"
            await asyncio.sleep(0.1)
        for terminal, orders in enumerate(self.orders):
            # One after the other: at once there would be too many ways in which it may have been.
            for back in range(len(orders)):
                await self.perform([self.op("get", terminal, back=back)])
            while any(overdue(world, self.now_ms) for world in self.worlds[terminal]):
                assert time.monotonic() < deadline, f"overdue:\n{_listed(self.worlds[terminal])}"
                await asyncio.sleep(0.1)
                await self.perform([self.op("get", terminal)])
        await self.refresh(1)
        self._chain.works_at_the_end = True

    async def hold_to_account(self) -> list[str]:
        """Every promise, read off the answers, the notifications, the log, and the database that nobody serves."""
        await self.stop()
        log = await asyncio.to_thread(self.node.log.read_text)
        found = [*checker.defects("the node", log), *self.records.violations]
        database = await open_database(self.database_url)
        try:
            facts = await truth.read(database, self.records)
            found += checker.violations(self.records, facts)
            found += [f"ledger: {finding}" for finding in await ledger.check(database, self.now_ms)]
        finally:
            await database.close()
        if database.name == "sqlite":
            content = await asyncio.to_thread(Path(self.database_url.removeprefix("sqlite:")).read_bytes)
            found += [f"{name} is in the database" for name in self._secrets_in(content)]
        return found + [f"{name} is in the log" for name in self._secrets_in(log.encode())]

    def _secrets_in(self, content: bytes) -> list[str]:
        named = {f"device token {number}": seed.device_token for number, seed in enumerate(self.seeds)}
        named |= {f"access token {number}": seed.access_token for number, seed in enumerate(self.seeds)}
        named["client secret"] = self._application.credentials["client_secret"]
        for number, (_, given) in enumerate(self._chain.steps):
            for access_token, refresh_token in given:
                named |= {f"refreshed access {number}": access_token, f"refreshed refresh {number}": refresh_token}
        return [name for name, secret in named.items() if secret.encode() in content]


def _listed(worlds: Iterable[World]) -> str:
    return "\n".join(str(world) for world in list(worlds)[:10])


def _uuid(kind: int, number: int) -> str:
    return str(uuid.UUID(int=(kind << 64) + number + 1))


def content_of(op: Op) -> dict[str, Any]:
    """What a result says."""
    match op.content:
        case "approved" | "approved_less":
            paid = {"reference_id": f"{10**11 + op.number}"}
            return {**approved("24.90" if op.content == "approved" else "24.00"), **paid}
        case "declined":
            return {"outcome": "declined", "status_detail": "insufficient_amount"}
        case "canceled":
            return {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
        case "unknown":
            return {"outcome": "unknown"}


def _told(op: Op, answer: Answer) -> Told:
    body = answer.body
    if answer.status >= 400:
        details = [detail for error in body["errors"] for detail in error["details"]]
        is_busy = body["error"] == "already_queued_order_on_terminal"
        names = (details[0].split()[0],) if is_busy and details else ()
        return Told(answer.status, body["error"], names=names)
    if "config" in body:
        payment = body["transactions"]["payments"][0]
        shown = (body["status"], body["status_detail"], payment["status_detail"], str(body["version"]))
        if op.kind != "create":
            return Told(answer.status, shown=shown)
        created_ms = round(datetime.fromisoformat(body["created_date"]).timestamp() * 1000)
        return Told(answer.status, shown=shown, names=(body["id"],), created_ms=created_ms)
    if "leases" in body:
        verdicts = tuple(f"{lease['lease_id'].upper()}:{lease['verdict']}" for lease in body["leases"])
        return Told(answer.status, names=verdicts)
    if "transactions" in body:
        return Told(answer.status, names=(body["transactions"]["refunds"][0]["status"],))
    order = body.get("order", {})
    return Told(answer.status, shown=(order["status"], order["status_detail"]) if order else ())


@asynccontextmanager
async def opened(database_url: str, folder: Path, figures: Figures, chance: Any) -> AsyncIterator[Shop]:
    """A shop that is open until the block ends; nothing of it is left behind."""
    shop = Shop(database_url, folder, figures)
    timeout = aiohttp.ClientTimeout(TIMEOUT_SECONDS)
    try:
        async with inbox.listening(shop.records, chance) as receiver, aiohttp.ClientSession(timeout=timeout) as session:
            session._retry_connection = False
            await shop.begin(session, receiver, chance)
            yield shop
    finally:
        shop.node.close()
        shutil.rmtree(folder, ignore_errors=True)
