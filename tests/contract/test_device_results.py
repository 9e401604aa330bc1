"""`ack`, `progress`, `cancel-result` and `results`: the rules for a terminal's calls on an order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from device_scene import APPROVED, CANCELED, DECLINED, UNKNOWN, Desk, answered, new_boot, refused
from paydesk.core.errors import Refusal
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from tables import each

MOVES = "SELECT move FROM order_events WHERE seller_id = $1 AND order_id = $2 ORDER BY version"
VERDICTS = "SELECT verdict FROM results WHERE seller_id = $1 ORDER BY created_ms, result_id"


def recorded(outcome: Any) -> str:
    """Assert that the outcome is a recorded 409 and return its code."""
    assert isinstance(outcome, Refusal), outcome
    assert outcome.kind.status == 409
    assert outcome.extra == {"recorded": True}
    return outcome.kind.code


async def moves(desk: Desk, order: Order) -> list[str]:
    """Return the order's moves."""
    return [row[0] for row in await desk.rows(MOVES, desk.seller_id, order.order_id)]


async def inquired(desk: Desk) -> int:
    """Return the number of inquiries."""
    return len(await desk.rows("SELECT order_id FROM inquiries WHERE seller_id = $1", desk.seller_id))


async def test_ack_moves_the_order_to_at_terminal_once(desk: Desk) -> None:
    """A repeated ack gets the same answer and has no effect."""
    order = await desk.at_terminal()
    assert order.state == status.AT_TERMINAL
    assert answered(await desk.acknowledge(order))["order"]["status"] == "at_terminal"
    assert await moves(desk, order) == ["create", "acknowledge"]


async def test_ack_after_a_cancel_returns_order_canceled(desk: Desk) -> None:
    """The order stays canceled."""
    order = await desk.order()
    await desk.hello()
    await desk.move(status.CANCEL, order)
    assert refused(await desk.acknowledge(order)) == "order_canceled"


async def test_ack_of_an_overdue_order_expires_it(desk: Desk) -> None:
    """The refusal is committed with the expiry."""
    order = await desk.order(seconds=30)
    await desk.hello()
    desk.clock.advance(30_000)
    assert refused(await desk.acknowledge(order)) == "order_canceled"
    assert (await desk.now(order)).state == status.EXPIRED


async def test_a_lease_of_another_terminal_returns_404(desk: Desk) -> None:
    """The answer is the same as for an unknown lease."""
    order = await desk.order()
    other = Desk(desk.database, desk.seller_id, desk.pos_id, desk.store_id, await desk.terminal())
    await other.hello()
    assert refused(await other.acknowledge(order)) == "lease_not_found"
    assert refused(await other.report(order, APPROVED)) == "lease_not_found"


async def test_ack_by_a_later_session_moves_the_lease(desk: Desk) -> None:
    """The earlier session is stale, the later one may authorize."""
    order = await desk.at_terminal()
    earlier = desk.boot_id
    answered(await desk.hello(boot_id=new_boot()))
    assert refused(await desk.progress(order, "authorizing", boot_id=earlier)) == "stale_session"
    assert refused(await desk.progress(order, "authorizing")) == "order_canceled"
    answered(await desk.acknowledge(order))
    assert answered(await desk.progress(order, "authorizing"))["go"] is True


async def test_a_later_session_cannot_resume_a_permitted_order(desk: Desk) -> None:
    """The order may have been charged."""
    order = await desk.granted()
    answered(await desk.hello(boot_id=new_boot()))
    assert refused(await desk.acknowledge(order)) == "order_canceled"
    assert refused(await desk.progress(order, "authorizing")) == "order_canceled"


async def test_progress_is_recorded_in_order_of_seq(desk: Desk) -> None:
    """An older or repeated seq gets 200 and is ignored."""
    order = await desk.at_terminal()
    for seq, step in ((2, "card_presented"), (2, "pin_requested"), (1, "card_requested")):
        answered(await desk.progress(order, step, seq))
    assert [list(row) for row in await desk.rows("SELECT seq, step FROM leases")] == [[2, "card_presented"]]


async def test_authorizing_is_permitted_and_repeatable(desk: Desk) -> None:
    """A repetition gets the same answer for any seq."""
    order = await desk.at_terminal()
    first = answered(await desk.progress(order, "authorizing", 5))
    desk.clock.advance(3_000)
    assert answered(await desk.progress(order, "authorizing", 1)) == first
    assert first == {"go": True, "until": "2026-01-31T14:27:42.109Z"}


async def test_authorizing_after_a_cancel_request_or_expiry_is_refused(desk: Desk) -> None:
    """A cancel request or expiry before the permit takes precedence."""
    order = await desk.at_terminal()
    await desk.move(status.REQUEST_CANCEL, order)
    assert refused(await desk.progress(order, "authorizing")) == "order_canceled"
    desk.clock.advance(900_000)
    assert refused(await desk.progress(order, "authorizing")) == "order_canceled"
    assert (await desk.now(order)).state == status.EXPIRED


async def test_nothing_cancels_after_the_permit(desk: Desk) -> None:
    """A cancel request and the expiry have no effect."""
    order = await desk.granted()
    desk.clock.advance(900_000)
    assert await desk.move(status.REQUEST_CANCEL, order) is None
    assert await desk.move(status.EXPIRE, order) is None
    assert refused(await desk.answer_cancel(order, done=True)) == "order_granted"


async def test_before_the_permit_an_order_is_released_only_on_request(desk: Desk) -> None:
    """Without a cancel request it can't be released; with one the terminal can't decline."""
    order = await desk.at_terminal()
    assert refused(await desk.answer_cancel(order, done=True)) == "cancel_not_requested"
    await desk.move(status.REQUEST_CANCEL, order)
    assert refused(await desk.answer_cancel(order, done=False)) == "order_not_granted"
    assert (await desk.now(order)).state == status.CANCELLATION_REQUESTED


async def test_releasing_the_order_cancels_it(desk: Desk) -> None:
    """`done` before the permit ends the order as canceled by the application."""
    order = await desk.at_terminal()
    await desk.move(status.REQUEST_CANCEL, order)
    answered(await desk.answer_cancel(order, done=True))
    assert (await desk.now(order)).state == status.CANCELED_BY_API


async def test_an_approval_becomes_the_payment(desk: Desk) -> None:
    """The order has the reported payment, and the lease has ended."""
    order = await desk.granted()
    answer = answered(await desk.report(order, APPROVED))
    assert answer == {
        "order": {"id": order.order_id, "status": "processed", "status_detail": "processed"},
        "print": True,
    }
    paid = await desk.now(order)
    assert (paid.paid_minor, paid.tip_minor, paid.reference_id) == (2490, 0, "115019989861")
    assert json.loads(paid.card or "") == APPROVED["card"]
    assert [row[0] for row in await desk.rows("SELECT ended_by FROM leases")] == ["result"]


async def test_an_approval_without_ack_or_permit_is_accepted(desk: Desk) -> None:
    """The order was never acknowledged, and nothing prevents the permit."""
    order = await desk.order()
    answered(await desk.report(order, APPROVED))
    assert await moves(desk, order) == ["create", "acknowledge", "approve"]
    assert (await desk.now(order)).permitted_ms is not None


async def test_a_repeated_result_gets_the_stored_answer(desk: Desk) -> None:
    """Another boot id does not matter, different content is a conflict."""
    order = await desk.granted()
    result_id = new_boot()
    first = answered(await desk.report(order, APPROVED, result_id))
    await desk.hello(boot_id=new_boot())
    assert answered(await desk.report(order, APPROVED, result_id)) == first
    assert recorded(await desk.report(order, DECLINED, result_id)) == "result_conflict"
    assert recorded(await desk.report(order, DECLINED, result_id)) == "result_conflict"
    assert sorted(row[0] for row in await desk.rows(VERDICTS, desk.seller_id)) == ["finished", "taken"]
    assert await moves(desk, order) == ["create", "acknowledge", "approve"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"paid_amount": "24.91"},
        {"paid_amount": "25.90", "tip_amount": "1.00"},
        {"tip_amount": "0.01"},
        {"card": None},
    ],
)
async def test_a_mismatching_approval_starts_an_inquiry(desk: Desk, wrong: dict[str, Any]) -> None:
    """Another amount, a tip or a missing card: the result is recorded and the acquirer queried."""
    order = await desk.granted()
    result = {name: value for name, value in {**APPROVED, **wrong}.items() if value is not None}
    assert recorded(await desk.report(order, result)) == "result_conflict"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await inquired(desk) == 1


@pytest.mark.on_postgres
async def test_an_approval_after_a_cancel_request_starts_an_inquiry(desk: Desk) -> None:
    """Authorization was not permitted, and the cancel request prevents it."""
    order = await desk.at_terminal()
    await desk.move(status.REQUEST_CANCEL, order)
    assert recorded(await desk.report(order, APPROVED)) == "result_conflict"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL


@each("detail", status.FAILED_DETAILS)
async def test_a_decline_fails_the_order(desk: Desk, detail: str) -> None:
    """Every failed detail is the payment's and has an origin."""
    order = await desk.granted()
    answered(await desk.report(order, {"outcome": "declined", "status_detail": detail}))
    failed = await desk.now(order)
    assert failed.state == status.FAILED[detail]
    assert failed.origin in ("customer", "terminal", "acquirer")


async def test_canceled_is_accepted_only_before_the_permit(desk: Desk) -> None:
    """Before it the order is canceled; after it there is an inquiry."""
    order = await desk.at_terminal()
    answered(await desk.report(order, CANCELED))
    assert (await desk.now(order)).state == status.CANCELED_ON_TERMINAL
    order = await desk.granted()
    assert recorded(await desk.report(order, CANCELED)) == "result_conflict"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL


@pytest.mark.on_postgres
async def test_unknown_may_be_followed_by_an_outcome(desk: Desk) -> None:
    """The order is under inquiry, and a later result with another id ends it."""
    order = await desk.granted()
    answered(await desk.report(order, UNKNOWN))
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await inquired(desk) == 1
    answered(await desk.report(order, APPROVED))
    assert (await desk.now(order)).state == status.PROCESSED


async def test_a_late_approval_is_recorded_and_reversed(desk: Desk) -> None:
    """The order stays canceled; there is one reversal and one operator event."""
    order = await desk.order()
    await desk.move(status.CANCEL, order)
    result_id = new_boot()
    for _ in range(2):
        assert recorded(await desk.report(order, APPROVED, result_id)) == "order_finished"
    assert (await desk.now(order)).state == status.CANCELED_BY_API
    reversals = await desk.rows("SELECT amount_minor, reference_id, status FROM reversals")
    assert [list(row) for row in reversals] == [[2490, "115019989861", "pending"]]
    assert [row[0] for row in await desk.rows("SELECT kind FROM operator_events")] == ["late_approval"]


@pytest.mark.on_postgres
async def test_the_same_payment_under_another_id_is_not_reversed(desk: Desk) -> None:
    """Only an approval other than the order's payment is reversed."""
    order = await desk.granted()
    answered(await desk.report(order, APPROVED))
    assert recorded(await desk.report(order, APPROVED)) == "order_finished"
    assert await desk.rows("SELECT reversal_id FROM reversals") == []
    assert recorded(await desk.report(order, {**APPROVED, "reference_id": "2"})) == "order_finished"
    assert len(await desk.rows("SELECT reversal_id FROM reversals")) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b'{"outcome": "approved", "paid_amount": "24.90", "pan": "5031755734530604"}',
        b'{"outcome": "approved", "pan": 5031755734530604}',
        b'{"outcome": "approved", "pan": "5031 7557 3453 0604", "x": "\\u0035031755734530604"',
        b"\xff\xfe5\x000\x003\x001\x007\x005\x005\x007\x003\x004\x005\x003\x000\x006\x000\x004\x00",
        b"[]",
        b"",
    ],
)
async def test_an_unreadable_result_is_recorded_without_card_numbers(desk: Desk, raw: bytes) -> None:
    """There are an inquiry and an operator event; neither they nor the record have a full card number."""
    order = await desk.granted()
    assert recorded(await desk.report(order, raw)) == "result_conflict"
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    results = "".join(row[0] for row in await desk.rows("SELECT body FROM results"))
    events = "".join(row[0] for row in await desk.rows("SELECT body FROM operator_events"))
    assert "5031755734530604" not in (results + events).replace(" ", "").replace("\ufffd", "")


async def test_a_reference_that_is_the_card_number_is_unreadable(desk: Desk) -> None:
    """The reference is not stored."""
    order = await desk.granted()
    assert recorded(await desk.report(order, {**APPROVED, "reference_id": "5031755734536351"})) == "result_conflict"
    assert "5031755734536351" not in (await desk.rows("SELECT body FROM results"))[0][0]


async def test_results_without_effect_are_limited(desk: Desk) -> None:
    """Above the limit the terminal gets 429, and nothing is recorded."""
    desk.settings = desk.settings.model_copy(update={"results_per_lease_max": 2})
    order = await desk.order()
    await desk.move(status.CANCEL, order)
    for _ in range(2):
        recorded(await desk.report(order, DECLINED))
    assert refused(await desk.report(order, DECLINED)) == "too_many_requests"
    assert len(await desk.rows("SELECT result_id FROM results")) == 2


async def test_a_revoked_token_is_accepted_for_results_only(desk: Desk) -> None:
    """Its approval is accepted; its ack is refused."""
    order = await desk.granted()
    assert refused(await desk.acknowledge(order, revoked=True)) == "unauthorized"
    answered(await desk.report(order, APPROVED, revoked=True))
