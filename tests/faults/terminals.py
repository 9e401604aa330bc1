"""A terminal: takes orders from its poll, requests authorization, reports the outcome, and is restarted at times.

It keeps its journal across starts, as the protocol asks, goes to the acquirer by itself, and reports what that said.
Some charge without a permit, or after they released the order; some never receive the response, or never report it.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import Any

from acquirer_door import PATH, asking
from faults.caller import Answer, Caller, GaveUp
from faults.records import ChargeRecord, Records, ResultRecord
from faults.scene import TerminalSeed
from paydesk.engine.payments.acquirer import Payment
from service import approved

WAIT_SECONDS = 1
POLL_TIMEOUT_SECONDS = 5.0
GONE = ("order_canceled", "order_finished", "stale_session")
RECORDED = ("order_finished", "result_conflict")
AMOUNT_MINOR = 2490
CARDS = (*("visa_approved",) * 6, *("insufficient_amount",) * 3, "no_answer")
"""What buyers present; of the last one the answer is lost."""
UNGRANTED, GIVEN_BACK, SILENT = 0.04, 0.5, 0.01
"""How often one charges without asking, or although it has just given the order back, or says nothing at all."""


@dataclass
class Entry:
    """A line of the journal."""

    lease_id: str
    terminal_id: str
    last_step: str = "offered"
    card: str = ""
    result_id: str = ""
    result: dict[str, Any] | None = None

    @property
    def order_id(self) -> str:
        """The order that the lease is of."""
        return f"ORD{self.lease_id}"


class Terminal:
    """One terminal, from its first hello on."""

    def __init__(self, caller: Caller, records: Records, seed: TerminalSeed, stop: asyncio.Event) -> None:
        self.caller, self.records, self.stop = caller, records, stop
        self.terminal_id, self.seller = seed.terminal_id, seed.seller
        self._authorization = {"Authorization": f"Bearer {seed.device_token}"}
        self._boot_id = ""
        self._journal: dict[str, Entry] = {}
        self._ignored: set[str] = set()

    async def run(self) -> None:
        """Start, and serve until `stop` is set and no payment is in progress."""
        try:
            await self._start()
            idle = False
            while not idle:
                message = await self._poll()
                idle = self.stop.is_set() and message is None
                if message is not None:
                    await self._handle(message)
                if self.caller.chance.random() < 0.02:
                    await self._start()
        except GaveUp:
            return

    async def _start(self) -> None:
        """Say hello with the journal, and do what each verdict says."""
        self._boot_id = str(uuid.uuid4())
        journal = [
            {
                "lease_id": entry.lease_id,
                "last_step": entry.last_step,
                "sent": bool(entry.card),
                **({"result": entry.result} if entry.result else {}),
            }
            for entry in self._journal.values()
        ]
        answer = await self._say("POST", "/hello", {"app_version": "1", "journal": journal}, ())
        verdicts = {one["lease_id"]: one["verdict"] for one in answer.body.get("leases", ())}
        for entry in list(self._journal.values()):
            await self._follow(entry, verdicts.get(entry.lease_id, "forget"))

    async def _follow(self, entry: Entry, verdict: str) -> None:
        if verdict == "resume":
            await (self._authorize(entry) if entry.last_step == "authorizing" else self._acknowledge(entry))
            return
        if entry.result is None and verdict == "hold" and entry.last_step == "authorizing":
            # The acquirer has the outcome and returns it to the terminal on request.
            await self._charge(entry)
        elif entry.result is None and verdict != "abort" and (verdict == "hold" or entry.last_step == "authorizing"):
            self._give_up(entry)
        if entry.result is not None:
            await self._report(entry)
        else:
            self._forget(entry)

    async def _poll(self) -> dict[str, Any] | None:
        path = f"/device/v1/next?boot_id={self._boot_id}&wait={WAIT_SECONDS}"
        answer = await self.caller.known("GET", path, headers=self._authorization, timeout_seconds=POLL_TIMEOUT_SECONDS)
        message: dict[str, Any] | None = answer.body if answer.status == 200 else None
        return message

    async def _handle(self, message: dict[str, Any]) -> None:
        lease_id = message.get("lease_id", "")
        entry = self._journal.get(lease_id)
        if message["type"] == "order":
            await self._offered(lease_id)
        elif message["type"] == "cancel":
            path = f"/leases/{lease_id}/cancel-result"
            answer = await self._say("POST", path, {"done": True}, ("order_granted",))
            if entry is not None and entry.result is None:
                await self._given_back(entry, answer)
        elif message["type"] == "expired" and entry is not None and entry.result is None:
            self._forget(entry)

    async def _given_back(self, entry: Entry, answer: Answer) -> None:
        """The buyer may have held a card against it that very moment."""
        if answer.outcome == "ok" and self.caller.chance.random() < GIVEN_BACK:
            await self._charge(entry, is_granted=False)
            await self._report(entry)
        self._forget(entry)

    async def _offered(self, lease_id: str) -> None:
        if lease_id not in self._journal and self.caller.chance.random() < 0.04:
            self._ignored.add(lease_id)
        if lease_id in self._ignored:
            return
        entry = self._journal.setdefault(lease_id, Entry(lease_id, self.terminal_id))
        if self._is_started_again():
            await self._start()
            return
        await self._acknowledge(entry)

    async def _acknowledge(self, entry: Entry) -> None:
        answer = await self._say("POST", f"/leases/{entry.lease_id}/ack", {}, GONE)
        if answer.outcome == "no":
            self._forget(entry)
            return
        entry.last_step = "acknowledged"
        self.records.order(entry.order_id, self.terminal_id).acknowledged = True
        self.caller.tally.acknowledged["at terminal"] += 1
        if self._is_started_again():
            await self._start()
            return
        if self.caller.chance.random() < 0.1:
            entry.result_id = str(uuid.uuid4())
            entry.result = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
            await self._report(entry)
        elif self.caller.chance.random() < UNGRANTED:
            await self._charge(entry, is_granted=False)
            await asyncio.sleep(self.caller.chance.uniform(0.0, 1.0))
            await self._report(entry)
        else:
            await self._authorize(entry)

    async def _authorize(self, entry: Entry) -> None:
        entry.last_step = "authorizing"
        body = {"seq": 1, "step": "authorizing"}
        answer = await self._say("POST", f"/leases/{entry.lease_id}/progress", body, GONE)
        if answer.outcome == "ok":
            self.records.order(entry.order_id, self.terminal_id).granted = True
            self.caller.tally.acknowledged["granted"] += 1
            if self._is_started_again():
                await self._start()
                return
            await self._charge(entry)
            if self.caller.chance.random() < SILENT:
                # The grant makes it the service's own concern.
                self._forget(entry)
                return
        elif answer.attempts > 1:
            # Nothing is charged; where an earlier attempt got the permit, the order still waits for an outcome.
            self._give_up(entry)
        else:
            # A message says why: it was asked for, or is out of time.
            return
        if self._is_started_again():
            await self._start()
            return
        await self._report(entry)

    async def _charge(self, entry: Entry, *, is_granted: bool = True) -> None:
        """Return the acquirer's result, written to the journal before it is reported.

        A lost response is requested again by a terminal without a permit: no other party would ask.
        """
        entry.card = entry.card or self.caller.chance.choice(CARDS)
        payment = Payment(self.seller, self.terminal_id, f"PAY{entry.lease_id}", AMOUNT_MINOR, "BRL")
        result = (await self.caller.known("POST", PATH, asking(payment, entry.card))).body
        if result["outcome"] == "unknown" and not is_granted:
            result = (await self.caller.known("POST", PATH, asking(payment, entry.card))).body
        entry.result_id = str(uuid.uuid4())
        if result["outcome"] == "approved":
            entry.result = {**approved(), "reference_id": result["reference_id"]}
        else:
            entry.result = result
        if result["outcome"] != "unknown":
            outcome, reference_id = result["outcome"], result.get("reference_id", "")
            self.records.charges.append(ChargeRecord(entry.order_id, outcome, reference_id))

    def _give_up(self, entry: Entry) -> None:
        entry.result_id = str(uuid.uuid4())
        entry.result = {"outcome": "declined", "status_detail": "processing_error"}

    async def _report(self, entry: Entry) -> None:
        """Until it is taken or recorded."""
        content = entry.result
        assert content is not None, "a result is journaled before it is sent"
        path = f"/leases/{entry.lease_id}/results/{entry.result_id}"
        answer = await self._say("PUT", path, content, RECORDED)
        order = answer.body.get("order", {})
        self.records.results.append(
            ResultRecord(
                entry.order_id,
                entry.result_id,
                content,
                answer.status,
                answer.body.get("recorded") is True,
                order.get("status", ""),
            )
        )
        self.caller.tally.acknowledged[f"{content['outcome']}{'' if answer.outcome == 'ok' else ', too late'}"] += 1
        self._forget(entry)

    async def _say(self, method: str, path: str, body: dict[str, Any], expected: tuple[str, ...]) -> Answer:
        """A call of the device protocol, now and then sent twice at once."""
        sent = {"boot_id": self._boot_id, **body}
        times = 2 if self.caller.chance.random() < 0.05 else 1
        answers = await asyncio.gather(
            *(
                self.caller.known(method, f"/device/v1{path}", sent, headers=self._authorization, expected=expected)
                for _ in range(times)
            )
        )
        if method == "PUT" and len({(answer.status, answer.raw) for answer in answers}) > 1:
            self.records.violations.append(f"one result, sent twice to {path}, was answered {answers}")
        return next((answer for answer in answers if answer.outcome == "ok"), answers[0])

    def _forget(self, entry: Entry) -> None:
        self._journal.pop(entry.lease_id, None)

    def _is_started_again(self) -> bool:
        return self.caller.chance.random() < 0.02
