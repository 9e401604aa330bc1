"""Every cell of the table of decisions, reported to an order in that situation, has the effect of its decision."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from device_scene import APPROVED, CANCELED, DECLINED, UNKNOWN, Desk, new_boot, open_desk
from paydesk.core.errors import Refusal
from paydesk.engine.device.rules.decisions import TABLE, Decision, Reported, Situation, error_of
from paydesk.engine.orders import status
from paydesk.engine.orders.order import Order
from paydesk.platform.storage.database import Database

UNREADABLE = b"{}"
FREE_ORDER = """
UPDATE orders SET status = 'canceled', status_detail = 'canceled', payment_status_detail = 'canceled_by_api'
 WHERE seller_id = $1 AND order_id = $2"""
HOLD = """
INSERT INTO confirmations (seller_id, order_id, live, status, amount_minor, currency, reference_id, approved_ms,
                           decide_by_ms, next_ms, created_ms)
VALUES ($1, $2, 0, 'provisional', 2490, 'BRL', $3, 0, 0, 0, 0)"""
VERDICTS = "SELECT verdict FROM results WHERE seller_id = $1 AND lease_id = $2 AND result_id LIKE $3 || '%'"
INQUIRIES = "SELECT reason FROM inquiries WHERE seller_id = $1 AND order_id = $2"
REVERSALS = "SELECT reference_id FROM reversals WHERE seller_id = $1 AND order_id = $2"
ALERTS = "SELECT kind FROM operator_events WHERE subject = $1 ORDER BY kind"


@dataclass
class Effect:
    """What a result has done: the record and the order, and what there is then of the rest."""

    verdict: str
    after: Order
    inquired: bool
    reversals: int
    alerts: list[str]


async def change(desk: Desk, sql: str, *args: Any) -> None:
    """Change rows as a worker or an operator would."""
    await desk.database.write(lambda tx: tx.run(sql, *args))


async def canceling(desk: Desk) -> Order:
    """An order whose cancel is requested."""
    order = await desk.at_terminal()
    assert await desk.move(status.REQUEST_CANCEL, order)
    return order


async def permitted(desk: Desk) -> Order:
    """An order whose authorization is permitted."""
    return await desk.granted()


async def provisional(desk: Desk) -> Order:
    """An order whose approval waits for the terminal's result."""
    order = await desk.granted()
    await change(desk, HOLD, order.seller_id, order.order_id, f"1{own(order)}")
    return order


async def unknown(desk: Desk) -> Order:
    """An order whose outcome is being inquired."""
    order = await desk.granted()
    await desk.report(order, UNKNOWN)
    return order


async def unpermitted(desk: Desk) -> Order:
    """The same without a permit."""
    order = await desk.at_terminal()
    await desk.report(order, UNKNOWN)
    return order


async def reversing(desk: Desk) -> Order:
    """An order whose payment is being reversed."""
    order = await unknown(desk)
    sql = "UPDATE inquiries SET reversing_ms = 1 WHERE seller_id = $1 AND order_id = $2"
    await change(desk, sql, order.seller_id, order.order_id)
    return order


async def detached(desk: Desk) -> Order:
    """An order that was taken from its terminal."""
    order = await desk.at_terminal()
    sql = "UPDATE orders SET detached_ms = 1 WHERE seller_id = $1 AND order_id = $2"
    await change(desk, sql, order.seller_id, order.order_id)
    return order


async def unpaid(desk: Desk) -> Order:
    """An order that failed."""
    order = await desk.at_terminal()
    await desk.report(order, DECLINED)
    return order


async def paid(desk: Desk) -> Order:
    """An order that was paid."""
    order = await desk.granted()
    await desk.report(order, {**APPROVED, "reference_id": own(order)})
    return order


SITUATIONS: dict[Situation, Callable[[Desk], Awaitable[Order]]] = {
    "open": Desk.at_terminal,
    "canceling": canceling,
    "permitted": permitted,
    "provisional": provisional,
    "unknown": unknown,
    "unpermitted": unpermitted,
    "reversing": reversing,
    "contradicted": Desk.at_terminal,
    "detached": detached,
    "unpaid": unpaid,
    "paid": paid,
}


def own(order: Order) -> str:
    """The reference of an order's payment."""
    return str(int(order.ulid, 36) % 10**12)


def report_of(reported: Reported, order: Order) -> dict[str, Any] | bytes:
    """A result that reports this of the order."""
    reports: dict[Reported, dict[str, Any] | bytes] = {
        "approved": {**APPROVED, "reference_id": f"1{own(order)}"},
        "other_payment": {**APPROVED, "paid_amount": "24.91", "reference_id": f"1{own(order)}"},
        "payment": {**APPROVED, "reference_id": own(order)},
        "declined": DECLINED,
        "canceled": CANCELED,
        "unknown": {**UNKNOWN, "status_detail": "check_on_terminal"},
        "unreadable": b"[]",
    }
    return reports[reported]


async def effect_of(desk: Desk, order: Order, result_id: str) -> Effect:
    """Read what a result has done."""
    of_order = order.seller_id, order.order_id
    verdicts = [row[0] for row in await desk.rows(VERDICTS, order.seller_id, order.ulid, result_id)]
    return Effect(
        verdicts[-1] if verdicts else "",
        await desk.now(order),
        bool(await desk.rows(INQUIRIES, *of_order)),
        len(await desk.rows(REVERSALS, *of_order)),
        [row[0] for row in await desk.rows(ALERTS, order.order_id)],
    )


def expected(decision: Decision, reported: Reported, before: Effect) -> Effect:
    """The effect of a decision; of `after` only the state and version are compared."""
    is_checked = decision in ("check", "conflict") or (decision == "unreadable" and before.after.status in status.LIVE)
    moved = before.after
    if decision == "confirm":
        moved = at(moved, status.PROCESSED)
    elif decision == "undo":
        moved = at(moved, status.FAILED["processing_error" if reported == "canceled" else "insufficient_amount"])
    elif decision == "end":
        ends = {"approved": status.PROCESSED, "canceled": status.CANCELED_ON_TERMINAL}
        moved = at(moved, ends.get(reported, status.FAILED["insufficient_amount"]))
    elif is_checked and moved.state != status.CHECK_ON_TERMINAL:
        moved = at(moved, status.CHECK_ON_TERMINAL)
    verdicts = {**dict.fromkeys(("end", "confirm", "undo", "check"), "taken"), "inquire": "finished"}
    is_inquired = is_checked or decision == "inquire" or (decision == "unreadable" and moved.paid_ms is None)
    alerts = {"late_approval": "late_approval", "unreadable": "unreadable_result"}
    return Effect(
        verdicts.get(decision, decision),
        moved,
        before.inquired or is_inquired,
        before.reversals + (decision in ("late_approval", "undo")),
        sorted([*before.alerts, alerts[decision]] if decision in alerts else before.alerts),
    )


def at(order: Order, state: status.State) -> Order:
    """The order one version later in a state."""
    names = {"status": state.status, "status_detail": state.detail, "payment_status_detail": state.payment_detail}
    return replace(order, version=order.version + 1, **names)


@pytest.mark.on_postgres
async def test_every_decision_has_its_effect(database: Database) -> None:
    """The answer, the record, the order, the inquiry, the reversal and the alert are those of the table."""
    desk = await open_desk(database)
    for (reported, situation), decision in TABLE.items():
        order = await SITUATIONS[situation](desk)
        result_id, contradicts = new_boot(), situation == "contradicted"
        if contradicts:
            await desk.report(order, UNREADABLE, result_id)
        before = await effect_of(desk, order, result_id)
        outcome = await desk.report(order, report_of(reported, order), result_id)
        wanted = expected(decision, reported, before)
        found = await effect_of(desk, order, f"{result_id}#" if contradicts else result_id)
        facts = [(one.verdict, one.inquired, one.reversals, one.alerts) for one in (found, wanted)]
        rows = [(one.after.state, one.after.version) for one in (found, wanted)]
        assert facts[0] == facts[1], (reported, situation, decision)
        assert rows[0] == rows[1], (reported, situation, decision)
        if decision in ("end", "confirm", "undo", "check"):
            assert not isinstance(outcome, Refusal), (reported, situation)
        else:
            assert isinstance(outcome, Refusal), (reported, situation)
            assert outcome.kind is error_of(reported, situation, contradicts=contradicts), (reported, situation)
        await change(desk, FREE_ORDER, order.seller_id, order.order_id)
