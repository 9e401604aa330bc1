"""Concurrent calls of a terminal and others: permit, cancel, expiry, mode, results."""

from __future__ import annotations

import asyncio

import pytest

from conftest import short_and_long
from device_scene import APPROVED, DECLINED, Desk, new_boot, open_desk
from paydesk.core.errors import Refusal
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.terminals import store
from paydesk.platform.operation import Answer
from paydesk.platform.storage.database import Database, Transaction

pytestmark = pytest.mark.usefixtures("batching")

ROUNDS = short_and_long(40, 200)
FEW = 40


@pytest.fixture
async def desk(database: Database) -> Desk:
    """Return a desk whose terminal has sent a hello."""
    desk = await open_desk(database)
    await desk.hello()
    return desk


def done(outcome: object) -> bool:
    """Return whether the outcome is a 200."""
    return isinstance(outcome, Answer) and outcome.status == 200


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_ack_and_cancel_exclude_each_other(desk: Desk, rounds: int) -> None:
    """The second one is refused, and the history has one of them."""
    for _ in range(rounds):
        order = await desk.order()
        acked, canceled = await asyncio.gather(desk.acknowledge(order), desk.move(status.CANCEL, order))
        assert done(acked) != (canceled is not None)
        current = await desk.now(order)
        assert current.state == (status.AT_TERMINAL if done(acked) else status.CANCELED_BY_API)
        assert current.version == 2
        await desk.move(status.CANCEL_ON_TERMINAL, order)


async def test_authorizing_excludes_cancel_and_expiry(desk: Desk) -> None:
    """The permit and a cancel request or expiry never both succeed."""
    for number in range(FEW):
        order = await desk.order(seconds=30)
        await desk.acknowledge(order)
        other = status.REQUEST_CANCEL if number % 2 else status.EXPIRE
        permitted, ended = await asyncio.gather(desk.progress(order, "authorizing"), desk.move(other, order))
        assert done(permitted) != (ended is not None)
        assert ((await desk.now(order)).permitted_ms is not None) == done(permitted)
        await desk.report(order, DECLINED)


async def test_two_results_at_once_make_one_outcome(desk: Desk) -> None:
    """One is accepted, the other is recorded; an approval becomes the payment or is reversed."""
    for number in range(FEW):
        order = await desk.order()
        await desk.acknowledge(order)
        await desk.progress(order, "authorizing")
        approval = {**APPROVED, "reference_id": str(number)}
        approved, declined = await asyncio.gather(desk.report(order, approval), desk.report(order, DECLINED))
        assert done(approved) != done(declined)
        processed = (await desk.now(order)).state == status.PROCESSED
        reversals = await desk.rows("SELECT 1 FROM reversals WHERE order_id = $1", order.order_id)
        assert (processed, len(reversals)) in ((True, 0), (False, 1))


async def test_a_result_repeated_concurrently_is_recorded_once(desk: Desk) -> None:
    """Every repetition gets the same answer."""
    order = await desk.granted()
    result_id = new_boot()
    outcomes = await asyncio.gather(*(desk.report(order, APPROVED, result_id) for _ in range(10)))
    assert all(done(outcome) for outcome in outcomes)
    assert len(await desk.rows("SELECT 1 FROM results")) == 1


async def test_an_approval_against_the_expiry_is_never_lost(desk: Desk) -> None:
    """Without a permit the order is processed, or expired with a reversal."""
    for number in range(FEW):
        order = await desk.order()
        await desk.acknowledge(order)
        approval = {**APPROVED, "reference_id": str(number)}
        await asyncio.gather(desk.report(order, approval), desk.move(status.EXPIRE, order))
        processed = (await desk.now(order)).state == status.PROCESSED
        reversals = await desk.rows("SELECT 1 FROM reversals WHERE order_id = $1", order.order_id)
        assert (processed, len(reversals)) in ((True, 0), (False, 1))


async def test_concurrent_hellos_leave_one_newest_session(desk: Desk) -> None:
    """Sessions are numbered without gaps or duplicates, and only the newest is valid."""
    boots = [new_boot() for _ in range(8)]

    async def start(boot_id: str) -> Answer | Refusal:
        own = Desk(desk.database, desk.seller_id, desk.pos_id, desk.store_id, desk.terminal_id, boot_id=boot_id)
        return await own.hello()

    assert all(done(outcome) for outcome in await asyncio.gather(*(start(boot_id) for boot_id in boots)))
    numbers = await desk.rows("SELECT session FROM terminal_sessions ORDER BY session")
    assert [row[0] for row in numbers] == list(range(1, 10))
    order = await desk.order()
    valid = [boot_id for boot_id in boots if done(await desk.acknowledge(order, boot_id=boot_id))]
    assert len(valid) == 1


async def test_resume_and_permit_exclude_each_other(desk: Desk) -> None:
    """If the new session gets `resume`, the old one got no permit."""
    for _ in range(FEW):
        order = await desk.order()
        await desk.acknowledge(order)
        earlier = desk.boot_id
        entry = {"lease_id": order.ulid, "last_step": "acknowledged"}
        permitted, hello = await asyncio.gather(
            desk.progress(order, "authorizing", boot_id=earlier), desk.hello(entry, boot_id=new_boot())
        )
        assert isinstance(hello, Answer)
        assert [lease.verdict for lease in hello.body.leases] == ["hold" if done(permitted) else "resume"]
        await desk.report(order, DECLINED)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_hello_without_a_journal_holds_a_permitted_order(desk: Desk, rounds: int) -> None:
    """A terminal that lost its journal gets `hold` for an order that its earlier session was permitted."""
    for _ in range(rounds):
        order = await desk.order()
        await desk.acknowledge(order)
        permitted, hello = await asyncio.gather(
            desk.progress(order, "authorizing", boot_id=desk.boot_id), desk.hello(boot_id=new_boot())
        )
        assert isinstance(hello, Answer)
        assert [lease.verdict for lease in hello.body.leases] == (["hold"] if done(permitted) else [])
        await desk.report(order, DECLINED)


async def test_setup_and_create_leave_no_order_on_a_standalone_terminal(desk: Desk) -> None:
    """Both lock the terminal's row, so a mode change and a live order exclude each other."""

    async def create(order: Order) -> bool:
        async def work(tx: Transaction) -> bool:
            terminal = await store.for_order(tx, desk.seller_id, desk.terminal_id)
            assert terminal is not None
            return terminal.operating_mode == "PDV" and await orders.create(Change(tx, order.created_ms, PLAIN), order)

        return await desk.database.write(work)

    for _ in range(FEW):
        order = desk.new_order()
        created, changed = await asyncio.gather(create(order), desk.setup((desk.terminal_id, "STANDALONE")))
        assert created != done(changed)
        if created:
            await desk.move(status.CANCEL, order)
        await desk.setup((desk.terminal_id, "PDV"))


async def test_two_setups_make_one_pdv_terminal(desk: Desk) -> None:
    """At most one of several terminals at a point of sale becomes PDV."""
    others = [await desk.terminal() for _ in range(4)]
    for _ in range(10):
        await desk.setup((desk.terminal_id, "STANDALONE"), *((other, "STANDALONE") for other in others))
        outcomes = await asyncio.gather(*(desk.setup((other, "PDV")) for other in others))
        assert sum(done(outcome) for outcome in outcomes) == 1
        in_pdv = await desk.rows("SELECT terminal_id FROM terminals WHERE operating_mode = 'PDV'")
        assert len(in_pdv) == 1
