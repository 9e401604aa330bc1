"""What the service promises of an acquirer that does not answer, one promise a test, against a host with a ledger."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from acquirers.here import Cut, till
from authorize_scene import at_terminal, authorize
from operator_calls import operator
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.storage.database import Database
from refund_scene import refund

HOLDS = Capabilities(needs_confirmation=True)
CONFIRMS = Capabilities(needs_confirmation=True, confirm_before=120, at_deadline="confirms")
SHORT = Capabilities(reverse_until=60, after_reverse_until="refund")
BLIND = Capabilities(can_inquire=False, reversal_blocks=True)
HOUR_SECONDS, MINUTES = 3600, 60
AMOUNT_MINOR = 2490


@pytest.mark.parametrize("cut", ["lost", "unanswered", "refused"])
async def test_a_sale_is_confirmed_once_by_a_host_that_confirms_by_itself(database: Database, cut: Cut) -> None:
    """The terminal approves, no confirmation is answered until after the deadline, and the sale stays processed."""
    async with till(database, CONFIRMS) as here:
        lease_id, reply = await here.sale()
        await here.approve(lease_id, reply)
        here.adapter.cut(cut)
        await here.work(300, steps=30)
        here.adapter.cuts.clear()
        await here.work(600, steps=2)
        assert (await here.status(lease_id), here.net_minor(lease_id)) == ("processed", AMOUNT_MINOR)
        assert here.kinds(lease_id) == ["payment", "confirmation"]


@pytest.mark.parametrize("cut", ["lost", "unanswered", "refused"])
async def test_a_sale_without_a_result_is_undone_after_the_host_has_confirmed_it(database: Database, cut: Cut) -> None:
    """The terminal says nothing, and no reversal is answered until after the deadline: the money goes back."""
    async with till(database, CONFIRMS) as here:
        lease_id, _ = await here.sale()
        here.adapter.cut(cut)
        await here.work(300, steps=30)
        here.adapter.cuts.clear()
        await here.work(600, steps=2)
        assert (await here.status(lease_id), here.net_minor(lease_id)) == ("failed", 0)


async def test_an_approval_whose_answer_was_lost_is_never_processed(database: Database) -> None:
    """The terminal never heard of it, though its host has confirmed it by itself when it is asked again."""
    async with till(database, CONFIRMS) as here:
        here.adapter.cut("unanswered")
        lease_id, reply = await here.sale()
        assert reply.body["outcome"] == "unknown"
        await here.work(300, steps=30)
        here.adapter.cuts.clear()
        await here.work(600, steps=2)
        assert (await here.status(lease_id), here.net_minor(lease_id)) == ("failed", 0)


@pytest.mark.on_postgres
async def test_one_payment_reported_twice_after_its_reversals_time_is_refunded_once(database: Database) -> None:
    """The order has failed, and the terminal reports the approval under two ids; then it is too late to reverse."""
    async with till(database, SHORT) as here:
        here.adapter.cut("unanswered")
        lease_id, _ = await here.sale()
        declined = {"outcome": "declined", "status_detail": "card_disabled"}
        assert (await here.device.result(lease_id, **declined)).status == 200
        for _ in range(2):
            late = await here.device.approve(lease_id)
            assert (late.status, late.body["recorded"]) == (409, True)
        await here.work(90, steps=3)
        here.adapter.cuts.clear()
        await here.work(1200, steps=3)
        assert (await here.status(lease_id), here.kinds(lease_id)) == ("failed", ["payment", "refund"])
        assert here.net_minor(lease_id) == 0


@pytest.mark.on_postgres
async def test_a_refund_right_after_the_sale_is_accepted_and_made(database: Database) -> None:
    """It is 201 before the confirmation, which is not answered for a minute, and is sent after it."""
    async with till(database, HOLDS) as here:
        lease_id, reply = await here.sale()
        await here.approve(lease_id, reply)
        here.adapter.cut("lost", "confirm")
        answered = await refund(here.service, f"ORD{lease_id}")
        assert (answered.status, answered.body["transactions"]["refunds"][0]["status"]) == (201, "processing")
        await here.work(60, steps=6)
        assert here.kinds(lease_id) == ["payment"]
        here.adapter.cuts.clear()
        await here.work(60)
        assert (await here.status(lease_id), here.kinds(lease_id)) == (
            "refunded",
            ["payment", "confirmation", "refund"],
        )
        assert here.net_minor(lease_id) == 0


@pytest.mark.parametrize(
    ("cut", "outcome", "detail"),
    [
        ("refused", "declined", "processing_error"),
        ("lost", "unknown", "check_on_terminal"),
        ("unanswered", "unknown", "check_on_terminal"),
    ],
)
@pytest.mark.parametrize("can", [HOLDS, CONFIRMS, SHORT, BLIND], ids=["holds", "confirms", "short", "blind"])
async def test_all_that_an_hour_of_silence_leaves_open_ends_by_itself(
    database: Database, can: Capabilities, cut: Cut, outcome: str, detail: str
) -> None:
    """What was not sent is declined, the rest is unknown; a sale before it is confirmed, and its refund made.

    An approval that can be inquired, and that needs no confirmation, is the order's outcome at last.
    """
    is_approved = can is SHORT and cut == "unanswered"
    async with till(database, can) as here:
        before, reply = await here.sale()
        await here.approve(before, reply)
        here.adapter.cut(cut)
        assert (await refund(here.service, f"ORD{before}", "1.00")).status == 201
        during, answered = await here.sale()
        assert (answered.body["outcome"], answered.body["status_detail"]) == (outcome, detail)
        await here.work(HOUR_SECONDS, steps=MINUTES)
        here.adapter.cuts.clear()
        await here.work(2 * HOUR_SECONDS, steps=12)
        ended = ("processed", AMOUNT_MINOR) if is_approved else ("failed", 0)
        assert (await here.status(during), here.net_minor(during)) == ended
        assert (await here.status(before), here.net_minor(before)) == ("processed", AMOUNT_MINOR - 100)


@pytest.mark.on_postgres
async def test_every_attempt_of_a_reversal_has_the_same_body(database: Database) -> None:
    """Also if the authorization is answered between an inquiry's answer and the reversal that follows from it."""
    async with till(database, HOLDS) as here:
        held = here.adapter.held
        held.update(authorize=asyncio.Event(), inquire=asyncio.Event())
        lease_id = await at_terminal(here.device)
        request = asyncio.create_task(authorize(here.device, lease_id))
        await here.adapter.arrived["authorize"].wait()
        assert (await here.device.result(lease_id, outcome="unknown")).status == 200
        working = asyncio.create_task(here.work())
        await here.adapter.arrived["inquire"].wait()
        held["authorize"].set()
        assert (await request).body["outcome"] == "unknown"
        here.adapter.cut("unanswered", "reverse")
        held["inquire"].set()
        await working
        assert here.kinds(lease_id) == ["payment", "reversal"]
        here.adapter.cuts.clear()
        await here.work(60)
        assert (await here.status(lease_id), here.net_minor(lease_id)) == ("failed", 0)


@pytest.mark.on_postgres
async def test_a_person_ends_the_reversal_of_an_amount_that_was_never_heard(database: Database) -> None:
    """The host cannot be asked, and the answer of another amount was lost: what was undone is not guessed."""
    async with till(database, BLIND) as here:
        host, desk = here.adapter.host, await operator(here.service, "operator")
        here.adapter.cut("unanswered", "authorize")
        lease_id, _ = await here.sale()
        sale = host.sales[f"PAY{lease_id}"]
        sale.amount_minor -= 1
        host.entries[-1] = replace(host.entries[-1], amount_minor=sale.amount_minor)
        here.adapter.cuts.clear()
        await here.work(2 * HOUR_SECONDS, steps=MINUTES)
        assert (await here.status(lease_id), here.kinds(lease_id)) == ("at_terminal", ["payment", "reversal"])
        order_id = f"ORD{lease_id}"
        (item,) = (await desk.did("GET", "attention"))["data"]
        assert (item["kind"], item["order_id"]) == ("outcome_unknown", order_id)
        assert "then resolve the order" in item["do"]
        events = [one["kind"] for one in (await desk.did("GET", "events"))["data"] if one["subject"] == order_id]
        assert {"acquirer_answer_differs", "inquiry_needs_person"} <= {*events}
        said = {"reason": "The portal has a payment of 24.89 and its reversal."}
        assert await desk.refused("POST", f"orders/{order_id}/resolve", {"outcome": "approved", **said}) == (
            409,
            "cannot_resolve_order",
        )
        await desk.did("POST", f"orders/{order_id}/resolve", {"outcome": "declined", **said})
        await here.work(HOUR_SECONDS, steps=6)
        assert (await here.status(lease_id), here.net_minor(lease_id)) == ("failed", 0)
        assert (await desk.did("GET", "attention"))["data"] == []
        # What this host calls a fault: it was asked to reverse the amount of the order.
        host.faults.clear()
