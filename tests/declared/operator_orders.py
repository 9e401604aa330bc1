"""Requests that provoke each declared error of an operator's cancel and refund of an order."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from declared.attempt import Attempt, Table
from declared.everywhere import with_fault
from paydesk.platform.storage.database import Locked
from refund_scene import DECLINED, UNHEARD, only, paid, part_of, refund
from service import Reply

NAMES = ("operator_cancel_order", "operator_refund_order")
UNKNOWN_ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"


def register(table: Table) -> None:
    """Add the ways to the table of operators."""
    for code, way in {
        "empty_required_header": _no_key,
        "invalid_idempotency_key_length": _long_key,
        "idempotency_key_already_used": _key_of_another_request,
        "resource_locked": _locked_row,
        "order_already_canceled": _canceled,
        "cannot_cancel_order": _at_terminal,
        "operator_refund_order/minimum_items": _no_part,
        "operator_refund_order/maximum_items": _two_parts,
        "operator_refund_order/minimum_properties": _empty_part,
        "transaction_not_found": _payment_of_another_order,
        "order_already_refunded": _refunded,
        "cannot_refund_order": _declined,
        "refund_period_exceeded": _paid_long_ago,
        "partial_refund_forbidden_with_tips": _part_of_a_tip,
        "refund_amount_exceeds": _too_much,
        "refund_in_progress": _beside_another,
    }.items():
        table.way(code)(way)


async def _no_key(attempt: Attempt) -> Reply:
    return await attempt.send(key=None)


async def _long_key(attempt: Attempt) -> Reply:
    return await attempt.send(key="k" * 65)


async def _key_of_another_request(attempt: Attempt) -> Reply:
    key = str(uuid.uuid4())
    assert (await attempt.send(key=key)).status == attempt.operation.status
    return await attempt.send(key=key, body={"reason": "Another one."})


async def _locked_row(attempt: Attempt) -> Reply:
    return await with_fault(attempt, Locked("a row stayed locked"))


async def _canceled(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 200
    return await attempt.send()


async def _at_terminal(attempt: Attempt) -> Reply:
    terminal = await attempt.service.terminal()
    device = await attempt.service.device(terminal)
    order_id = (await attempt.service.create(terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    return await attempt.at(order_id=order_id).send()


def _with_parts(attempt: Attempt, *parts: Any) -> Attempt:
    return replace(attempt, body={**attempt.body, "transactions": list(parts)})


def _part(attempt: Attempt, amount: str) -> Attempt:
    return replace(attempt, body={**attempt.body, **part_of(attempt.paths["order_id"], amount)})


async def _no_part(attempt: Attempt) -> Reply:
    return await _with_parts(attempt).send()


async def _two_parts(attempt: Attempt) -> Reply:
    part = {"id": f"PAY{UNKNOWN_ORDER[3:]}", "amount": "1"}
    return await _with_parts(attempt, part, part).send()


async def _empty_part(attempt: Attempt) -> Reply:
    return await _with_parts(attempt, {}).send()


async def _payment_of_another_order(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, **part_of(UNKNOWN_ORDER, "1.00")})


async def _refunded(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 201
    return await attempt.send()


async def _declined(attempt: Attempt) -> Reply:
    return await attempt.at(order_id=await paid(attempt.service, DECLINED)).send()


async def _paid_long_ago(attempt: Attempt) -> Reply:
    await _change_order(attempt, "paid_ms = 1")
    return await attempt.send()


async def _part_of_a_tip(attempt: Attempt) -> Reply:
    await _change_order(attempt, "tip_minor = 100")
    return await _part(attempt, "5.00").send()


async def _too_much(attempt: Attempt) -> Reply:
    return await _part(attempt, "24.91").send()


async def _beside_another(attempt: Attempt) -> Reply:
    order_id = await paid(attempt.service, UNHEARD)
    assert only(await refund(attempt.service, order_id, "1.00"))["status"] == "processing"
    return await attempt.at(order_id=order_id).send()


async def _change_order(attempt: Attempt, change: str) -> None:
    sql = f"UPDATE orders SET {change} WHERE seller_id = $1 AND order_id = $2"
    await attempt.service.scene.run(sql, attempt.service.seller_id, attempt.paths["order_id"])
