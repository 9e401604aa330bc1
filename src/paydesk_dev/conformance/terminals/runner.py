"""Plays the cases of a terminal one after another and yields their outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection

from paydesk_dev.conformance import case
from paydesk_dev.conformance.case import Case, NotShown, Outcome
from paydesk_dev.conformance.terminals.cases import permits, restarts, results, sessions
from paydesk_dev.conformance.terminals.kit import Kit, is_welcome
from paydesk_dev.conformance.terminals.rules import judge

IDLE_SECONDS = 10.0

CASES = case.cases_of(sessions, permits, results, restarts)


async def play(
    kit: Kit, only: Collection[str] = (), begins: Callable[[Case[Kit]], None] = lambda _: None
) -> AsyncIterator[Outcome]:
    """Play the cases, or those named, and yield their outcomes; then those of the rules."""

    async def perform(each: Case[Kit]) -> None:
        try:
            # A terminal that does not poll is restarted.
            if not await kit.idle(min(IDLE_SECONDS, kit.patience.seconds)):
                await kit.restart()
                if not await kit.idle(kit.patience.seconds):
                    raise NotShown(f"The terminal does not poll, not even {kit.patience.seconds:g} s after a restart.")
            await each.play(kit)
        finally:
            kit.wire.forget_injected()
            for order in kit.orders:
                await kit.shop.settle(order)
            kit.orders.clear()

    async for outcome in case.play(CASES, only, perform, begins):
        yield outcome
    for outcome in judge(kit.log):
        yield outcome


async def first_hello(kit: Kit, seconds: float) -> bool:
    """Wait until the terminal has said hello for the first time; return False after `seconds`."""
    hello = await kit.log.until(lambda: next((one for one in kit.log.find("hello") if is_welcome(one)), None), seconds)
    return hello is not None
