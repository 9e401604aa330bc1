"""`kill -9` between all steps of an inquiry and of a reversal: afterwards the acquirer's ledger and ours agree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from acquirer_scene import card
from device_scene import APPROVED, DECLINED, START_MS, UNKNOWN, Desk, answered, open_desk, refused
from forks import Forks
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.acquirer import Approved
from paydesk.engine.payments.capabilities import NO_CAPABILITIES
from paydesk.engine.payments.jobs import LEASE_MARGIN_SECONDS
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.engine.payments.terms import payment_of
from paydesk.platform.storage.connect import open_database

SIGKILLED = -9
LATER_MS = START_MS + 600_000
"""When what is not found counts."""
WITHOUT_REVERSAL = ("claimed", "inquired", "outcome_committed")
WITH_REVERSAL = ("claimed", "inquired", "intent_committed", "reversal_asked", "outcome_committed")

BOOK = "SELECT outcome, reversed_ms IS NOT NULL FROM simulator_payments WHERE seller_id = $1 AND payment_id = $2"
MOVED = "SELECT movement_key FROM simulator_movements WHERE seller_id = $1 AND kind = 'reversal'"
GIVEN_BACK = "SELECT reversal_id, status FROM reversals WHERE seller_id = $1"
ALERT_KINDS = "SELECT kind FROM operator_events WHERE seller_id = $1 ORDER BY kind"


@dataclass(frozen=True, slots=True)
class Books:
    """The final state of the acquirer's ledger and of ours."""

    state: status.State
    book: tuple[str, bool]
    reversed_under: list[str]
    reversals: list[tuple[str, str]]
    alerts: list[str]


_forks = Forks("jobs_process")


@asynccontextmanager
async def _opened(database_url: str, desk: Desk | None = None) -> AsyncIterator[Desk]:
    """Yield the desk while no worker runs: SQLite allows one process."""
    database = await open_database(database_url)
    try:
        if desk is not None:
            desk.database = database
        yield desk or await open_desk(database)
    finally:
        await database.close()


async def _charged(desk: Desk, order: Order) -> None:
    simulator = Simulator(desk.database, MovableClock(frozen_ms=START_MS))
    assert isinstance(await simulator.authorize(payment_of(order), card()), Approved)


async def approved_unheard(desk: Desk) -> Order:
    """An order that the acquirer approved while its terminal got no response."""
    order = await desk.granted()
    await _charged(desk, order)
    answered(await desk.report(order, UNKNOWN))
    return order


async def never_charged(desk: Desk) -> Order:
    """A permitted order whose terminal never reached the acquirer."""
    order = await desk.granted()
    answered(await desk.report(order, UNKNOWN))
    return order


async def approved_late(desk: Desk) -> Order:
    """An order that the acquirer approved after its terminal had reported a decline."""
    order = await desk.granted()
    answered(await desk.report(order, DECLINED))
    await _charged(desk, order)
    assert refused(await desk.report(order, APPROVED)) == "order_finished"
    return order


async def approved_after_a_decline(desk: Desk) -> Order:
    """An order reported as unknown, then as declined, that the acquirer had approved."""
    order = await approved_unheard(desk)
    answered(await desk.report(order, DECLINED))
    return order


Scene = Callable[[Desk], Awaitable[Order]]
KILLS: list[tuple[Scene, str]] = [
    *((approved_unheard, label) for label in WITHOUT_REVERSAL),
    *((never_charged, label) for label in WITH_REVERSAL),
    *((approved_late, label) for label in WITH_REVERSAL),
    *((approved_after_a_decline, label) for label in WITH_REVERSAL),
]
KILLED_FAST: dict[Scene, str] = {never_charged: "reversal_asked", approved_unheard: "inquired"}
"""The kill points of `make test`."""


async def _until_the_end(database_url: str, folder: Path, scene: Scene, label: str) -> Books:
    """Play the scene with a worker that dies at the label, then with another one."""
    async with _opened(database_url) as desk:
        order = await scene(desk)
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    async def run(wall_ms: int, at: str) -> int:
        arguments = [database_url, str(LATER_MS), str(wall_ms), at]
        child = _forks.start(arguments, environment, folder / "workers.log")
        return await asyncio.to_thread(child.wait, 30)

    assert await run(START_MS, label) == SIGKILLED
    lease_seconds = 2 * NO_CAPABILITIES.answer_seconds + LEASE_MARGIN_SECONDS
    assert await run(START_MS + lease_seconds * 1000 + 1, "") == 0, (folder / "workers.log").read_text()[-2000:]
    async with _opened(database_url, desk):
        return await _books(desk, order)


async def _books(desk: Desk, order: Order) -> Books:
    assert await check.check(desk.database, LATER_MS) == []
    ((outcome, is_reversed),) = await desk.rows(BOOK, order.seller_id, order.payment_id)
    return Books(
        (await desk.now(order)).state,
        (outcome, bool(is_reversed)),
        [row[0] for row in await desk.rows(MOVED, order.seller_id)],
        [(row[0], row[1]) for row in await desk.rows(GIVEN_BACK, order.seller_id)],
        [row[0] for row in await desk.rows(ALERT_KINDS, order.seller_id)],
    )


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    ("scene", "label"),
    [pytest.param(*kill, marks=() if kill[1] == KILLED_FAST.get(kill[0]) else pytest.mark.slow) for kill in KILLS],
    ids=lambda value: getattr(value, "__name__", value),
)
async def test_after_a_kill_the_ledgers_agree(database_url: str, tmp_path: Path, scene: Scene, label: str) -> None:
    """An approval is the payment or reversed once; a payment never made is blocked; one alert each."""
    books = await _until_the_end(database_url, tmp_path, scene, label)
    if scene is approved_unheard:
        assert books == Books(status.PROCESSED, ("approved", False), [], [], [])
    elif scene is never_charged:
        assert (books.state, books.book) == (status.FAILED["processing_error"], ("declined", True))
        assert len(books.reversed_under) == 1
        assert books.reversed_under[0].startswith("PAY")
        assert (books.reversals, books.alerts) == ([], [])
    else:
        ((reversal_id, how_far),) = books.reversals
        assert (books.state, books.book, how_far) == (
            status.FAILED["insufficient_amount"],
            ("approved", True),
            "reversed",
        )
        assert books.reversed_under == [reversal_id]
        assert books.alerts == ["late_approval", "late_approval_reversed"]
