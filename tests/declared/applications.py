"""The declared errors of operations with an access token."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from accounts import other_seller, with_scope
from declared.attempt import Attempt, Table
from declared.everywhere import with_fault
from faulty_database import FaultyDatabase
from paydesk.platform.operation import Operation
from paydesk.platform.storage.database import Locked
from print_scene import action_body, print_on
from refund_scene import DECLINED, UNHEARD, only, paid, part_of, refund
from service import Reply, Service, order_body

UNKNOWN_ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    attempt = Attempt(service, database, operation, service.access_token, body={})
    if operation.name == "refund_order":
        order_id = await paid(service)
        return replace(attempt, body=part_of(order_id, "5.00")).at(order_id=order_id)
    terminal = await service.terminal()
    if "{action_id}" in operation.path:
        attempt = attempt.at(action_id=(await print_on(service, terminal)).body["id"])
    if "{order_id}" in operation.path:
        attempt = attempt.at(order_id=(await service.create(terminal)).body["id"])
    bodies: dict[str, Any] = {
        "create_order": order_body(terminal.id),
        "create_action": action_body(terminal.id),
        "setup_terminals": {"terminals": [{"id": terminal.id, "operating_mode": "STANDALONE"}]},
        "simulate_order": {"status": "canceled"},
    }
    return replace(attempt, body=bodies.get(operation.name, {}))


TABLE = Table("application", _good)


@TABLE.way("forbidden")
async def _suspended_seller(attempt: Attempt) -> Reply:
    other = await other_seller(attempt.service)
    await other.scene.run("UPDATE sellers SET suspended_ms = 1 WHERE seller_id = $1", other.seller_id)
    return await attempt.send(token=other.access_token)


@TABLE.way("insufficient_scope")
async def _other_scope(attempt: Attempt) -> Reply:
    other = "read" if attempt.operation.scope == "write" else "write"
    return await attempt.send(token=await with_scope(attempt.service, other))


@TABLE.way("empty_required_header")
async def _no_key(attempt: Attempt) -> Reply:
    return await attempt.send(key=None)


@TABLE.way("invalid_idempotency_key_length")
async def _long_key(attempt: Attempt) -> Reply:
    return await attempt.send(key="k" * 65)


@TABLE.way("search_orders/property_value")
async def _unknown_status(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?status=open").send()


@TABLE.way("search_orders/unsupported_properties")
async def _unknown_parameter(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?surprise=1").send()


@TABLE.way("read_events/property_value")
async def _no_cursor(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?after=1").send()


@TABLE.way("events_no_longer_kept")
async def _cursor_of_last_month(attempt: Attempt) -> Reply:
    begin = (await attempt.send()).body["next"]
    await attempt.service.create(await attempt.service.terminal())
    assert (await attempt.send()).body["data"]
    await attempt.service.scene.run("UPDATE event_counters SET first_number = first_number + 1000")
    return await replace(attempt, query=f"?after={begin}").send()


@TABLE.way("minimum_items")
async def _no_items(attempt: Attempt) -> Reply:
    spoiled: dict[str, Any] = {
        "create_order": {"transactions": {"payments": []}},
        "setup_terminals": {"terminals": []},
        "refund_order": {"transactions": []},
    }
    return await attempt.send(body={**attempt.body, **spoiled[attempt.operation.name]})


@TABLE.way("maximum_items")
async def _many_items(attempt: Attempt) -> Reply:
    mode = {"id": "T", "operating_mode": "PDV"}
    part = {"id": f"PAY{UNKNOWN_ORDER[3:]}", "amount": "1"}
    spoiled: dict[str, Any] = {
        "create_order": {"transactions": {"payments": [{"amount": "1"}] * 2}},
        "setup_terminals": {"terminals": [mode] * 51},
        "refund_order": {"transactions": [part] * 2},
    }
    return await attempt.send(body={**attempt.body, **spoiled[attempt.operation.name]})


@TABLE.way("refund_order/required_properties")
async def _part_of_nothing(attempt: Attempt) -> Reply:
    return await attempt.send(body={"transactions": [{"amount": "5.00"}]})


@TABLE.way("refund_order/minimum_properties")
async def _empty_part(attempt: Attempt) -> Reply:
    return await attempt.send(body={"transactions": [{}]})


@TABLE.way("idempotency_key_already_used")
async def _key_of_another_request(attempt: Attempt) -> Reply:
    key = str(uuid.uuid4())
    assert (await attempt.send(key=key)).status == attempt.operation.status
    if attempt.operation.headers:
        return await attempt.send(key=key, headers={attempt.operation.headers[0].name: "at_terminal"})
    others = {"refund_order": {}, "create_action": {**attempt.body, "external_reference": "another"}}
    other = others.get(attempt.operation.name, {**attempt.body, "description": "another"})
    return await attempt.send(key=key, body=other)


@TABLE.way("resource_locked")
async def _locked_row(attempt: Attempt) -> Reply:
    return await with_fault(attempt, Locked("a row stayed locked"))


@TABLE.way("order_not_found")
async def _unknown_order(attempt: Attempt) -> Reply:
    return await attempt.at(order_id=UNKNOWN_ORDER).send()


@TABLE.way("forbidden_checking_terminal_owner")
async def _unknown_terminal(attempt: Attempt) -> Reply:
    return await attempt.send(body=order_body("NEWLAND_N950__NOWHERE"))


@TABLE.way("terminal_not_in_pdv_mode")
async def _standalone_terminal(attempt: Attempt) -> Reply:
    return await attempt.send(body=order_body((await attempt.service.terminal(mode="STANDALONE")).id))


@TABLE.way("already_queued_order_on_terminal")
async def _queued(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 201
    return await attempt.send()


@TABLE.way("create_action/payload_too_large")
async def _larger_than_an_image(attempt: Attempt) -> Reply:
    return await attempt.send_raw("Content-Length: 1100001")


@TABLE.way("create_action/terminal_not_in_pdv_mode")
async def _printer_of_a_standalone_terminal(attempt: Attempt) -> Reply:
    return await attempt.send(body=action_body((await attempt.service.terminal(mode="STANDALONE")).id))


@TABLE.way("action_not_found")
async def _unknown_action(attempt: Attempt) -> Reply:
    return await attempt.at(action_id=str(uuid.uuid4())).send()


@TABLE.way("cannot_cancel_action")
async def _canceled_action(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 200
    return await attempt.send()


@TABLE.way("order_already_canceled")
async def _canceled(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 200
    return await attempt.send()


@TABLE.way("cannot_cancel_order")
async def _at_terminal(attempt: Attempt) -> Reply:
    terminal = await attempt.service.terminal()
    device = await attempt.service.device(terminal)
    order_id = (await attempt.service.create(terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    return await attempt.at(order_id=order_id).send()


@TABLE.way("transaction_not_found")
async def _payment_of_another_order(attempt: Attempt) -> Reply:
    return await attempt.send(body=part_of(UNKNOWN_ORDER, "1.00"))


@TABLE.way("order_already_refunded")
async def _refunded(attempt: Attempt) -> Reply:
    assert (await attempt.send(body={})).status == 201
    return await attempt.send()


@TABLE.way("cannot_refund_order")
async def _declined_by_the_acquirer(attempt: Attempt) -> Reply:
    order_id = await paid(attempt.service, DECLINED)
    return await attempt.at(order_id=order_id).send(body={})


@TABLE.way("refund_period_exceeded")
async def _paid_long_ago(attempt: Attempt) -> Reply:
    await _change_order(attempt, "paid_ms = 1")
    return await attempt.send()


@TABLE.way("partial_refund_forbidden_with_tips")
async def _part_of_a_tip(attempt: Attempt) -> Reply:
    await _change_order(attempt, "tip_minor = 100")
    return await attempt.send()


@TABLE.way("refund_amount_exceeds")
async def _too_much(attempt: Attempt) -> Reply:
    return await attempt.send(body=part_of(f"ORD{attempt.body['transactions'][0]['id'][3:]}", "24.91"))


@TABLE.way("refund_in_progress")
async def _beside_another(attempt: Attempt) -> Reply:
    order_id = await paid(attempt.service, UNHEARD)
    assert only(await refund(attempt.service, order_id, "1.00"))["status"] == "processing"
    return await refund(attempt.service, order_id)


async def _change_order(attempt: Attempt, change: str) -> None:
    sql = f"UPDATE orders SET {change} WHERE seller_id = $1 AND order_id = $2"
    await attempt.service.scene.run(sql, attempt.service.seller_id, attempt.paths["order_id"])


@TABLE.way("terminal_not_found")
async def _other_sellers_terminal(attempt: Attempt) -> Reply:
    other = await other_seller(attempt.service)
    return await attempt.send(token=other.access_token)


@TABLE.way("terminal_busy")
async def _terminal_with_an_order(attempt: Attempt) -> Reply:
    assert (await attempt.service.request("POST", "/v1/orders", order_body(_terminal_of(attempt)))).status == 201
    return await attempt.send()


@TABLE.way("precondition_failed")
async def _second_in_pdv(attempt: Attempt) -> Reply:
    other = await attempt.service.terminal(mode="STANDALONE")
    await attempt.service.scene.run(
        "UPDATE terminals SET pos_id = (SELECT t.pos_id FROM terminals t WHERE t.seller_id = $1 AND t.terminal_id = $2)"
        " WHERE seller_id = $1 AND terminal_id = $3",
        attempt.service.seller_id,
        _terminal_of(attempt),
        other.id,
    )
    return await attempt.send(body={"terminals": [{"id": other.id, "operating_mode": "PDV"}]})


def _terminal_of(attempt: Attempt) -> str:
    terminal_id: str = attempt.body["terminals"][0]["id"]
    return terminal_id
