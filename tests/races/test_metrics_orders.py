"""Orders in `/metrics`: each end is counted once over all nodes, after its commit, with what has ended it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from counted_metrics import Added
from device_scene import APPROVED, CANCELED, Desk, answered
from moved_time import advance
from nodes import time_passes, two_nodes
from paydesk.core.clock import SystemClock
from paydesk.engine.events import numbering, relay, store
from paydesk.engine.events.store import Feed
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import FAILED, LIVE, MOVES
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments import outcomes
from paydesk.engine.payments.outcomes import Paid
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction, Unavailable
from paydesk.platform.worker import WorkerContext
from shared_objects import KEYS
from tables import each
from waiting import until

ENDED, ACKNOWLEDGED, OFFERED = (
    "paydesk_orders_ended_total",
    "paydesk_order_ack_delay_seconds",
    "paydesk_order_offer_delay_seconds",
)
LIMIT = 200
DECLINED = FAILED["rejected_by_issuer"]


def feed_of(desk: Desk) -> Feed:
    """Return the feed of the desk's orders."""
    return Feed(desk.seller_id, 1, 0)


async def _changed(desk: Desk, change: Callable[[Change], Awaitable[object]]) -> None:
    async def work(tx: Transaction) -> None:
        assert await change(Change(tx, desk.clock.now_ms(), PLAIN)) is not None

    await desk.database.write(work)


async def _canceled(desk: Desk) -> None:
    await desk.move(status.CANCEL, await desk.order())


async def _canceled_at_terminal(desk: Desk) -> None:
    order = await desk.at_terminal()
    await desk.move(status.REQUEST_CANCEL, order)
    assert answered(await desk.answer_cancel(order, done=True))


async def _released(desk: Desk) -> None:
    order = await desk.at_terminal()
    await _changed(desk, lambda change: orders.end(change, status.RELEASE, order, "detached"))


async def _expired(desk: Desk) -> None:
    order = await desk.order(seconds=30)
    desk.clock.advance(31_000)
    await _changed(desk, lambda change: orders.expire_overdue(change, order))


async def _paid(desk: Desk) -> None:
    assert answered(await desk.report(await desk.granted(), APPROVED))


async def _given_up(desk: Desk) -> None:
    assert answered(await desk.report(await desk.at_terminal(), CANCELED))


async def _authorized(desk: Desk) -> None:
    order = await desk.granted()
    await _changed(desk, lambda change: outcomes.approve(change, order, Paid("R1"), by="authorization"))


async def _declined(desk: Desk, by: Any) -> None:
    order, detail = await desk.granted(), DECLINED.payment_detail
    await _changed(desk, lambda change: outcomes.decline(change, order, by=by, detail=detail, origin="acquirer"))


async def _inquired(desk: Desk) -> None:
    await _declined(desk, "inquiry")


async def _resolved(desk: Desk) -> None:
    await _declined(desk, "operator")


async def _simulated(desk: Desk) -> None:
    order = await desk.at_terminal()
    await _changed(desk, lambda change: orders.end(change, status.DECLINE, order, "detached", to=DECLINED))


ENDS: dict[str, tuple[Callable[[Desk], Awaitable[None]], str, str]] = {
    "an application cancels it": (_canceled, "canceled", "application"),
    "its terminal agrees to a cancel": (_canceled_at_terminal, "canceled", "application"),
    "an operator releases its terminal": (_released, "canceled", "operator"),
    "it expires": (_expired, "canceled", "expiry"),
    "its terminal reports a payment": (_paid, "processed", "terminal"),
    "its terminal reports a cancel": (_given_up, "canceled", "terminal"),
    "the acquirer answers an authorization": (_authorized, "processed", "acquirer"),
    "the acquirer answers an inquiry": (_inquired, "failed", "inquiry"),
    "an operator resolves it": (_resolved, "failed", "operator"),
    "a developer moves it": (_simulated, "failed", "simulation"),
}


@each("how", list(ENDS))
async def test_the_end_of_an_order_is_counted_with_its_origin(desk: Desk, how: str) -> None:
    """Once, when its events are numbered; nothing is counted for moves that do not end it."""
    end, expected, origin = ENDS[how]
    await end(desk)
    added = Added()
    assert await numbering.number(desk.database, feed_of(desk), LIMIT) >= 2
    assert added.by(ENDED, "status", "origin", "live") == {(expected, origin, "false"): 1}
    assert await numbering.number(desk.database, feed_of(desk), LIMIT) == 0
    assert added(ENDED) == 1


def test_the_moves_that_leave_the_terminal_are_ends() -> None:
    """All that lead to another status than that of a live order are, but for refunds."""
    leaving = {move.name: move for move in MOVES if {state.status for state in move.targets} - {*LIVE}}
    from_live = {name for name, move in leaving.items() if {state.status for state in move.sources} <= {*LIVE}}
    assert {name for name in leaving if not name.startswith("refund_")} == from_live


async def test_a_refund_is_no_end(desk: Desk) -> None:
    """The order has ended with its payment."""
    assert answered(await desk.report(order := await desk.granted(), APPROVED))
    added = Added()
    assert await desk.move(status.REFUND_WHOLE, order) is not None
    await numbering.number(desk.database, feed_of(desk), LIMIT)
    assert added.by(ENDED, "status", "origin", "live") == {("processed", "terminal", "false"): 1}


class Repeated:
    """A database whose units of work are run twice: the first run is rolled back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, work: Any) -> Any:
        """Run the work, roll it back, and run it again."""

        async def rolled_back(tx: Transaction) -> None:
            await work(tx)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await self._database.write(rolled_back)
        return await self._database.write(work)


class Failing(Repeated):
    """A database whose commits fail."""

    async def write(self, work: Any) -> Any:
        """Run the work and roll it back."""

        async def failing(tx: Transaction) -> None:
            await work(tx)
            raise Unavailable("the disk is full")

        return await self._database.write(failing)


async def test_a_unit_of_work_that_runs_again_counts_once(desk: Desk) -> None:
    """A commit that fails counts nothing, and the next one counts."""
    await _paid(desk)
    added = Added()
    failing: Any = Failing(desk.database)
    with pytest.raises(Unavailable):
        await numbering.number(failing, feed_of(desk), LIMIT)
    assert (added(ENDED), added(f"{ACKNOWLEDGED}_count")) == (0, 0)
    repeated: Any = Repeated(desk.database)
    await numbering.number(repeated, feed_of(desk), LIMIT)
    assert (added(ENDED), added("paydesk_database_errors_total", reason="unavailable")) == (1, 1)


async def test_two_nodes_count_each_order_once(desk: Desk, database_url: str) -> None:
    """Their relays number the same feeds at once. On SQLite there is one node."""
    made = 20
    for _ in range(made):
        await _canceled(desk)
    other = await open_database(database_url) if desk.database.name == "postgres" else desk.database
    added, stop = Added(), asyncio.Event()
    contexts = [WorkerContext(one, Settings(), SystemClock(), KEYS) for one in (desk.database, other)]
    try:
        sweeps = asyncio.gather(*(relay.sweep(one, stop) for one in contexts))
        while not sweeps.done():
            await asyncio.sleep(0.01)
            advance(1)
        await sweeps
    finally:
        if other is not desk.database:
            await other.close()
    assert added(ENDED) == made


async def test_ends_over_http_are_counted_once(database: Database, database_url: str) -> None:
    """An idempotent repetition, and a refused one, count nothing."""
    async with two_nodes(database, database_url) as nodes:
        first, second = nodes
        added, ids = Added(), list[str]()
        for number in range(4):
            order_id = (await nodes[number % 2].create(await first.terminal())).body["id"]
            answers = [await node.cancel(order_id, key=f"key-{number}-1234567890") for node in (first, second)]
            assert {answer.status for answer in answers} == {200}
            assert (await second.cancel(order_id)).status == 409
            ids.append(order_id)

        async def are_counted() -> bool:
            return added(ENDED) >= len(ids)

        await time_passes(nodes, are_counted)
        assert added.by(ENDED, "status", "origin", "live") == {("canceled", "application", "false"): len(ids)}


async def _offered(desk: Desk) -> Order:
    order = await desk.order()
    desk.clock.advance(5_000)
    assert answered(await desk.next())["type"] == "order"
    return order


async def test_delays_of_offer_and_acknowledgement(desk: Desk) -> None:
    """An order that has waited for its terminal says so. It is offered again, and counted once."""
    assert answered(await desk.hello())
    added = Added()
    order = await _offered(desk)
    assert added.by(f"{OFFERED}_sum", "poll") == {("later",): pytest.approx(5.0)}
    advance(60)
    assert answered(await desk.next())["type"] == "order"
    assert added(f"{OFFERED}_count") == 1
    desk.clock.advance(2_000)
    assert answered(await desk.acknowledge(order))
    assert answered(await desk.acknowledge(order))
    assert added(f"{ACKNOWLEDGED}_count") == 0
    await numbering.number(desk.database, feed_of(desk), LIMIT)
    assert (added(f"{ACKNOWLEDGED}_count"), added(f"{ACKNOWLEDGED}_sum")) == (1, 2.0)


async def test_an_open_poll_is_offered_an_order_at_once(desk: Desk) -> None:
    """That delay is the service's own."""
    assert answered(await desk.hello())
    added = Added()
    polling = asyncio.create_task(desk.next(wait=30))
    await until(lambda: desk.gateway.sightings.polls_open(desk.terminal_id) == 1)
    await desk.order()
    assert answered(await polling)["type"] == "order"
    assert added.by(f"{OFFERED}_count", "poll") == {("open",): 1}


async def test_an_order_offered_elsewhere_has_no_delay(desk: Desk) -> None:
    """This node doesn't know since when its terminal has it."""
    assert answered(await desk.hello())
    order = await desk.order()
    assert answered(await desk.acknowledge(order))
    added = Added()
    rows = await desk.database.write(lambda tx: store.number(tx, feed_of(desk), LIMIT))
    assert [(row[0], row[3]) for row in rows] == [("create", None), ("acknowledge", None)]
    assert added(f"{ACKNOWLEDGED}_count") == 0
