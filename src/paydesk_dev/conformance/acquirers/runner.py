"""Opens the kit of an acquirer, plays its cases one after another, and yields their outcomes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path

from paydesk.engine.payments.acquirer import HasLedger
from paydesk_dev import http_client
from paydesk_dev.conformance import case
from paydesk_dev.conformance.acquirers import engine, victim
from paydesk_dev.conformance.acquirers.cases import confirmations, kills, returns, sales, unknowns
from paydesk_dev.conformance.acquirers.kit import DIFFERS, Kit
from paydesk_dev.conformance.acquirers.proxy import Proxy
from paydesk_dev.conformance.acquirers.target import Target
from paydesk_dev.conformance.acquirers.victim import Victim
from paydesk_dev.conformance.case import Case, Outcome, Status

LEDGER = "Has booked of each payment of a case what its order says, and nothing twice."
NO_LEDGER = "what the acquirer has booked: the adapter has no ledger to compare with the orders."

CASES = {**case.cases_of(sales, unknowns, confirmations, returns), **kills.CASES}


@asynccontextmanager
async def opened(target: Target, declined_minor: int, encrypted_data: bytes) -> AsyncIterator[Kit]:
    """Run the engine with the acquirer under test, behind a proxy if it has an address. Raises `StartRefused`."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paydesk-conformance-")))
        (folder / "engine").mkdir()
        (folder / "killed").mkdir()
        proxy = None
        if target.url is not None:
            await target.check()
            proxy = Proxy(target.url, target.tls() if target.url.startswith("https:") else None)
            await stack.enter_async_context(proxy.listening())
            target = target.behind(proxy.url)
        http = await stack.enter_async_context(http_client.session())
        running = await stack.enter_async_context(engine.opened(folder / "engine", target))
        kit = Kit(running, http, declined_minor, encrypted_data, proxy)
        await kit.start_session()
        if proxy is not None:
            proxy.running = kit.recorded.running

        async def start_victim() -> tuple[Victim, Kit]:
            opening = victim.opened(folder / "killed", target, kit.payment())
            process, killed = await stack.enter_async_context(opening)
            own = Kit(killed, http, declined_minor, encrypted_data)
            await own.start_session()
            return process, own

        kit.victim = cache(lambda: asyncio.ensure_future(start_victim()))
        yield kit


async def play(
    kit: Kit, only: Collection[str] = (), begins: Callable[[Case[Kit]], None] = lambda _: None
) -> AsyncIterator[Outcome]:
    """Play the cases, or those named, and yield their outcomes; then that of the ledger."""
    has_ledger = isinstance(kit.adapter, HasLedger)
    status: Status = "held" if has_ledger else "not tested"
    reason = "" if has_ledger else NO_LEDGER
    async for outcome in case.play(CASES, only, lambda each: kit.perform(each.play), begins):
        if DIFFERS in outcome.reason:
            status, reason = "failed", f"It differs after {outcome.name}."
        yield outcome
    yield Outcome("ledger", 0, LEDGER, status, reason)
