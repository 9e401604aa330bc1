"""Plays the cases one after another and yields their outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection

from paydesk.core import runtime
from paydesk_dev.conformance.case import Case, Outcome, Status
from paydesk_dev.conformance.cases import permits, restarts, results, sessions
from paydesk_dev.conformance.kit import Kit, is_welcome
from paydesk_dev.conformance.rules import judge
from paydesk_dev.conformance.verdicts import Failed, NotApplicable, NotShown

IDLE_SECONDS = 10.0

CASES = {
    one.name: one
    for module in (sessions, permits, results, restarts)
    for one in vars(module).values()
    if isinstance(one, Case)
}
"""All cases by name, in the order in which they are played."""


async def play(
    kit: Kit, only: Collection[str] = (), begins: Callable[[Case], None] = lambda _: None
) -> AsyncIterator[Outcome]:
    """Play the cases, or those named, and yield their outcomes; then those of the rules."""
    for each in CASES.values():
        if not only or each.name in only:
            begins(each)
            began = runtime.monotonic()
            status, reason = await _judged(kit, each)
            yield Outcome(each.name, each.section, each.must, status, reason, runtime.monotonic() - began)
    for outcome in judge(kit.log):
        yield outcome


async def first_hello(kit: Kit, seconds: float) -> bool:
    """Wait until the terminal has said hello for the first time; return False after `seconds`."""
    hello = await kit.log.until(lambda: next((one for one in kit.log.find("hello") if is_welcome(one)), None), seconds)
    return hello is not None


async def _judged(kit: Kit, case: Case) -> tuple[Status, str]:
    try:
        # A terminal that does not poll is restarted.
        if not await kit.idle(min(IDLE_SECONDS, kit.patience.seconds)):
            await kit.restart()
            if not await kit.idle(kit.patience.seconds):
                raise NotShown(f"The terminal does not poll, not even {kit.patience.seconds:g} s after a restart.")
        await case.play(kit)
    except Failed as error:
        return "failed", str(error)
    except NotShown as error:
        return "not shown", str(error)
    except NotApplicable as error:
        return "not applicable", str(error)
    finally:
        kit.wire.forget_injected()
        for order in kit.orders:
            await kit.shop.settle(order)
        kit.orders.clear()
    return "held", ""
