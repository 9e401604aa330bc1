"""Opens the kit of an acquirer, plays its cases one after another, and yields their outcomes."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from paydesk.engine.payments.acquirer import NotSent
from paydesk_dev.conformance import case
from paydesk_dev.conformance.acquirers import engine as engines
from paydesk_dev.conformance.acquirers import victim as victims
from paydesk_dev.conformance.acquirers.cases import confirmations, kills, returns, sales, unknowns
from paydesk_dev.conformance.acquirers.kit import DIFFERS, Kit
from paydesk_dev.conformance.acquirers.proxy import Proxy
from paydesk_dev.conformance.acquirers.target import Target
from paydesk_dev.conformance.case import Case, Failed, NotApplicable, NotShown, Outcome, Status

REACHABLE_SECONDS = 90.0
"""A circuit breaker closes again within this time after a case."""

LEDGER = "Has booked of each payment of a case what its order says, and nothing twice."
NO_LEDGER = "The adapter has no ledger, so what the acquirer has booked is not compared with the orders."

CASES = {**case.cases_of(sales, unknowns, confirmations, returns), **kills.CASES}


@asynccontextmanager
async def opened(target: Target, declined_minor: int, encrypted_data: bytes) -> AsyncIterator[Kit]:
    """Run the engine with the acquirer under test, behind a proxy if it has an address. Raises `StartRefused`."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paydesk-conformance-")))
        proxy = None
        if target.url is not None:
            await target.check()
            proxy = Proxy(target.url, target.tls() if target.url.startswith("https:") else None)
            await stack.enter_async_context(proxy.listening())
            target = target.behind(proxy.url)
        folders = folder / "engine", folder / "killed"
        for one in folders:
            one.mkdir()
        engine, recorded = await stack.enter_async_context(engines.opened(folders[0], target, encrypted_data))
        if proxy is not None:
            proxy.running = recorded.running
        start = partial(victims.opened, folders[1], target, encrypted_data)
        yield Kit(engine, recorded, proxy, declined_minor, lambda: stack.enter_async_context(start()))


async def play(
    kit: Kit, only: Collection[str] = (), begins: Callable[[Case[Kit]], None] = lambda _: None
) -> AsyncIterator[Outcome]:
    """Play the cases, or those named; after each one compare its payments with the ledger."""

    async def perform(each: Case[Kit]) -> None:
        kit.orders.clear()
        kit.payments.clear()
        fault: Exception | None = None
        try:
            await kit.until(partial(_is_reachable, kit), REACHABLE_SECONDS)
            await each.play(kit)
            for order in kit.orders:
                await kit.settle(order)
        except (Failed, NotShown, NotApplicable) as error:
            fault = error
        except Exception as error:  # noqa: BLE001  # also of the adapter, which should raise nothing
            fault = Failed(f"{type(error).__name__}: {error}.")
        difference = await _difference(kit)
        if difference:
            raise Failed(" ".join((*fault.args, difference)) if fault else difference)
        if fault:
            raise fault

    status: Status = "held" if kit.has_ledger else "not applicable"
    reason = "" if kit.has_ledger else NO_LEDGER
    async for outcome in case.play(CASES, only, perform, begins):
        if DIFFERS in outcome.reason:
            status, reason = "failed", f"It differs after {outcome.name}."
        yield outcome
    yield Outcome("ledger", 0, LEDGER, status, reason)


async def _difference(kit: Kit) -> str:
    """Free the terminal; return in what the ledger differs, or why it cannot be compared."""
    try:
        await kit.free_terminal()
        return await kit.difference()
    except Exception as error:  # noqa: BLE001  # the next case is played, whatever the adapter raises
        return f"{DIFFERS}it cannot be compared ({type(error).__name__}: {error})."


async def _is_reachable(kit: Kit) -> bool:
    """Return whether the adapter sends a request; an inquiry or a reversal of an unknown payment has no effect."""
    payment = kit.payment()
    can_inquire = kit.capabilities.can_inquire
    return not isinstance(await (kit.adapter.inquire(payment) if can_inquire else kit.reverse(payment)), NotSent)
