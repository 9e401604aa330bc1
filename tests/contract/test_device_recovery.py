"""`hello` of a terminal that was killed after it requested the permit and never called the acquirer (`sent`)."""

from __future__ import annotations

import pytest

from device_scene import APPROVED, UNKNOWN, Desk, answered, new_boot, refused
from jobs_scene import SAID, FakeAcquirer, context_of, inquire, inquiry, process_reversals, reversals_of
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.expiry import UNKNOWN_OUTCOME
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments.acquirer import NotFound
from paydesk.engine.payments.acquirers import Acquirers

FAILED = status.FAILED["processing_error"]
ENDED_BY = "SELECT ended_by FROM leases WHERE seller_id = $1 AND lease_id = $2"
AUTHORIZED_BY_SERVICE = """
INSERT INTO lease_authorizations
       (seller_id, lease_id, digest, key_version, tip_minor, payment_method, card, created_ms)
VALUES ($1, $2, $3, 1, 0, '{}', '{}', 1)"""
SET_SERVICE = "UPDATE terminals SET kind = 'service' WHERE seller_id = $1"


async def restart(desk: Desk, order: Order, step: str = "authorizing", *, sent: bool | None = False) -> str:
    """Start a new session with the order in its journal; return the verdict."""
    entry = {"lease_id": order.ulid, "last_step": step, **({} if sent is None else {"sent": sent})}
    (lease,) = answered(await desk.hello(entry, boot_id=new_boot()))["leases"]
    verdict: str = lease["verdict"]
    return verdict


async def inquiries(desk: Desk) -> int:
    """Return the number of inquiries."""
    return len(await desk.rows("SELECT order_id FROM inquiries"))


async def assert_failed(desk: Desk, order: Order) -> None:
    """The order failed with origin `terminal`, its lease has ended, and the terminal takes another order."""
    failed = await desk.now(order)
    assert (failed.state, failed.origin, failed.paid_ms) == (FAILED, "terminal", None)
    assert await desk.rows(ENDED_BY, order.seller_id, order.ulid) == [("abort",)]
    following = await desk.order()
    assert answered(await desk.next())["lease_id"] == following.ulid
    assert answered(await desk.acknowledge(following))["order"]["status"] == "at_terminal"


@pytest.mark.parametrize("step", ["acknowledged", "pin_entered", "authorizing"])
async def test_a_permitted_order_is_resumed(desk: Desk, step: str) -> None:
    """The new session gets the same permit again, and its result is the outcome."""
    order = await desk.at_terminal()
    granted = answered(await desk.progress(order, "authorizing"))
    desk.clock.advance(20_000)
    assert await restart(desk, order, step) == "resume"
    assert (await desk.now(order)).version == order.version
    assert answered(await desk.progress(order, "authorizing")) == granted
    answered(await desk.report(order, APPROVED))
    assert (await desk.now(order)).state == status.PROCESSED
    assert await inquiries(desk) == 0


async def test_the_permit_of_a_resumed_order_is_refused_to_the_earlier_session(desk: Desk) -> None:
    """The lease has moved."""
    order, earlier = await desk.granted(), desk.boot_id
    assert await restart(desk, order) == "resume"
    assert refused(await desk.progress(order, "authorizing", boot_id=earlier)) == "stale_session"


@pytest.mark.parametrize("sent", [True, None])
async def test_an_order_that_was_sent_is_held(desk: Desk, *, sent: bool | None) -> None:
    """A terminal that says nothing may have called the acquirer."""
    order = await desk.granted()
    assert await restart(desk, order, sent=sent) == "hold"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await inquiries(desk) == 1


@pytest.mark.parametrize("late", ["permit", "order", "cancel"])
async def test_an_order_that_is_too_late_to_resume_fails_at_once(desk: Desk, late: str) -> None:
    """The permit or the order has expired, or a cancel is requested: nothing was charged, and nothing is inquired."""
    order = await desk.order(seconds=30 if late == "order" else 900)
    answered(await desk.hello())
    answered(await desk.acknowledge(order))
    answered(await desk.progress(order, "authorizing"))
    if late == "cancel":
        now_ms = desk.clock.now_ms()
        assert await desk.database.write(lambda tx: orders.record_cancel_request(Change(tx, now_ms, PLAIN), order))
    desk.clock.advance({"permit": 60_000, "order": 30_000, "cancel": 0}[late])
    assert await restart(desk, order) == "abort"
    assert await inquiries(desk) == 0
    await assert_failed(desk, order)


async def test_the_last_millisecond_of_the_permit(desk: Desk) -> None:
    """Until then the order is resumed."""
    order = await desk.granted()
    desk.clock.advance(59_999)
    assert await restart(desk, order) == "resume"


async def test_an_unknown_outcome_ends_at_once(desk: Desk) -> None:
    """40 s after the permit the order is at `check_on_terminal`. Its inquiry continues and ends without a payment."""
    order, acquirer = await desk.granted(), FakeAcquirer()
    desk.clock.advance(40_000)
    assert await UNKNOWN_OUTCOME.step(context_of(desk, Acquirers(test=acquirer))) == 1
    await inquire(desk, acquirer)
    assert await restart(desk, order) == "abort"
    await assert_failed(desk, order)
    desk.clock.advance(80_000)
    await inquire(desk, acquirer)
    assert (await inquiry(desk, order))[1] == "not_found"
    assert acquirer.reversed_keys == [f"PAY{order.ulid}"]
    assert (await desk.now(order)).state == FAILED


@pytest.mark.on_postgres
async def test_an_approval_that_is_found_after_all_is_reversed(desk: Desk) -> None:
    """A terminal with a defect called the acquirer: the order remains failed, and no approval is lost."""
    order, acquirer = await desk.granted(), FakeAcquirer()
    desk.clock.advance(40_000)
    await UNKNOWN_OUTCOME.step(context_of(desk, Acquirers(test=acquirer)))
    assert await restart(desk, order) == "abort"
    acquirer.say(SAID)
    await inquire(desk, acquirer)
    await process_reversals(desk, acquirer)
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]
    assert (await desk.now(order)).state == FAILED


async def test_a_reversal_under_way_is_completed(desk: Desk) -> None:
    """The order ends at once; the payment is reversed all the same."""
    order, acquirer = await desk.granted(), FakeAcquirer()
    desk.clock.advance(120_000)
    await UNKNOWN_OUTCOME.step(context_of(desk, Acquirers(test=acquirer)))

    async def hello() -> None:
        assert await restart(desk, order) == "abort"

    async def during_the_reversal() -> None:
        acquirer.meanwhile = hello

    acquirer.say(NotFound())
    acquirer.meanwhile = during_the_reversal
    await inquire(desk, acquirer)
    assert acquirer.reversed_keys == [f"PAY{order.ulid}"]
    assert (await inquiry(desk, order))[1] == "not_found"
    await assert_failed(desk, order)


async def test_an_approval_after_the_abort_is_a_late_approval(desk: Desk) -> None:
    """It is recorded and reversed."""
    order = await desk.granted()
    desk.clock.advance(60_000)
    assert await restart(desk, order) == "abort"
    assert refused(await desk.report(order, APPROVED)) == "order_finished"
    assert [row[3] for row in await reversals_of(desk, order)] == ["pending"]


@pytest.mark.parametrize("evidence", ["result", "authorization"])
async def test_evidence_of_a_call_to_the_acquirer_outweighs_the_journal(desk: Desk, evidence: str) -> None:
    """The terminal reported an unknown outcome, or the service called the acquirer for it."""
    order = await desk.granted()
    if evidence == "result":
        answered(await desk.report(order, UNKNOWN))
    else:
        key = order.seller_id, order.ulid, b"digest"
        await desk.database.write(lambda tx: tx.run(AUTHORIZED_BY_SERVICE, *key))
    assert await restart(desk, order) == "hold"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await inquiries(desk) == 1


@pytest.mark.parametrize("sent", [True, False, None])
@pytest.mark.parametrize("is_asked", [True, False])
async def test_the_service_knows_what_it_sent_for_a_terminal_of_kind_service(
    desk: Desk, *, sent: bool | None, is_asked: bool
) -> None:
    """Such a terminal never calls the acquirer itself, whatever its journal says."""
    order = await desk.granted()
    await desk.database.write(lambda tx: tx.run(SET_SERVICE, order.seller_id))
    if is_asked:
        key = order.seller_id, order.ulid, b"digest"
        await desk.database.write(lambda tx: tx.run(AUTHORIZED_BY_SERVICE, *key))
    assert await restart(desk, order, sent=sent) == ("hold" if is_asked else "resume")
    assert await inquiries(desk) == is_asked


@pytest.mark.on_postgres
@pytest.mark.parametrize("late", ["permit", "cancel", "unknown"])
async def test_a_delayed_hello_fails_no_order_that_was_sent_since(desk: Desk, late: str) -> None:
    """The terminal repeated its hello, got the permit again and called the acquirer before the first one arrived."""
    order, boot_id = await desk.granted(), new_boot()
    entry = {"lease_id": order.ulid, "last_step": "authorizing", "sent": False}
    assert answered(await desk.hello(entry, boot_id=boot_id))["leases"][0]["verdict"] == "resume"
    assert answered(await desk.progress(order, "authorizing"))["go"] is True
    if late == "cancel":
        now_ms = desk.clock.now_ms()
        assert await desk.database.write(lambda tx: orders.record_cancel_request(Change(tx, now_ms, PLAIN), order))
    desk.clock.advance({"permit": 60_000, "cancel": 0, "unknown": 40_000}[late])
    if late == "unknown":
        assert await UNKNOWN_OUTCOME.step(context_of(desk, Acquirers(test=FakeAcquirer()))) == 1
    assert answered(await desk.hello(entry, boot_id=boot_id))["leases"][0]["verdict"] == "hold"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await inquiries(desk) == 1
    answered(await desk.report(order, APPROVED))
    assert (await desk.now(order)).state == status.PROCESSED
    assert await reversals_of(desk, order) == []


async def test_a_request_for_the_permit_that_never_arrived(desk: Desk) -> None:
    """The payment goes on: the terminal requests the permit again."""
    order = await desk.at_terminal()
    assert await restart(desk, order) == "resume"
    assert await inquiries(desk) == 0
    assert answered(await desk.progress(order, "authorizing"))["go"] is True


@pytest.mark.parametrize("ends", [status.CANCELED_BY_API, status.EXPIRED])
async def test_a_request_for_the_permit_that_came_too_late(desk: Desk, ends: status.State) -> None:
    """A cancel or the expiry was first: the order is canceled."""
    order = await desk.at_terminal()
    if ends == status.CANCELED_BY_API:
        await desk.move(status.REQUEST_CANCEL, order)
    else:
        desk.clock.advance(900_000)
    assert await restart(desk, order) == "abort"
    assert (await desk.now(order)).state == ends
    assert await inquiries(desk) == 0


async def test_a_repeated_hello_gets_the_verdict_on_the_present_state(desk: Desk) -> None:
    """After `abort` the order has ended."""
    order = await desk.granted()
    desk.clock.advance(60_000)
    assert await restart(desk, order) == "abort"
    entry = {"lease_id": order.ulid, "last_step": "authorizing", "sent": False}
    assert answered(await desk.hello(entry))["leases"] == [{"lease_id": order.ulid, "verdict": "forget"}]
    assert (await desk.now(order)).state == FAILED
