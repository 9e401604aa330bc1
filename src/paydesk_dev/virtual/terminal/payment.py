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
from paydesk_dev.virtual.terminal import receipts
from paydesk_dev.virtual.terminal.actions import Dialogue
from paydesk_dev.virtual.terminal.client import DeviceClient, Pace, ServiceUnavailable
from paydesk_dev.virtual.terminal.panel import Panel
from paydesk_dev.virtual.terminal.receipts import Receipt

CANCELED = {"outcome": "canceled", "status_detail": "canceled_on_terminal"}
"""The result when the buyer or cashier canceled at the terminal before the permit."""
NEVER_CHARGED = {"outcome": "declined", "status_detail": "processing_error"}
"""The result when the terminal had the permit and did not call the acquirer."""
UNKNOWN = {"outcome": "unknown"}
"""The result when the terminal called the acquirer and got no answer."""
RESUMED_SEQ = 1_000
"""The number of the step that requests the permit again after a restart."""
ENCRYPTED_DATA = "dmlydHVhbCBjYXJk"
"""Stands for the encrypted card data of a terminal of kind `service`."""

_log = structlog.get_logger("virtual.terminal")


@dataclass(frozen=True, slots=True)
class Device:
    """What a payment needs of its terminal. The lock is held during each step that decides about the order."""

    client: DeviceClient
    journal: Journal
    pace: Pace
    lock: asyncio.Lock
    panel: Panel

    def expires_ms(self, entry: Entry) -> int | None:
        """Return when the order expires by the machine's clock, None if that is unknown."""
        seconds = self.client.seconds_until(entry.expires_date)
        return None if seconds is None else int((runtime.wall_ns() / 1_000_000_000 + seconds) * 1000)


async def play(device: Device, entry: Entry, script: Script) -> bool:
    """Play the script with an order; return whether the journal has a result. `hold` plays until it is canceled.

    An order that was permitted before a restart goes on with the request for the permit.
    """
    is_resumed = entry.step == AUTHORIZING
    if is_resumed and AUTHORIZING not in script.steps:
        await conclude(device, entry, NEVER_CHARGED)
        return True
    if not is_resumed:
        if not await acknowledge(device, entry):
            return False
        entry = msgspec.structs.replace(entry, step=ACKNOWLEDGED)
    skipped = script.steps.index(AUTHORIZING) if is_resumed else 0
    for seq, step in enumerate(script.steps[skipped:], skipped + 1):
        _show_step(device, entry, step)
        if step != AUTHORIZING:
            await device.pace.retry(partial(device.client.progress, entry.lease_id, seq, step))
        elif not await authorize(device, entry, script.presented(entry.order), seq):
            return False
        await device.pace.sleep(script.pause_seconds)
    if script.name == "hold":
        await asyncio.Event().wait()
    if script.name == "cancel":
        await conclude(device, entry, CANCELED)
    return True


async def converse(device: Device, entry: Entry, dialogue: Dialogue, seq: int = 0) -> bool:
    """Process the acknowledged order with a person, and report the steps; return whether the journal has a result.

    The steps are numbered after `seq`.
    """
    reporting = asyncio.create_task(_report_steps(device, entry, dialogue, seq), name="steps of a dialogue")
    try:
        await dialogue.ended.wait()
        if dialogue.ending == "presented":
            # The steps come before the permit.
            dialogue.steps.put_nowait("")
            seq = await reporting
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
    if dialogue.ending == "canceled":
        await conclude(device, entry, CANCELED)
        return True
    entry = msgspec.structs.replace(entry, chosen=dialogue.presented)
    if dialogue.ending == "blocked":
        await conclude(device, entry, dialogue.blocked)
        return True
    if not await authorize(device, entry, dialogue.presented, seq):
        return False
    shown_until = device.panel.authorizing_since + device.pace.authorizing_seconds
    await device.pace.sleep(max(0.0, shown_until - runtime.monotonic()))
    return True


async def _report_steps(device: Device, entry: Entry, dialogue: Dialogue, seq: int) -> int:
    """Report the steps in their order until an empty one; return the number of the next."""
    while step := await dialogue.steps.get():
        seq += 1
        await device.pace.retry(partial(device.client.progress, entry.lease_id, seq, step))
    return seq + 1


def receipt_of(device: Device, entry: Entry) -> Receipt | None:
    """Return the receipt of the result, if there is one."""
    return receipts.of_result(entry, device.panel.seller_name, device.journal.terminal_id, device.client.now())


def _show_step(device: Device, entry: Entry, step: str) -> None:
    """Show what a terminal shows while a script plays the step; `authorize` shows its own screen."""
    screens = device.panel.order
    if screens is None:
        return
    if step == "card_requested":
        device.panel.show(screens.present_card(device.expires_ms(entry)))
    elif step == "pin_requested":
        screens.entry = "insert"
        # Its PIN is the script's: a person can only cancel.
        device.panel.show(msgspec.structs.replace(screens.pin(), actions=("press_cancel",)))
    elif step == "card_removal":
        screens.entry = ""


async def conclude(device: Device, entry: Entry, result: dict[str, Any]) -> None:
    """Write the result to the journal, under a new id, before it is sent."""
    async with device.lock:
        await _store(device, entry, result)


async def resume(device: Device, entry: Entry) -> None:
    """Write the result of a payment that has the permit: repeat the call to the acquirer, if it may have been charged.

    Raises `SessionEnded`; then the entry stays in the journal.
    """
    if not entry.sent:
        await conclude(device, entry, NEVER_CHARGED)
        return
    device.panel.show_authorizing()
    async with device.lock:
        await _store(device, entry, await _call_acquirer(device, entry, may_be_charged=True))


async def acknowledge(device: Device, entry: Entry) -> bool:
    """Acknowledge the order; return False if it has ended."""
    if device.panel.order is not None:
        device.panel.show(device.panel.order.screen("amount"))
    async with device.lock:
        await device.journal.put(entry)
        reply = await device.pace.retry(partial(device.client.acknowledge, entry.lease_id))
        if reply.status != 200:
            return await _release(device, entry, ACKNOWLEDGED, reply)
        await device.journal.put(msgspec.structs.replace(entry, step=ACKNOWLEDGED))
        return True


async def authorize(device: Device, entry: Entry, presented: dict[str, Any], seq: int) -> bool:
    """Request the permit, charge what the buyer presented, and write the result; return False if it is refused."""
    requests = int(entry.step == AUTHORIZING)

    def request_permit() -> Awaitable[Reply]:
        nonlocal requests
        requests += 1
        return device.client.progress(entry.lease_id, seq, AUTHORIZING)

    async with device.lock:
        await device.journal.put(msgspec.structs.replace(entry, step=AUTHORIZING))
        reply = await device.pace.retry(request_permit)
        until = str(reply.body.get("until", ""))
        if reply.status != 200 or reply.body.get("go") is not True:
            if requests == 1:
                return await _release(device, entry, AUTHORIZING, reply)
            # An earlier request may have been granted: without a result the service would ask the acquirer.
            await _store(device, entry, NEVER_CHARGED)
            return True
        entry = msgspec.structs.replace(entry, step=AUTHORIZING, until=until)
        if not device.client.is_before(until):
            await _store(device, entry, NEVER_CHARGED)
            return True
        entry = msgspec.structs.replace(entry, presented=presented)
        await device.journal.put(entry)
        device.panel.show_authorizing()
        await _store(device, entry, await _call_acquirer(device, entry))
        return True


async def _call_acquirer(device: Device, entry: Entry, *, may_be_charged: bool = False) -> dict[str, Any]:
    """Call the acquirer until it answers; return the result, *unknown* if the permit expires before."""
    assert entry.presented is not None, "the card is written to the journal before the acquirer is called"
    authorize = _authorize_call(device, entry, entry.presented)
    failures = 0
    while device.client.is_before(entry.until):
        try:
            reply = await authorize()
        except ServiceUnavailable:
            may_be_charged = True
            await device.pace.back_off(failures)
            failures += 1
            continue
        answer = reply.body if reply.status == 200 else {"outcome": "not_sent"}
        if reply.status != 200:
            _log.warning("authorization_refused", lease_id=entry.lease_id, status=reply.status)
        if may_be_charged and answer.get("outcome") == "not_sent":
            break
        return result_of(entry.order, entry.presented, answer)
    return UNKNOWN


def _authorize_call(
    device: Device, entry: Entry, presented: Mapping[str, Any]
) -> Callable[[], Coroutine[Any, Any, Reply]]:
    """Return the call that has the payment authorized: by the service for kind `service`, else by the acquirer."""
    if device.journal.kind != "service":
        about = {"payment_id": entry.order["payment_id"], "amount": paid_amount(entry.order, presented)}
        shown = {name: value for name, value in presented.items() if name != "tip_amount"}
        return partial(device.client.authorize, {**about, **shown})
    card = presented["card"]
    request = {
        **presented,
        "entry_mode": card["entry_mode"],
        "card": {"first_digits": card["first_digits"], "last_digits": card["last_digits"]},
        "encrypted_data": ENCRYPTED_DATA,
    }
    return partial(device.client.authorize_by_service, entry.lease_id, request)


def result_of(order: Mapping[str, Any], presented: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result to report for the acquirer's answer; an unexpected answer is an unknown outcome."""
    match answer.get("outcome"):
        case "approved":
            return {
                "outcome": "approved",
                "status_detail": "accredited",
                **presented,
                "paid_amount": paid_amount(order, presented),
                "authorization_code": answer["authorization_code"],
                "reference_id": answer["reference_id"],
            }
        case "declined":
            return {"outcome": "declined", "status_detail": answer["status_detail"], **presented}
        case "not_sent":
            return NEVER_CHARGED
        case _:
            return UNKNOWN


async def _store(device: Device, entry: Entry, result: dict[str, Any]) -> None:
    await device.journal.put(msgspec.structs.replace(entry, result=result, result_id=str(uuid4())))


async def _release(device: Device, entry: Entry, step: str, reply: Reply) -> bool:
    _log.info(
        "order_released",
        terminal_id=device.journal.terminal_id,
        lease_id=entry.lease_id,
        step=step,
        status=reply.status,
        code=reply.code,
    )
    await device.journal.forget(entry.lease_id)
    device.panel.drop(entry.order.get("id"))
    return False
