"""One order with a person: it waits for the dialogue, reports its steps, and has the payment authorized."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from paydesk.core import runtime
from paydesk.sandbox.terminals.dialogue import Dialogue
from paydesk.sandbox.terminals.journal import Entry
from paydesk.sandbox.terminals.payment import CANCELED, Device, authorize, conclude


async def play(device: Device, entry: Entry, dialogue: Dialogue, seq: int = 0) -> bool:
    """Process the acknowledged order; return whether the journal has a result. Steps are numbered after `seq`."""
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
