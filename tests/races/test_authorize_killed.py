"""`kill -9` of a node between the permit and the answer of an authorization: one charge, and the ledgers agree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from authorize_scene import SET_KIND, request_of
from conftest import first_and_others
from device_scene import START_MS, Desk, answered, new_boot, open_desk
from forks import Forks
from jobs_scene import context_of
from paydesk.core.clock import MovableClock
from paydesk.engine.device.authorization.handlers import authorize
from paydesk.engine.device.schemas import AuthorizeRequest
from paydesk.engine.invariants import check
from paydesk.engine.orders import expiry, status
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import inquiries
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.platform.jobs import JobWorker
from paydesk.platform.storage.connect import open_database
from paydesk_process import environment
from shared_objects import make_shared

SIGKILLED = -9
LEDGER = "SELECT amount_minor, outcome, reversed_ms IS NOT NULL FROM simulator_payments"


FORKS = Forks("authorize_process")


@asynccontextmanager
async def _opened(database_url: str, desk: Desk | None = None) -> AsyncIterator[Desk]:
    """Yield the desk while no other process has the database: SQLite allows one."""
    database = await open_database(database_url)
    try:
        if desk is not None:
            desk.database, desk._shared = database, make_shared(database, clock=desk.clock)
        yield desk or await open_desk(database)
    finally:
        await database.close()


async def _killed(database_url: str, folder: Path, label: str) -> tuple[Desk, Order]:
    """Return the desk and the order of an authorization whose node died at the label."""
    async with _opened(database_url) as desk:
        terminal = desk.seller_id, desk.terminal_id
        await desk.database.write(lambda tx: tx.run(SET_KIND, *terminal, "service", "[10]"))
        order = await desk.at_terminal()
    about = {name: getattr(desk, name) for name in ("seller_id", "pos_id", "store_id", "terminal_id", "boot_id")}
    arguments = [database_url, json.dumps(about), order.ulid, label]
    fork = FORKS.start(arguments, environment(), folder / "node.log")
    assert await asyncio.to_thread(fork.wait, 30) == SIGKILLED, (folder / "node.log").read_text()[-2000:]
    desk.clock = MovableClock(frozen_ms=START_MS + 5000)
    return desk, order


async def _repeat(desk: Desk, order: Order) -> tuple[str, str]:
    request = AuthorizeRequest.model_validate(request_of(desk.boot_id, tip_amount="1.25"))
    answer = answered(await desk.handle(authorize, request, paths=[order.ulid], in_transaction=False))
    return answer["outcome"], answer["order"]["status"]


@pytest.mark.parametrize("label", first_and_others("asked", "intent_committed", "outcome_committed"))
async def test_a_repeat_gets_the_outcome(database_url: str, tmp_path: Path, label: str) -> None:
    """In the same session or, of a terminal that was restarted too, in a later one that repeats the request."""
    desk, order = await _killed(database_url, tmp_path, label)
    async with _opened(database_url, desk):
        assert await _repeat(desk, order) == ("approved", "processed")
        answered(await desk.hello(boot_id=new_boot()))
        assert await _repeat(desk, order) == ("approved", "processed")
        assert [tuple(row) for row in await desk.rows(LEDGER)] == [(2615, "approved", False)]
        paid = await desk.now(order)
        assert (paid.state, paid.paid_minor, paid.tip_minor) == (status.PROCESSED, 2615, 125)
        assert await check.check(desk.database, desk.clock.now_ms()) == []


@pytest.mark.parametrize("label", first_and_others("asked", "intent_committed", "outcome_committed"))
async def test_without_a_repeat_the_inquiry_ends_the_order(database_url: str, tmp_path: Path, label: str) -> None:
    """Paid with its tip if it was charged; otherwise blocked at the acquirer, and failed."""
    desk, order = await _killed(database_url, tmp_path, label)
    async with _opened(database_url, desk):
        acquirers = Acquirers(test=Simulator(desk.database, desk.clock))
        for _ in range(8):
            desk.clock.advance(60_000)
            context = context_of(desk, acquirers)
            await expiry.UNKNOWN_OUTCOME.step(context)
            await JobWorker(context, inquiries.JOB, wall=desk.clock).step()
        was_sent = label != "intent_committed"
        ended = await desk.now(order)
        assert ended.state == (status.PROCESSED if was_sent else status.FAILED["processing_error"])
        assert (ended.paid_minor, ended.tip_minor) == ((2615, 125) if was_sent else (None, None))
        expected = (2615, "approved", False) if was_sent else (2615, "declined", True)
        assert [(*row[:2], bool(row[2])) for row in await desk.rows(LEDGER)] == [expected]
        assert await _repeat(desk, order) == (("approved", "processed") if was_sent else ("declined", "failed"))
        assert await check.check(desk.database, desk.clock.now_ms()) == []
