"""One order on a virtual terminal, from its acknowledgement to a result in the journal.

The acquirer is called only while the authorization permit is valid, and under the payment's id. The journal is written
before and after the call: after a crash in between, the call is repeated under the same key and charges nothing twice;
after a crash before it, the permit is requested again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec
import structlog

from paydesk.core import runtime
from paydesk_dev.http_client import Reply
from paydesk_dev.virtual.journal import ACKNOWLEDGED, AUTHORIZING, Entry, Journal
from paydesk_dev.virtual.scripts.presented import paid_amount
from paydesk_dev.virtual.scripts.scripts import Script
from paydesk_dev.virtual.terminal import receipts, tasks
from paydesk_dev.virtual.terminal.actions import CANCELED, Dialogue
from paydesk_dev.virtual.terminal.client import DeviceClient, Pace, ServiceUnavailable
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.receipts import Receipt

NEVER_CHARGED = {"outcome": "declined", "status_detail": "processing_error"}
"""The result when the terminal had the permit and did not call the acquirer."""
UNKNOWN = {"outcome": "unknown"}
"""The result when the terminal called the acquirer and got no answer."""
RESUMED_SEQ = 1_000
"""The number of the step that requests the permit again after a restart."""
UNDO_SECONDS_MAX = 25.0
"""How long after the permit the terminal may still undo a payment: later the service may have asked for its outcome."""
ENCRYPTED_DATA = "dmlydHVhbCBjYXJk"
"""Stands for the encrypted card data of a terminal of kind `service`."""

_log = structlog.get_logger("virtual.terminal")


class _CardRemoved(Exception):
    """The card was taken out before the permit was requested."""


@dataclass(frozen=True, slots=True)
class Device:
    """A terminal as it processes an order. The lock is held during each step that decides about the order.

    Each way to process one returns whether the journal has a result; if not, the order was released.
    """

    client: DeviceClient
    journal: Journal
    pace: Pace
    lock: asyncio.Lock
    panel: Panel

    def receipt_of(self, entry: Entry) -> Receipt | None:
        """Return the receipt of the result, if there is one."""
        return receipts.of_result(entry, self.panel.seller_name, self.journal.terminal_id, self.client.now())

    async def play(self, entry: Entry, script: Script) -> bool:
        """Play the script with an acknowledged order. `hold` plays until it is canceled.

        An order that was permitted before a restart goes on with the request for the permit.
        """
        is_permitted = entry.step == AUTHORIZING
        if is_permitted and AUTHORIZING not in script.steps:
            return await self.conclude(entry, NEVER_CHARGED)
        skipped = script.steps.index(AUTHORIZING) if is_permitted else 0
        for seq, step in enumerate(script.steps[skipped:], skipped + 1):
            self._show_step(step)
            if step != AUTHORIZING:
                await self.pace.retry(partial(self.client.progress, entry.lease_id, seq, step))
            elif not await self.authorize(entry, script.presented(entry.order), seq):
                return False
            await self.pace.sleep(script.pause_seconds)
        if script.name == "hold":
            await asyncio.Event().wait()
        return await self.conclude(entry, CANCELED) if script.name == "cancel" else True

    async def converse(self, entry: Entry, dialogue: Dialogue, seq: int = 0) -> bool:
        """Process the acknowledged order with a person, and report the steps, which are numbered after `seq`."""

        async def report_steps() -> int:
            """Report the steps in their order until an empty one; return the number of the next."""
            number = seq
            while step := await dialogue.steps.get():
                number += 1
                await self.pace.retry(partial(self.client.progress, entry.lease_id, number, step))
            return number + 1

        reporting = asyncio.create_task(report_steps(), name="steps of a dialogue")
        try:
            await dialogue.ended.wait()
            if dialogue.result is None:
                # The steps come before the permit.
                dialogue.steps.put_nowait("")
                seq = await reporting
        finally:
            await tasks.cancel(reporting)
        chosen = msgspec.structs.replace(entry, chosen=dialogue.presented or None)
        if dialogue.result is not None:
            return await self.conclude(chosen, dialogue.result)
        if not await self.authorize(chosen, dialogue.presented, seq):
            return False
        shown_until = self.panel.authorizing_since + self.pace.authorizing_seconds
        await self.pace.sleep(max(0.0, shown_until - runtime.monotonic()))
        if self.panel.keep_card():
            await self._undo(entry.lease_id)
        return True

    async def resume(self, entry: Entry) -> bool:
        """Write the result of a payment that has the permit: repeat the call that may have charged it.

        Raises `SessionEnded`; then the entry stays in the journal.
        """
        if not entry.sent:
            return await self.conclude(entry, NEVER_CHARGED)
        self.panel.show_authorizing()
        async with self.lock:
            return await self._store(*await self._call_acquirer(entry, may_be_charged=True))

    async def acknowledge(self, entry: Entry) -> Entry | None:
        """Acknowledge the order; return its new entry, or None if the order has ended."""
        if self.panel.order is not None:
            self.panel.show(self.panel.order.screen("amount"))
        async with self.lock:
            await self.journal.put(entry)
            reply = await self.pace.retry(partial(self.client.acknowledge, entry.lease_id))
            if reply.status != 200:
                await self._release(entry, ACKNOWLEDGED, reply)
                return None
            return await self.journal.put(entry, step=ACKNOWLEDGED)

    async def authorize(self, entry: Entry, presented: dict[str, Any], seq: int) -> bool:
        """Request the permit, charge what the buyer presented, and write the result."""
        requests = int(entry.step == AUTHORIZING)

        def request_permit() -> Awaitable[Reply]:
            nonlocal requests
            if self.panel.is_card_out and not requests:
                raise _CardRemoved
            requests += self.client.link.is_up
            return self.client.progress(entry.lease_id, seq, AUTHORIZING)

        async with self.lock:
            permitted = await self.journal.put(entry, step=AUTHORIZING)
            try:
                reply = await self.pace.retry(request_permit)
            except _CardRemoved:
                return await self._store(entry, CANCELED)
            if reply.status != 200 or reply.body.get("go") is not True:
                if requests == 1:
                    return await self._release(entry, AUTHORIZING, reply)
                # An earlier request may have been granted: without a result the service would ask the acquirer.
                return await self._store(entry, NEVER_CHARGED)
            permitted = msgspec.structs.replace(permitted, until=str(reply.body.get("until", "")))
            if not self.client.is_before(permitted.until) or self.panel.is_card_out:
                return await self._store(permitted, NEVER_CHARGED)
            charged = await self.journal.put(permitted, presented=presented)
            self.panel.show_authorizing()
            return await self._store(*await self._call_acquirer(charged))

    async def conclude(self, entry: Entry, result: dict[str, Any]) -> bool:
        """Write the result to the journal, under a new id, before it is sent."""
        async with self.lock:
            return await self._store(entry, result)

    def _show_step(self, step: str) -> None:
        """Show what a terminal shows while a script plays the step; `authorize` shows its own screen."""
        screens = self.panel.order
        if screens is None:
            return
        if step == "card_requested":
            self.panel.show(screens.present_card())
        elif step == "pin_requested":
            screens.entry = "insert"
            # Its PIN is the script's: a person can only cancel.
            self.panel.show(msgspec.structs.replace(screens.pin(), actions=("press_cancel",)))
        elif step == "card_removal":
            screens.entry = ""

    async def _call_acquirer(self, entry: Entry, *, may_be_charged: bool = False) -> tuple[Entry, dict[str, Any]]:
        """Call the acquirer until it answers; return the entry and the result, *unknown* if the permit expires."""
        assert entry.presented is not None, "the card is written to the journal before the acquirer is called"
        authorize = self._authorize_call(entry, entry.presented)
        failures = 0
        while self.client.is_before(entry.until):
            try:
                reply = await authorize()
            except ServiceUnavailable:
                may_be_charged = True
                await self.pace.back_off(failures)
                failures += 1
                continue
            answer = reply.body if reply.status == 200 else {"outcome": "not_sent"}
            if reply.status != 200:
                _log.warning("authorization_refused", lease_id=entry.lease_id, status=reply.status)
            if may_be_charged and answer.get("outcome") == "not_sent":
                break
            is_provisional = answer.get("result_required") is True
            answered = msgspec.structs.replace(entry, is_provisional=is_provisional)
            return answered, result_of(entry.order, entry.presented, answer)
        return entry, UNKNOWN

    def _authorize_call(self, entry: Entry, presented: Mapping[str, Any]) -> Callable[[], Coroutine[Any, Any, Reply]]:
        """Return the call that has the payment authorized: by the service for kind `service`, else by the acquirer."""
        if self.journal.kind != "service":
            about = {"payment_id": entry.order["payment_id"], "amount": paid_amount(entry.order, presented)}
            shown = {name: value for name, value in presented.items() if name != "tip_amount"}
            return partial(self.client.authorize, {**about, **shown})
        card = dict(presented["card"])
        request = {**presented, "entry_mode": card.pop("entry_mode"), "card": card, "encrypted_data": ENCRYPTED_DATA}
        return partial(self.client.authorize_by_service, entry.lease_id, request)

    async def _undo(self, lease_id: str) -> None:
        """Replace an approval in the journal by a decline, because the card was taken out too early.

        A terminal that asks its acquirer itself reverses the payment there first. Where it is too late for that, or the
        reversal is not answered, the outcome is unknown, and the service inquires.
        """
        async with self.lock:
            entry = self.journal.entries[lease_id]
            if entry.presented is None or entry.result is None or entry.result["outcome"] == "declined":
                return
            is_service = self.journal.kind == "service"
            if is_service and not entry.is_provisional:
                return  # The approval is final, or the outcome unknown: it may be approved.
            is_undone = is_service or await self._reverse(entry)
            await self._store(entry, {**NEVER_CHARGED, **entry.presented} if is_undone else UNKNOWN)

    async def _reverse(self, entry: Entry) -> bool:
        """Reverse the payment at the acquirer; return whether that is certain."""
        if runtime.monotonic() - self.panel.authorizing_since > UNDO_SECONDS_MAX:
            return False
        # After a crash the acquirer is asked again, and says what has become of the payment.
        await self.journal.put(entry, result=None, result_id="")
        try:
            reply = await self.client.reverse(entry.order["payment_id"])
        except ServiceUnavailable:
            return False
        return reply.status == 200 and reply.body.get("outcome") == "approved"

    async def _store(self, entry: Entry, result: dict[str, Any]) -> bool:
        await self.journal.put(entry, result=result, result_id=str(uuid4()))
        return True

    async def _release(self, entry: Entry, step: str, reply: Reply) -> bool:
        """Forget the order, of which the service refused this step."""
        about = {"terminal_id": self.journal.terminal_id, "lease_id": entry.lease_id}
        _log.info("order_released", **about, step=step, status=reply.status, code=reply.code)
        await self.journal.forget(entry.lease_id)
        self.panel.drop(entry.order.get("id"))
        return False


def result_of(order: Mapping[str, Any], presented: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result to report for the acquirer's answer; an unexpected answer is an unknown outcome."""
    match answer.get("outcome"):
        case "approved":
            return {
                "outcome": "approved",
                "status_detail": "accredited",
                **presented,
                "paid_amount": answer.get("amount") or paid_amount(order, presented),
                "authorization_code": answer["authorization_code"],
                "reference_id": answer["reference_id"],
            }
        case "declined":
            return {"outcome": "declined", "status_detail": answer["status_detail"], **presented}
        case "not_sent":
            return NEVER_CHARGED
        case _:
            return UNKNOWN
