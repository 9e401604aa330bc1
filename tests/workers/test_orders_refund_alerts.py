"""Alerts about refunds without an outcome: one for each, and none for a refund that has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Approved, Declined, NotSent, Outcome, Unknown
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from refund_scene import (
    LOST,
    NOT_SENT,
    Refunder,
    alerts,
    expire_leases,
    notifications,
    only,
    paid,
    refund,
    work,
    worker,
)
from service import Service, running

HOUR_MS = 3_600_000


@pytest.fixture
def frozen() -> MovableClock:
    """A frozen clock."""
    clock = MovableClock()
    clock.freeze()
    return clock


@pytest.fixture
def refunder() -> Refunder:
    """An acquirer with scripted outcomes."""
    return Refunder()


@pytest.fixture
async def asking(database: Database, frozen: MovableClock, refunder: Refunder) -> AsyncIterator[Service]:
    """A service without workers, with the scripted acquirer."""
    async with running(database, clock=frozen, workers=False, acquirers=refunder.acquirers) as service:
        yield service


async def moved_to(service: Service, clock: MovableClock, waited_ms: int) -> None:
    """Advance the clock to `waited_ms` after the seller's refund was created, and make it due."""
    ((created_ms,),) = await service.database.read(
        lambda tx: tx.all("SELECT created_ms FROM refunds WHERE seller_id = $1", service.seller_id)
    )
    clock.advance(created_ms + waited_ms - clock.now_ms())
    await service.scene.run("UPDATE refunds SET next_ms = created_ms WHERE seller_id = $1", service.seller_id)


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Unknown("no answer"), "(Unknown: no answer). Attempts continue. Check with the acquirer. It may have"),
        (
            NotSent("the line is down"),
            "(NotSent: the line is down). Attempts continue. Check with the acquirer. It was never",
        ),
    ],
    ids=["unknown", "never left"],
)
async def test_a_refund_without_an_outcome_is_alerted_once(
    asking: Service, refunder: Refunder, frozen: MovableClock, outcome: Outcome, says: str
) -> None:
    """After an hour, with the acquirer's last answer; attempts continue until it ends."""
    order_id = await paid(asking)
    refunder.words = [outcome] * 6
    refund_id = only(await refund(asking, order_id, "5.00"))["id"]
    for waited_ms, times in ((0, 0), (HOUR_MS - 1, 0), (HOUR_MS, 1), (2 * HOUR_MS, 1), (3 * HOUR_MS, 1)):
        await moved_to(asking, frozen, waited_ms)
        assert await work(asking, refunder=refunder) == 1
        recorded = await alerts(asking, order_id)
        assert len(recorded) == times, waited_ms
    ((message, evidence),) = recorded
    assert says in message
    assert (refund_id in message) is isinstance(outcome, Unknown)
    assert evidence == {"refund_id": refund_id, "amount": "5.00", "payment_id": f"PAY{order_id[3:]}"}
    frozen.advance(HOUR_MS)
    assert await work(asking, refunder=refunder) == 1
    assert (await notifications(asking, order_id))[-1][0] == "order.refunded"
    assert await check.check(asking.database) == []


async def test_each_refund_of_an_order_is_alerted(asking: Service, refunder: Refunder, frozen: MovableClock) -> None:
    """Once each, also by two nodes that process the same refunds."""
    order_id = await paid(asking)
    refunder.words = [Unknown("no answer")] * 2
    refunds = {only(await refund(asking, order_id, amount))["id"] for amount in ("5.00", "6.00")}
    frozen.advance(HOUR_MS)
    slow = Refunder(words=[Unknown("no answer")] * 4, closed=True)
    workers = [worker(asking, refunder=slow) for _ in range(2)]
    for one in workers:
        assert await one.start_due() == 2
        await expire_leases(asking)
    slow.opens.set()
    for one in workers:
        await one.settle()
    assert len(slow.asked) == 4
    assert sorted(body["refund_id"] for _, body in await alerts(asking, order_id)) == sorted(refunds)


@pytest.mark.parametrize("word", [Approved("1", 500), Declined("high_risk")], ids=["approved", "declined"])
async def test_a_refund_that_has_ended_gets_no_alert(
    asking: Service, refunder: Refunder, frozen: MovableClock, word: Outcome
) -> None:
    """Whether its last attempt or another node ended it."""
    attempted, meanwhile = await paid(asking), await paid(asking)
    refunder.words = [Unknown("no answer")] * 2
    await refund(asking, attempted, "5.00")
    frozen.advance(HOUR_MS)
    assert await work(asking, refunder=Refunder(words=[word])) == 1
    await refund(asking, meanwhile, "5.00")
    frozen.advance(HOUR_MS)
    slow = Refunder(words=[Unknown("no answer")], closed=True)
    deaf = worker(asking, refunder=slow)
    assert await deaf.start_due() == 1
    await slow.was_asked.wait()
    await expire_leases(asking)
    assert await work(asking, refunder=Refunder(words=[word])) == 1
    slow.opens.set()
    await deaf.settle()
    for order_id in (attempted, meanwhile):
        assert [one["status"] for one in (await notifications(asking, order_id))[-1][1]] != ["processing"]
        assert await alerts(asking, order_id) == []


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    ("amount", "says"),
    [(LOST, "It may have taken effect"), (NOT_SENT, "It was never sent")],
    ids=["lost", "not sent"],
)
async def test_without_an_acquirer_a_refund_needs_a_person(
    database: Database, frozen: MovableClock, amount: str, says: str
) -> None:
    """Alerted at once, and once; a refund never sent fails after a day, one that may have been sent does not."""
    configured = Settings(acquirer="simulator")
    async with running(database, clock=frozen, settings=configured, workers=False) as service:
        order_id, token = await paid(service, amount, live=True), service.live_access_token
        assert only(await refund(service, order_id, token=token))["status"] == "processing"
        for _ in range(3):
            assert await work(service) == 1
            ((message, _),) = await alerts(service, order_id)
            assert message.startswith("No acquirer is configured")
            assert says in message
            frozen.advance(HOUR_MS)
        frozen.advance(24 * HOUR_MS)
        assert await work(service) == 1
        action = (await notifications(service, order_id))[-1][0]
        assert action == ("order.refund_failed" if amount == NOT_SENT else "order.processed")
