"""Claims of jobs at acquirers: how long they last, how many one acquirer has, and what ends them at a start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import dev_thread
from device_scene import APPROVED, DECLINED, Desk, answered, open_desk, refused
from jobs_scene import SAID, FakeAcquirer, context_of, inquire, reversals_of, unknown
from paydesk.core.clock import MovableClock
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments import inquiries, jobs, reversal_store, reversals
from paydesk.engine.payments.acquirer import InquiryResult, Payment
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.jobs import CONCURRENT_AT_ONE_ACQUIRER_MAX, CONCURRENT_JOBS_MAX
from paydesk.platform.jobs import JobWorker
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from serve_process import ServeProcess

FOREVER_MS = 9_000_000_000_000
CLAIMS = {
    "inquiries": "SELECT claimed_until_ms FROM inquiries ORDER BY order_id",
    "reversals": "SELECT claimed_until_ms FROM reversals ORDER BY order_id",
    "refunds": "SELECT claimed_until_ms FROM refunds ORDER BY order_id",
    "confirmations": "SELECT claimed_until_ms FROM confirmations ORDER BY order_id",
}
ADD_INQUIRY = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, claimed_until_ms, created_ms, ended_ms,
                       outcome)
VALUES ($1, $2, 0, 'test', 1, $3, $3, 0, $4, $5)"""
ADD_REVERSAL = """
INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor, reference_id, status,
                       attempts, next_ms, claimed_until_ms, created_ms)
VALUES ($1, $2, $2, 'L', 'R', 0, 1, '', 'pending', 1, $3, $3, 0)"""
ADD_REFUND = """
INSERT INTO refunds (seller_id, refund_id, order_id, application_id, live, idempotency_key, amount, amount_minor,
                     status, created_ms, attempts, unsent, next_ms, claimed_until_ms)
VALUES ($1, $2, $2, 1, 0, '', '1.00', 100, 'processing', 0, 1, 0, $3, $3)"""
ADD_CONFIRMATION = """
INSERT INTO confirmations (seller_id, order_id, live, status, amount_minor, currency, reference_id, approved_ms,
                           decide_by_ms, attempts, next_ms, claimed_until_ms, created_ms)
VALUES ($1, $2, 0, 'confirming', 1, 'BRL', '1', 0, 0, 1, $3, $3, 0)"""


@dataclass
class HeldAcquirer(FakeAcquirer):
    """An acquirer that answers its inquiries when it may; it counts those that wait."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    waiting_max: int = 0

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Answer, once that is allowed."""
        self.waiting += 1
        self.waiting_max = max(self.waiting, self.waiting_max)
        try:
            await self.may_answer.wait()
        finally:
            self.waiting -= 1
        return await super().inquire(payment)


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has sent hello."""
    return await open_desk(database)


async def leave(worker: JobWorker[Any, Any]) -> None:
    """End the worker's attempts as if its node were killed: their claims stay."""
    attempts = list(worker._running)
    for attempt in attempts:
        attempt.cancel()
    await asyncio.gather(*attempts, return_exceptions=True)


@pytest.mark.on_postgres
@pytest.mark.parametrize(("answer_seconds", "others_seconds", "lease_seconds"), [(3, 1, 11), (3, 10, 25), (20, 3, 45)])
async def test_a_claim_of_a_killed_node_is_free_after_two_answers_and_5_s(
    desk: Desk, answer_seconds: int, others_seconds: int, lease_seconds: int
) -> None:
    """Of the slowest acquirer: an attempt inquires and reverses."""
    acquirer = HeldAcquirer(can=Capabilities(answer_seconds=answer_seconds))
    await unknown(desk)
    other = FakeAcquirer(can=Capabilities(answer_seconds=others_seconds))
    wall, context = MovableClock(frozen_ms=desk.clock.now_ms()), context_of(desk, Acquirers(acquirer, {"other": other}))
    worker = JobWorker(context, inquiries.JOB, wall=wall)
    assert await worker.start_due() == 1
    await leave(worker)
    acquirer.may_answer.set()
    acquirer.say(SAID)
    wall.advance(lease_seconds * 1000 - 1)
    assert await inquire(desk, acquirer, wall=wall) == 0
    wall.advance(1)
    assert await inquire(desk, acquirer, wall=wall) == 1


async def reversals_at(desk: Desk, acquirer: str, count: int) -> Order:
    """A live order of the acquirer with so many reversals, of approvals beside its payment."""
    order = await desk.granted()
    answered(await desk.report(order, DECLINED))
    assert refused(await desk.report(order, APPROVED)) == "order_finished"
    order = await desk.now(order)

    async def work(tx: Transaction) -> None:
        for number in range(count - 1):
            change = Change(tx, desk.clock.now_ms(), PLAIN)
            await reversal_store.begin(
                change, order, result_id=str(number), amount_minor=order.amount_minor, reference_id=""
            )
        key = order.seller_id, order.order_id
        await tx.run("UPDATE reversals SET live = 1 WHERE seller_id = $1 AND order_id = $2", *key)
        await tx.run("UPDATE orders SET live = 1, acquirer = $3 WHERE seller_id = $1 AND order_id = $2", *key, acquirer)

    await desk.database.write(work)
    return order


@pytest.mark.on_postgres
async def test_a_silent_acquirer_does_not_hold_up_another(desk: Desk) -> None:
    """It has at most half of a node's attempts, though hundreds of its jobs were due before those of the other."""
    silent, quick = HeldAcquirer(), HeldAcquirer()
    quick.may_answer.set()
    for acquirer in (silent, quick):
        acquirer.say(SAID)
    stuck = await reversals_at(desk, "silent", 300)
    desk.clock.advance(1000)
    order = await reversals_at(desk, "quick", 20)
    context = context_of(desk, Acquirers(live={"silent": silent, "quick": quick}))
    worker = JobWorker(context, reversals.JOB)

    async def open_reversals(of: Order) -> int:
        return sum(row[3] == "pending" for row in await reversals_of(desk, of))

    async with asyncio.timeout(60):
        while await open_reversals(order):
            await worker.start_due()
            assert len(worker._running) <= CONCURRENT_JOBS_MAX
            await asyncio.sleep(0.01)
    assert (silent.waiting, silent.waiting_max) == (CONCURRENT_AT_ONE_ACQUIRER_MAX,) * 2
    assert quick.waiting_max <= CONCURRENT_AT_ONE_ACQUIRER_MAX
    assert await open_reversals(stuck) == 300
    silent.may_answer.set()
    await worker.settle()
    assert await open_reversals(stuck) == 300 - CONCURRENT_AT_ONE_ACQUIRER_MAX


@asynccontextmanager
async def _opened(database_url: str) -> AsyncIterator[Database]:
    """Open the database while no node has it."""
    database = await open_database(database_url)
    try:
        yield database
    finally:
        await database.close()


async def _claim(database: Database) -> None:
    """Insert a claimed job of each kind, which is not due, and a claimed one that has ended."""

    async def work(tx: Transaction) -> None:
        for sql in (ADD_REVERSAL, ADD_REFUND, ADD_CONFIRMATION):
            await tx.run(sql, 1, "ORD1", FOREVER_MS)
        await tx.run(ADD_INQUIRY, 1, "ORD1", FOREVER_MS, None, None)
        await tx.run(ADD_INQUIRY, 1, "ORD2", FOREVER_MS, 1, "declined")

    await database.write(work)


async def _claims(database: Database) -> dict[str, list[int]]:
    """Return the ends of the claims by table."""

    async def read(tx: Transaction) -> dict[str, list[int]]:
        return {table: [end for (end,) in await tx.all(sql)] for table, sql in CLAIMS.items()}

    return await database.read(read)


def _kept_by(database_name: str) -> dict[str, list[int]]:
    """Return the claims that a starting node leaves."""
    end = 0 if database_name == "sqlite" else FOREVER_MS
    return {table: [end, FOREVER_MS] if table == "inquiries" else [end] for table in CLAIMS}


@pytest.mark.on_postgres
async def test_a_starting_node_releases_all_claims_on_sqlite(database: Database) -> None:
    """Only there: a file has one node at a time, and on PostgreSQL others may be at work."""
    await _claim(database)
    await jobs.release_all(database)
    assert await _claims(database) == _kept_by(database.name)


async def test_serve_releases_the_claims_when_it_starts(sqlite_url: str, tmp_path: Path) -> None:
    """As `paydesk dev` does."""
    async with _opened(sqlite_url) as database:
        await _claim(database)
    serve = ServeProcess(sqlite_url, tmp_path)
    process = serve.start()
    try:
        await asyncio.to_thread(serve.wait_for, "listening", 1)
        await asyncio.to_thread(serve.end, process)
    finally:
        serve.close()
    async with _opened(sqlite_url) as database:
        assert await _claims(database) == _kept_by("sqlite")


async def test_dev_releases_the_claims_when_it_starts(tmp_path: Path) -> None:
    """As `paydesk serve` does."""
    url = f"sqlite:{tmp_path / '.paydesk' / 'paydesk.db'}"

    def start() -> None:
        with dev_thread.dev(tmp_path):
            pass

    await asyncio.to_thread(start)
    async with _opened(url) as database:
        await _claim(database)
    await asyncio.to_thread(start)
    async with _opened(url) as database:
        assert await _claims(database) == _kept_by("sqlite")
