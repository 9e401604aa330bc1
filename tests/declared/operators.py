"""Requests that provoke each declared error of the operator interface and of the development clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import counted
from declared import operator_orders
from declared.attempt import Attempt, Table
from declared.virtual import one_more
from faulty_database import FaultyDatabase
from operator_calls import Operator, operator
from operator_people import PASSWORD, Person, begin_session, make_person
from pairing_scene import ask_to_pair
from paydesk.core import ids
from paydesk.platform.operation import Operation
from refund_scene import paid, refund
from service import Reply, Service, Terminal

UNKNOWN_NUMBER, NO_ID = "999999999999", "01J67CQQH5904WDBVZEM4JMEP3"
UNKNOWN_UUID = "0b5cf9b0-6c6e-4ff4-9b0e-0f3a3f3c6a51"

RECORDED = """
INSERT INTO recorded_requests (entry_id, request_id, method, path, operation, status, duration_us, replayed, address,
                               user_agent, created_ms)
VALUES ($1, 'a', 'GET', '/v1/orders', 'search_orders', 200, 1, 0, '127.0.0.1', '', 1)"""

VALID_BODIES: dict[str, Any] = {
    "operator_create_applications": {"name": "Kiosk", "redirect_uris": ["https://kiosk.example/callback"]},
    "operator_change_application": {"name": "Kiosk"},
    "operator_create_sellers": {"email": "bia@shop.example", "name": "Bia", "country": "BRA", "currency": "BRL"},
    "operator_change_seller": {"name": "Bia"},
    "operator_create_operators": {"name": "Eva", "role": "support"},
    "operator_change_operator": {"name": "Eva"},
    "operator_change_own_password": {"current_password": PASSWORD, "password": "quite different words in a row"},
    "operator_create_stores": {"seller_id": "$seller", "name": "Main street"},
    "operator_create_pos": {"seller_id": "$seller", "store_id": "$store", "external_pos_id": "TILL2"},
    "operator_create_terminals": {"seller_id": "$seller", "script": "ignore"},
    "operator_change_store": {"name": "Main street"},
    "operator_change_pos": {"name": "Till 1"},
    "operator_change_terminal": {"operating_mode": "PDV"},
    "operator_approve_pairing": {"seller_id": "$seller"},
    "operator_create_subscriptions": {"client_id": "$application", "url": "https://8.8.8.8/hooks"},
    "operator_create_operator_subscription": {"url": "https://8.8.8.8/hooks"},
    "operator_change_subscription": {"url": "https://8.8.8.8/other", "actions": ["order.processed"]},
    "operator_create_codes": {"client_id": "$application", "user_id": "$seller"},
    "operator_resolve_order": {"outcome": "declined", "reason": "Not in the acquirer's portal."},
    "operator_resolve_reversal": {"outcome": "reversed", "reason": "Done in the acquirer's portal."},
    "operator_resolve_refund": {"outcome": "processed", "reason": "Done in the acquirer's portal."},
    "operator_resolve_confirmation": {"reason": "The buyer has paid in cash."},
    "operator_replay_deliveries": {"subscription_id": "$subscription"},
    "operator_send_delivery_to": {"url": "http://127.0.0.1:9/hooks"},
    "operator_verify_delivery": {"headers": {"X-Signature": "ts=1,v1=0a1b2c"}, "body_base64": "e30="},
    "clock_move": {"advance": "1s"},
    "dev_reset": {},
    "create_scene": {},
    "operator_send_request": {},
}
"""The bodies of valid requests; values with `$` are replaced by ids of the scene."""

NEEDS_MORE = (
    "operator_set_fault",
    "operator_clear_fault",
    "operator_delete_application",
    "operator_delete_seller",
    "operator_delete_operator",
    "operator_revoke_operator",
    "operator_delete_secret",
    "operator_resolve_order",
    "operator_resolve_reversal",
    "operator_resolve_refund",
    "operator_resolve_confirmation",
    "operator_withdraw_grant",
    "operator_change_own_password",
    "operator_send_request",
)
"""These need what nothing uses, another owner, a second secret, an unknown outcome, a late approval,
a slow refund, a refused confirmation, a grant, a person or a request of an application: see other tests."""


async def _valid(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    scene, one = service.scene, await operator(service)
    known: dict[str, Any] = {"$seller": scene.seller.seller_id, "$application": scene.application.application_id}
    await service.terminal()
    if operation.name == "operator_create_pos":
        known["$store"] = (await one.did("GET", "stores?limit=1"))["data"][0]["store_id"]
    if operation.name == "operator_replay_deliveries":
        known["$subscription"] = await _subscribe(service, one)
    return Attempt(
        service,
        database,
        operation,
        one.token,
        body=_filled(VALID_BODIES[operation.name] if operation.name in VALID_BODIES else example_of(operation), known),
        query="?q=A-1" if operation.name == "operator_search" else "",
        paths=await _paths(service, operation, one),
        operator=one,
    )


def example_of(operation: Operation) -> Any:
    """Return a body of the examples of what the operation needs; None if it has no body."""
    if operation.body is None:
        return None
    properties, fields = operation.body.model_json_schema()["properties"], operation.body.model_fields
    return {name: properties[name]["examples"][0] for name, one in fields.items() if one.is_required()}


async def _paths(service: Service, operation: Operation, one: Operator) -> dict[str, str]:
    """Return path parameters of existing rows."""
    scene = service.scene
    paths = {
        "client_id": str(scene.application.application_id),
        "user_id": str(scene.seller.seller_id),
        "grant_id": f"{NO_ID}-1",
        "secret_id": NO_ID,
        "reversal_id": NO_ID,
        "refund_id": f"REF{NO_ID}",
        "operator_id": one.operator_id,
        "name": "main",
    }
    paths |= await _of_accounts(service, operation, one)
    if operation.path.startswith(("/operator/v1/stores/{", "/operator/v1/pos/{")):
        made = await one.did("POST", "stores", {"seller_id": service.seller_id, "name": "Shop"})
        paths["store_id"] = str(made["store_id"])
        if "{pos_id}" in operation.path:
            body = {
                "seller_id": service.seller_id,
                "store_id": made["store_id"],
                "external_pos_id": counted.pos_id(),
            }
            paths["pos_id"] = str((await one.did("POST", "pos", body))["pos_id"])
    if "{subscription_id}" in operation.path:
        body = {"client_id": scene.application.application_id, "url": "https://8.8.8.8/hooks"}
        paths["subscription_id"] = (await one.did("POST", "subscriptions", body))["id"]
        if "{secret_id}" in operation.path:
            added = await one.did("POST", f"subscriptions/{paths['subscription_id']}/secrets")
            paths["secret_id"] = added["id"]
    if "{terminal_id}" in operation.path:
        paths["terminal_id"] = (await service.terminal()).id
    if "{user_code}" in operation.path:
        paths["user_code"] = (await ask_to_pair(service))["user_code"]
    if "{delivery_id}" in operation.path:
        paths["delivery_id"] = await _delivery(service, one)
    if operation.name == "operator_refund_order":
        paths["order_id"] = await paid(service)
    elif "{order_id}" in operation.path:
        paths["order_id"] = (await service.create(await service.terminal())).body["id"]
    return paths


async def _of_accounts(service: Service, operation: Operation, one: Operator) -> dict[str, str]:
    """Return the ids of a grant, a person, a session and a recorded request, as far as the operation needs them."""
    if operation.name == "operator_get_grant":
        return {"grant_id": (await one.did("GET", f"grants?seller={service.seller_id}"))["data"][0]["id"]}
    if operation.name == "operator_create_password_link":
        return {"operator_id": (await _person(service)).operator_id}
    if "{session_id}" in operation.path:
        await begin_session(service, one.operator_id)
        return {"session_id": (await one.did("GET", "sessions"))["data"][0]["session_id"]}
    if "{entry_id}" in operation.path:
        entry_id = ids.ulid(service.clock.now_ms())
        await service.scene.run(RECORDED, entry_id)
        return {"entry_id": entry_id}
    return {}


async def _person(service: Service) -> Person:
    """Add an operator with an e-mail address and a password."""
    return await make_person(service, email=counted.email())


async def _subscribe(service: Service, one: Operator) -> str:
    """Subscribe the application; return the subscription's id."""
    body = {"client_id": service.scene.application.application_id, "url": "https://8.8.8.8/hooks"}
    return str((await one.did("POST", "subscriptions", body))["id"])


async def _delivery(service: Service, one: Operator) -> str:
    """Create an order with a delivery to a new subscription; return the delivery's id."""
    subscription_id = await _subscribe(service, one)
    order_id = (await service.create(await service.terminal())).body["id"]
    listed = (await one.did("GET", f"deliveries?order={order_id}&subscription={subscription_id}"))["data"]
    return str(listed[0]["id"])


def _filled(body: Any, known: dict[str, Any]) -> Any:
    if body is None:
        return None
    return {name: known.get(value, value) if isinstance(value, str) else value for name, value in body.items()}


TABLE = Table("operator", _valid, needs_more=NEEDS_MORE)
TABLE.way("too_many_terminals")(one_more)
operator_orders.register(TABLE)


@TABLE.way("forbidden")
async def _viewer(attempt: Attempt) -> Reply:
    return await attempt.send(token=(await operator(attempt.service, "viewer")).token)


@TABLE.way(
    *("clock_show/forbidden", "clock_move/forbidden", "dev_reset/forbidden"),
    *("create_scene/forbidden", "list_notifications/forbidden", "list_charges/forbidden"),
)
async def _foreign_origin(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"Origin": "https://other.example"})


@TABLE.way("gone")
async def _retired(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("minimum_items")
async def _no_redirect_uris(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "redirect_uris": []})


@TABLE.way("maximum_items")
async def _many_redirect_uris(attempt: Attempt) -> Reply:
    addresses = [f"https://kiosk.example/{number}" for number in range(200)]
    return await attempt.send(body={**attempt.body, "redirect_uris": addresses})


@TABLE.way(
    "operator_create_subscriptions/maximum_items",
    "operator_create_operator_subscription/maximum_items",
    "operator_change_subscription/maximum_items",
)
async def _many_actions(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "actions": ["order.created"] * 51})


@TABLE.way(
    *("application_not_found", "seller_not_found", "secret_not_found", "operator_not_found", "grant_not_found"),
)
async def _unknown_id(attempt: Attempt) -> Reply:
    unknown = {"client_id": UNKNOWN_NUMBER, "user_id": UNKNOWN_NUMBER, "operator_id": NO_ID, "secret_id": NO_ID}
    unknown["grant_id"] = f"{NO_ID}-{UNKNOWN_NUMBER}"
    return await attempt.at(**unknown).send()


@TABLE.way("operator_delete_secret/secret_not_found")
async def _unknown_secret(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("operator_create_codes/application_not_found", "operator_create_subscriptions/application_not_found")
async def _unknown_client(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "client_id": int(UNKNOWN_NUMBER)})


@TABLE.way("subscription_not_found")
async def _unknown_subscription(attempt: Attempt) -> Reply:
    return await attempt.at(subscription_id=UNKNOWN_UUID).send()


@TABLE.way(
    "operator_promote_subscription_secret/secret_not_found", "operator_delete_subscription_secret/secret_not_found"
)
async def _unknown_secret_of_subscription(attempt: Attempt) -> Reply:
    return await attempt.at(secret_id=UNKNOWN_NUMBER).send()


@TABLE.way("operator_delete_subscription_secret/in_use")
async def _primary_secret(attempt: Attempt) -> Reply:
    return await attempt.at(secret_id="1").send()


@TABLE.way("operator_create_codes/seller_not_found")
async def _unknown_user(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "user_id": int(UNKNOWN_NUMBER)})


@TABLE.way("operator_create_stores/seller_not_found", "operator_create_terminals/seller_not_found")
async def _unknown_seller(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "seller_id": int(UNKNOWN_NUMBER)})


@TABLE.way("operator_approve_pairing/seller_not_found")
async def _pairing_with_unknown_seller(attempt: Attempt) -> Reply:
    return await attempt.send(body={"seller_id": int(UNKNOWN_NUMBER)})


@TABLE.way("pairing_not_found")
async def _unknown_code(attempt: Attempt) -> Reply:
    return await attempt.at(user_code="BBBB-BBBB").send()


@TABLE.way("terminal_already_paired")
async def _paired_before(attempt: Attempt) -> Reply:
    codes = await ask_to_pair(attempt.service, (await attempt.service.terminal()).id)
    return await attempt.at(user_code=codes["user_code"]).send()


@TABLE.way("operator_approve_pairing/in_use")
async def _busy_terminal(attempt: Attempt) -> Reply:
    terminal = await attempt.service.terminal()
    assert (await attempt.service.create(terminal)).status == 201
    codes = await ask_to_pair(attempt.service, terminal.id)
    return await attempt.at(user_code=codes["user_code"]).send(body={**attempt.body, "replace": True})


@TABLE.way(
    "operator_change_store/store_not_found",
    "operator_delete_store/store_not_found",
    "operator_change_pos/pos_not_found",
    "operator_delete_pos/pos_not_found",
    "terminal_not_found",
)
async def _unknown_place(attempt: Attempt) -> Reply:
    unknown = {"store_id": UNKNOWN_NUMBER, "pos_id": UNKNOWN_NUMBER, "terminal_id": "NEWLAND_N950__UNKNOWN"}
    return await attempt.at(**unknown).send()


@TABLE.way("operator_delete_store/property_value", "operator_delete_pos/property_value")
async def _no_seller(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?seller=ana").send()


@TABLE.way("clock_move/in_use")
async def _clock_back_with_tokens(attempt: Attempt) -> Reply:
    return await attempt.send(body={"reset": True})


@TABLE.way("operator_delete_store/in_use")
async def _store_with_pos(attempt: Attempt) -> Reply:
    body = {"seller_id": attempt.service.seller_id, "store_id": attempt.paths["store_id"], "external_pos_id": "IN-USE"}
    await _operator(attempt).did("POST", "pos", body)
    return await attempt.send()


@TABLE.way("operator_delete_pos/in_use")
async def _pos_with_terminal(attempt: Attempt) -> Reply:
    terminal_id = (await attempt.service.terminal()).id
    await _operator(attempt).did("PATCH", f"terminals/{terminal_id}", {"pos_id": attempt.paths["pos_id"]})
    return await attempt.send()


@TABLE.way("operator_change_pos/external_pos_id_taken")
async def _id_of_another_pos(attempt: Attempt) -> Reply:
    others = (await _operator(attempt).did("GET", f"pos?seller={attempt.service.seller_id}"))["data"]
    taken = next(pos["external_pos_id"] for pos in others if str(pos["pos_id"]) != attempt.paths["pos_id"])
    return await attempt.send(body={"external_pos_id": taken})


@TABLE.way("operator_change_terminal/maximum_items")
async def _many_tips(attempt: Attempt) -> Reply:
    return await attempt.send(body={"tip_percentages": [1, 2, 3, 4, 5, 6]})


@TABLE.way("operator_change_terminal/store_not_found")
async def _to_unknown_store(attempt: Attempt) -> Reply:
    return await attempt.send(body={"store_id": int(UNKNOWN_NUMBER)})


@TABLE.way("operator_change_terminal/terminal_busy", "operator_delete_terminal/in_use")
async def _with_live_order(attempt: Attempt) -> Reply:
    terminal = Terminal(attempt.paths["terminal_id"], "")
    assert (await attempt.service.create(terminal)).status == 201
    if attempt.operation.method == "DELETE":
        return await attempt.send()
    return await attempt.send(body={"operating_mode": "STANDALONE"})


@TABLE.way("operator_change_terminal/pos_taken")
async def _to_pos_of_another(attempt: Attempt) -> Reply:
    listed = (await _operator(attempt).did("GET", f"terminals?seller={attempt.service.seller_id}"))["data"]
    other = next(
        one
        for one in listed
        if one["id"] != attempt.paths["terminal_id"] and one["operating_mode"] == "PDV" and not one["live_mode"]
    )
    return await attempt.send(body={"pos_id": other["pos_id"]})


@TABLE.way("store_not_found")
async def _unknown_store(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "store_id": int(UNKNOWN_NUMBER)})


@TABLE.way("pos_not_found")
async def _unknown_pos(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "pos_id": int(UNKNOWN_NUMBER)})


@TABLE.way("pos_taken")
async def _pos_of_another(attempt: Attempt) -> Reply:
    terminals = await _operator(attempt).did("GET", f"terminals?seller={attempt.service.seller_id}&limit=1")
    (taken,) = terminals["data"]
    return await attempt.send(body={"seller_id": taken["seller_id"], "pos_id": taken["pos_id"]})


@TABLE.way("external_pos_id_taken")
async def _twice(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status in (201, 409)
    return await attempt.send()


@TABLE.way("email_taken")
async def _email_of_another(attempt: Attempt) -> Reply:
    other = {**VALID_BODIES["operator_create_sellers"], "email": "taken@shop.example"}
    assert (await _operator(attempt).ask("POST", "sellers", other)).status in (201, 409)
    return await attempt.send(body={**attempt.body, "email": "taken@shop.example"})


@TABLE.way("operator_create_operators/email_taken", "operator_change_operator/email_taken")
async def _email_of_another_operator(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "email": (await _person(attempt.service)).email})


@TABLE.way("operator_list_sessions/forbidden", "operator_end_sessions/forbidden")
async def _sessions_of_others(attempt: Attempt) -> Reply:
    support = await operator(attempt.service, "support")
    return await replace(attempt, query="?operator=all").send(token=support.token)


@TABLE.way("operator_end_sessions/property_value")
async def _sessions_of_a_name(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?operator=ana").send()


@TABLE.way("operator_search/property_value", "operator_figures/property_value")
async def _malformed_query(attempt: Attempt) -> Reply:
    return await replace(attempt, query="?q=%00&day=x").send()


@TABLE.way("cannot_send_again")
async def _request_without_an_application(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("request_not_found")
async def _unknown_request(attempt: Attempt) -> Reply:
    return await attempt.at(entry_id=NO_ID).send()


@TABLE.way("acquirer_not_found")
async def _unknown_acquirer(attempt: Attempt) -> Reply:
    return await attempt.at(name="unknown").send()


@TABLE.way("session_not_found")
async def _unknown_session(attempt: Attempt) -> Reply:
    return await attempt.at(session_id=NO_ID).send()


@TABLE.way("operator_create_password_link/cannot_sign_in")
async def _link_for_a_program(attempt: Attempt) -> Reply:
    return await attempt.at(operator_id=_operator(attempt).operator_id).send()


@TABLE.way("cannot_sign_in")
async def _program_without_password(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("wrong_password")
async def _wrong_own_password(attempt: Attempt) -> Reply:
    token = await begin_session(attempt.service, (await _person(attempt.service)).operator_id)
    return await attempt.send(token=token, body={**attempt.body, "current_password": "wrong"})


@TABLE.way("operator_delete_application/in_use", "operator_delete_seller/in_use")
async def _with_a_grant(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("operator_delete_operator/in_use")
async def _operator_with_changes(attempt: Attempt) -> Reply:
    other = await operator(attempt.service)
    await other.did("POST", "operators", VALID_BODIES["operator_create_operators"])
    return await attempt.at(operator_id=other.operator_id).send()


@TABLE.way("last_owner")
async def _last_owner(attempt: Attempt) -> Reply:
    one = _operator(attempt)
    await attempt.service.scene.run("UPDATE operators SET revoked_ms = 1 WHERE operator_id <> $1", one.operator_id)
    body = {"role": "support"} if attempt.operation.method == "PATCH" else None
    return await attempt.at(operator_id=one.operator_id).send(body=body)


@TABLE.way("too_many_secrets")
async def _secrets(attempt: Attempt) -> Reply:
    for _ in range(10):
        reply = await attempt.send()
        if reply.status != 201:
            break
    return reply


@TABLE.way(
    *(
        f"{name}/order_not_found"
        for name in ("inspect_order", "operator_resolve_order", "operator_resolve_confirmation", *operator_orders.NAMES)
    ),
)
async def _unknown_order(attempt: Attempt) -> Reply:
    return await attempt.at(order_id=f"ORD{NO_ID}").send()


@TABLE.way("cannot_resolve_order", "cannot_resolve_confirmation")
async def _order_without_unknown_outcome(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("reversal_not_found", "refund_not_found")
async def _unknown_reversal(attempt: Attempt) -> Reply:
    return await attempt.send()


@TABLE.way("cannot_resolve_reversal")
async def _recent_late_approval(attempt: Attempt) -> Reply:
    service = attempt.service
    device = await service.device(await service.terminal())
    order_id = (await service.create(device.terminal)).body["id"]
    assert (await service.cancel(order_id)).status == 200
    assert (await device.approve(order_id[3:])).code == "order_finished"
    reversals = (await _operator(attempt).did("GET", "reversals"))["data"]
    return await attempt.at(reversal_id=reversals[0]["id"]).send()


@TABLE.way("cannot_resolve_refund")
async def _recent_refund(attempt: Attempt) -> Reply:
    order_id = await paid(attempt.service)
    await refund(attempt.service, order_id)
    refunds = (await _operator(attempt).did("GET", "refunds"))["data"]
    return await attempt.at(refund_id=refunds[0]["id"]).send()


@TABLE.way("operator_list_deliveries/order_not_found")
async def _deliveries_of_unknown_order(attempt: Attempt) -> Reply:
    return await replace(attempt, query=f"?order=ORD{NO_ID}").send()


def _operator(attempt: Attempt) -> Operator:
    assert attempt.operator is not None
    return attempt.operator


@TABLE.way("operator_release_terminal/cannot_release_terminal")
async def _permitted(attempt: Attempt) -> Reply:
    service = attempt.service
    terminal = await service.terminal()
    device = await service.device(terminal)
    lease_id = (await service.create(terminal)).body["id"][3:]
    assert (await device.ack(lease_id)).status == 200
    assert (await device.authorizing(lease_id)).status == 200
    return await attempt.at(terminal_id=terminal.id).send()


@TABLE.way("delivery_not_found")
async def _unknown_delivery(attempt: Attempt) -> Reply:
    return await attempt.at(delivery_id=f"{UNKNOWN_UUID}.{UNKNOWN_UUID}").send()


@TABLE.way("operator_resend_delivery/subscription_paused")
async def _delivery_to_paused_subscription(attempt: Attempt) -> Reply:
    subscription_id = attempt.paths["delivery_id"].partition(".")[2]
    await attempt.service.scene.run(
        "UPDATE subscriptions SET paused_ms = 1, paused_by = 'operator' WHERE subscription_id = $1", subscription_id
    )
    return await attempt.send()


@TABLE.way("operator_resend_delivery/subscription_ended", "operator_send_delivery_to/subscription_ended")
async def _delivery_to_deleted_subscription(attempt: Attempt) -> Reply:
    await _delete_subscription(attempt, attempt.paths["delivery_id"].partition(".")[2])
    return await attempt.send()


@TABLE.way("operator_replay_deliveries/subscription_ended")
async def _replay_to_deleted_subscription(attempt: Attempt) -> Reply:
    await _delete_subscription(attempt, attempt.body["subscription_id"])
    return await attempt.send()


@TABLE.way("operator_replay_deliveries/subscription_not_found")
async def _replay_to_unknown_subscription(attempt: Attempt) -> Reply:
    return await attempt.send(body={"subscription_id": UNKNOWN_UUID})


@TABLE.way("operator_replay_deliveries/order_not_found")
async def _replay_of_unknown_order(attempt: Attempt) -> Reply:
    return await attempt.send(body={"order": f"ORD{NO_ID}"})


async def _delete_subscription(attempt: Attempt, subscription_id: str) -> None:
    await attempt.service.scene.run(
        "UPDATE subscriptions SET deleted_ms = 1 WHERE subscription_id = $1", subscription_id
    )
