"""One order at a virtual terminal, from its acknowledgement to a result in the journal.

The acquirer is asked within a grant alone, under the payment's id, and the journal says so before it is asked and what
came of it after: a crash in between asks again under the same key, which charges nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec
import structlog

from paydesk.sandbox.terminals import cards
from paydesk.sandbox.terminals.journal import ACKNOWLEDGED, AUTHORIZING, Entry, Journal
from paydesk.sandbox.terminals.link import Away, Link, Reply
from paydesk.sandbox.terminals.pace import Pace
from paydesk.sandbox.terminals.scripts import Script

_log = structlog.get_logger("virtual.terminal")


@dataclass(frozen=True, slots=True)
class Device:
    """What a payment needs of its terminal. Whoever holds `asking` has the say on the order alone."""

    link: Link
    journal: Journal
    pace: Pace
    asking: asyncio.Lock


async def play(device: Device, entry: Entry, script: Script) -> bool:
    """Play the script with an order; whether a result is in the journal now. `hold` plays until it is canceled."""
    if not await _acknowledge(device, entry):
        return False
    entry = msgspec.structs.replace(entry, step=ACKNOWLEDGED)
    for seq, step in enumerate(script.steps, 1):
        if step != AUTHORIZING:
            await insist(device.pace, partial(device.link.progress, entry.lease_id, seq, step))
        elif not await _authorize(device, entry, script, seq):
            return False
        await device.pace.sleep(script.pause_seconds)
    if script.name == "hold":
        await asyncio.Event().wait()
    if script.name == "cancel":
        await conclude(device, entry, cards.canceled())
    return True


async def conclude(device: Device, entry: Entry, result: dict[str, Any]) -> None:
    """Write the result of the order down, under an id of its own, before anything is sent."""
    async with device.asking:
        await _keep(device, entry, result)


async def insist(pace: Pace, call: Callable[[], Awaitable[Reply]]) -> Reply:
    """Call until the service answers."""
    failures = 0
    while True:
        try:
            return await call()
        except Away:
            await pace.back_off(failures)
            failures += 1


async def _acknowledge(device: Device, entry: Entry) -> bool:
    async with device.asking:
        await device.journal.put(entry)
        reply = await insist(device.pace, partial(device.link.acknowledge, entry.lease_id))
        if reply.status != 200:
            return await _lost(device, entry, ACKNOWLEDGED, reply)
        await device.journal.put(msgspec.structs.replace(entry, step=ACKNOWLEDGED))
        return True


async def _authorize(device: Device, entry: Entry, script: Script, seq: int) -> bool:
    async with device.asking:
        await device.journal.put(msgspec.structs.replace(entry, step=AUTHORIZING))
        reply = await insist(device.pace, partial(device.link.progress, entry.lease_id, seq, AUTHORIZING))
        until = str(reply.body.get("until", ""))
        if reply.status != 200 or reply.body.get("go") is not True:
            return await _lost(device, entry, AUTHORIZING, reply)
        entry = msgspec.structs.replace(entry, step=AUTHORIZING, until=until)
        if not device.link.is_before(until):
            await _keep(device, entry, cards.never_charged())
            return True
        entry = msgspec.structs.replace(entry, presented=script.presented(entry.order))
        await device.journal.put(entry)
        await _keep(device, entry, await _ask(device, entry))
        return True


async def ask_again(device: Device, entry: Entry) -> None:
    """Find out what became of a payment that may have been charged, and write it down."""
    async with device.asking:
        await _keep(device, entry, await _ask(device, entry, may_be_charged=True))


async def _ask(device: Device, entry: Entry, *, may_be_charged: bool = False) -> dict[str, Any]:
    """The result of asking the acquirer. Without an answer before the grant ends, or with a silent one: unknown."""
    assert entry.presented is not None, "what the acquirer is asked with is written down before"
    request = {"payment_id": entry.order["payment_id"], "amount": entry.order["amount"], **entry.presented}
    failures = 0
    while device.link.is_before(entry.until):
        try:
            reply = await device.link.ask_acquirer(request)
        except Away:
            may_be_charged = True
            await device.pace.back_off(failures)
            failures += 1
            continue
        answer = reply.body if reply.status == 200 else {"outcome": "not_sent"}
        if reply.status != 200:
            _log.warning("the acquirer refused to be asked", lease_id=entry.lease_id, status=reply.status)
        if may_be_charged and answer.get("outcome") == "not_sent":
            break
        return cards.result(entry.order, entry.presented, answer)
    return cards.unknown()


async def _keep(device: Device, entry: Entry, result: dict[str, Any]) -> None:
    await device.journal.put(msgspec.structs.replace(entry, result=result, result_id=str(uuid4())))


async def _lost(device: Device, entry: Entry, at: str, reply: Reply) -> bool:
    _log.info(
        "an order was taken back",
        terminal_id=device.journal.terminal_id,
        lease_id=entry.lease_id,
        at=at,
        status=reply.status,
        code=reply.code,
    )
    await device.journal.forget(entry.lease_id)
    return False
