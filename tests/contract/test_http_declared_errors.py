"""Every error that an operation for applications declares is reached over HTTP: a new one without a way fails here."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import structlog

from faulty_database import FaultyDatabase
from parties import other_seller, with_scope
from paydesk.api import OPERATIONS
from paydesk.http.openapi import errors_in_order
from paydesk.http.shared import takes_body
from paydesk.operation import Operation
from paydesk.settings import Settings
from paydesk.storage.database import Database, Locked, Unavailable
from raw_http import exchange, head
from refund_scene import DECLINED, UNHEARD, only, paid, part_of, refund
from service import Reply, Service, order_body, running

APPLICATION = [operation for operation in OPERATIONS if operation.surface == "application"]
FAILURES = 5
SETTINGS = Settings(body_timeout_seconds=1, bearer_failures_per_minute=FAILURES)
UNKNOWN_ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"


@dataclass(frozen=True)
class Attempt:
    """A request for an operation, good until a way spoils it."""

    service: Service
    database: FaultyDatabase
    operation: Operation
    path: str
    body: Any = None

    async def send(self, *, body: Any = None, data: bytes | None = None, **options: Any) -> Reply:
        """Send it, with other parts than the good ones where they are given."""
        if data is None and takes_body(self.operation):
            data = json.dumps(self.body if body is None else body).encode()
        return await self.service.request(self.operation.method, self.path, data=data, **options)

    async def send_raw(self, *fields: str, host: str = "localhost", body: bytes = b"") -> Reply:
        """Send it on a bare connection, with further header fields."""
        authorization = f"Authorization: Bearer {self.service.access_token}"
        request = head(self.operation.method, self.path, authorization, *fields, host=host)
        return await exchange(self.service, request + body)


Way = Callable[[Attempt], Awaitable[Reply]]
WAYS: dict[str, Way] = {}


def way(*names: str) -> Callable[[Way], Way]:
    """Registers the way to an error: by its code, or by `operation/code` where it is one operation's own."""

    def register(function: Way) -> Way:
        WAYS.update(dict.fromkeys(names, function))
        return function

    return register


@pytest.mark.parametrize("operation", APPLICATION, ids=lambda operation: operation.name)
async def test_every_declared_error_is_reached(database: Database, operation: Operation) -> None:
    """Each by a request of its own, with its status and its code."""
    faulty = FaultyDatabase(database)
    async with running(faulty, settings=SETTINGS, workers=False) as service:
        for kind in errors_in_order(operation):
            way = WAYS.get(f"{operation.name}/{kind.code}") or WAYS.get(kind.code)
            assert way is not None, f"no test reaches {kind.code} of {operation.name}"
            reply = await way(await _good(service, faulty, operation))
            assert (reply.status, reply.code) == (kind.status, kind.code), f"{kind.code} of {operation.name}"
            assert reply.headers["x-request-id"]
            assert set(reply.body) - {"code"} == {"errors", "error", "message", "status"}


@pytest.mark.parametrize("operation", APPLICATION, ids=lambda operation: operation.name)
async def test_what_is_spoiled_was_good(service: Service, operation: Operation) -> None:
    """The requests that the ways begin with succeed, so each error has the one cause that its way gives it."""
    attempt = await _good(service, FaultyDatabase(service.database), operation)
    assert (await attempt.send()).status == operation.status


async def _good(service: Service, database: FaultyDatabase, operation: Operation) -> Attempt:
    terminal = await service.terminal()
    attempt = Attempt(service, database, operation, operation.path)
    if operation.name == "create_order":
        return replace(attempt, body=order_body(terminal.id))
    if operation.name == "setup_terminals":
        return replace(attempt, body={"terminals": [{"id": terminal.id, "operating_mode": "STANDALONE"}]})
    if operation.name == "refund_order":
        order_id = await paid(service)
        return replace(attempt, path=operation.path.replace("{order_id}", order_id), body=part_of(order_id, "5.00"))
    if operation.name == "simulate_order":
        order_id = (await service.create(terminal)).body["id"]
        return replace(attempt, path=f"/v1/orders/{order_id}/events", body={"status": "canceled"})
    if "{order_id}" in operation.path:
        order_id = (await service.create(terminal)).body["id"]
        return replace(attempt, path=operation.path.replace("{order_id}", order_id), body={})
    return attempt


@way("bad_request")
async def _two_hosts(attempt: Attempt) -> Reply:
    return await attempt.send_raw("Host: localhost")


@way("misdirected_request")
async def _other_host(attempt: Attempt) -> Reply:
    return await attempt.send_raw(host="elsewhere.example")


@way("payload_too_large")
async def _large_body(attempt: Attempt) -> Reply:
    return await attempt.send(data=b" " * (64 * 1024 + 1))


@way("request_timeout")
async def _slow_body(attempt: Attempt) -> Reply:
    return await attempt.send_raw("Content-Length: 10", body=b"{")


@way("unsupported_media_type")
async def _text(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"Content-Type": "text/plain"})


@way("unsupported_header")
async def _sandbox_header(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"x-test-scope": "sandbox"})


@way("unauthorized")
async def _no_token(attempt: Attempt) -> Reply:
    return await attempt.send(token=None)


@way("forbidden")
async def _suspended_seller(attempt: Attempt) -> Reply:
    stranger = await other_seller(attempt.service)
    await stranger.scene.run("UPDATE sellers SET suspended_ms = 1 WHERE seller_id = $1", stranger.seller_id)
    return await attempt.send(token=stranger.access_token)


@way("too_many_requests")
async def _guessed_token(attempt: Attempt) -> Reply:
    for _ in range(FAILURES):
        reply = await attempt.send(token=f"APP_USR-{uuid.uuid4()}")
        assert reply.status in (401, 429)
    return await attempt.send(token=None)


@way("insufficient_scope")
async def _other_scope(attempt: Attempt) -> Reply:
    other = "read" if attempt.operation.scope == "write" else "write"
    return await attempt.send(token=await with_scope(attempt.service, other))


@way("empty_required_header")
async def _no_key(attempt: Attempt) -> Reply:
    return await attempt.send(key=None)


@way("invalid_idempotency_key_length")
async def _long_key(attempt: Attempt) -> Reply:
    return await attempt.send(key="k" * 65)


@way("invalid_path_param")
async def _malformed_id(attempt: Attempt) -> Reply:
    return await replace(attempt, path=attempt.operation.path.replace("{order_id}", "ORD1")).send()


@way("json_syntax_error")
async def _half_an_object(attempt: Attempt) -> Reply:
    return await attempt.send(data=b"{")


@way("required_properties")
async def _one_field(attempt: Attempt) -> Reply:
    fields: dict[str, Any] = {
        "create_order": {"type": "point"},
        "setup_terminals": {"terminals": [{"operating_mode": "PDV"}]},
        "refund_order": {"transactions": [{"amount": "5.00"}]},
        "simulate_order": {"status_detail": "expired"},
    }
    return await attempt.send(body=fields[attempt.operation.name])


@way("unsupported_properties")
async def _unknown_field(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "zzz": 1})


@way("property_type")
async def _array(attempt: Attempt) -> Reply:
    return await attempt.send(body=["not an object"])


@way("property_value")
async def _control_character(attempt: Attempt) -> Reply:
    return await attempt.send(body={"zzz": "\n", **attempt.body})


@way("list_terminals/property_value")
async def _limit_of_zero(attempt: Attempt) -> Reply:
    return await replace(attempt, path=f"{attempt.path}?limit=0").send()


@way("search_orders/property_value")
async def _unknown_status(attempt: Attempt) -> Reply:
    return await replace(attempt, path=f"{attempt.path}?status=open").send()


@way("search_orders/unsupported_properties")
async def _unknown_parameter(attempt: Attempt) -> Reply:
    return await replace(attempt, path=f"{attempt.path}?surprise=1").send()


@way("read_events/property_value")
async def _no_cursor(attempt: Attempt) -> Reply:
    return await replace(attempt, path=f"{attempt.path}?after=1").send()


@way("events_no_longer_kept")
async def _cursor_of_last_month(attempt: Attempt) -> Reply:
    begin = (await attempt.send()).body["next"]
    await attempt.service.create(await attempt.service.terminal())
    assert len((await attempt.send()).body["data"]) == 1
    await attempt.service.scene.run("UPDATE event_counters SET first_number = 2")
    return await replace(attempt, path=f"{attempt.path}?after={begin}").send()


@way("minimum_items")
async def _no_items(attempt: Attempt) -> Reply:
    spoiled: dict[str, Any] = {
        "create_order": {"transactions": {"payments": []}},
        "setup_terminals": {"terminals": []},
        "refund_order": {"transactions": []},
    }
    return await attempt.send(body={**attempt.body, **spoiled[attempt.operation.name]})


@way("maximum_items")
async def _many_items(attempt: Attempt) -> Reply:
    mode = {"id": "T", "operating_mode": "PDV"}
    part = {"id": f"PAY{UNKNOWN_ORDER[3:]}", "amount": "1"}
    spoiled: dict[str, Any] = {
        "create_order": {"transactions": {"payments": [{"amount": "1"}] * 2}},
        "setup_terminals": {"terminals": [mode] * 51},
        "refund_order": {"transactions": [part] * 2},
    }
    return await attempt.send(body={**attempt.body, **spoiled[attempt.operation.name]})


@way("refund_order/minimum_properties")
async def _empty_part(attempt: Attempt) -> Reply:
    return await attempt.send(body={"transactions": [{}]})


@way("minimum_properties")
async def _empty_object(attempt: Attempt) -> Reply:
    return await attempt.send(data=b"{}")


@way("idempotency_key_already_used")
async def _key_of_another_request(attempt: Attempt) -> Reply:
    key = str(uuid.uuid4())
    assert (await attempt.send(key=key)).status == attempt.operation.status
    if attempt.operation.headers:
        return await attempt.send(key=key, headers={attempt.operation.headers[0].name: "at_terminal"})
    other = {} if attempt.operation.name == "refund_order" else {**attempt.body, "description": "another"}
    return await attempt.send(key=key, body=other)


@way("resource_locked")
async def _locked_row(attempt: Attempt) -> Reply:
    return await _with_fault(attempt, Locked("a row stayed locked"))


@way("internal_error")
async def _defect(attempt: Attempt) -> Reply:
    with structlog.testing.capture_logs() as logged:
        reply = await _with_fault(attempt, RuntimeError("s3cret of the inside"))
    assert [line["event"] for line in logged if line["log_level"] == "error"] == ["defect"]
    assert b"s3cret" not in reply.raw
    return reply


@way("service_unavailable")
async def _database_away(attempt: Attempt) -> Reply:
    return await _with_fault(attempt, Unavailable("away"))


async def _with_fault(attempt: Attempt, fault: Exception) -> Reply:
    attempt.database.fault = fault
    try:
        return await attempt.send()
    finally:
        attempt.database.fault = None


@way("order_not_found")
async def _unknown_order(attempt: Attempt) -> Reply:
    return await replace(attempt, path=attempt.operation.path.replace("{order_id}", UNKNOWN_ORDER)).send()


@way("forbidden_checking_terminal_owner")
async def _unknown_terminal(attempt: Attempt) -> Reply:
    return await attempt.send(body=order_body("NEWLAND_N950__NOWHERE"))


@way("terminal_not_in_pdv_mode")
async def _standalone_terminal(attempt: Attempt) -> Reply:
    return await attempt.send(body=order_body((await attempt.service.terminal(mode="STANDALONE")).id))


@way("already_queued_order_on_terminal")
async def _queued(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 201
    return await attempt.send()


@way("order_already_canceled")
async def _canceled(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 200
    return await attempt.send()


@way("cannot_cancel_order")
async def _at_terminal(attempt: Attempt) -> Reply:
    terminal = await attempt.service.terminal()
    device = await attempt.service.device(terminal)
    order_id = (await attempt.service.create(terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    return await replace(attempt, path=f"/v1/orders/{order_id}/cancel").send()


@way("transaction_not_found")
async def _payment_of_another_order(attempt: Attempt) -> Reply:
    return await attempt.send(body=part_of(UNKNOWN_ORDER, "1.00"))


@way("order_already_refunded")
async def _refunded(attempt: Attempt) -> Reply:
    assert (await attempt.send(body={})).status == 201
    return await attempt.send()


@way("cannot_refund_order")
async def _declined_by_the_acquirer(attempt: Attempt) -> Reply:
    order_id = await paid(attempt.service, DECLINED)
    return await replace(attempt, path=f"/v1/orders/{order_id}/refund").send(body={})


@way("refund_period_exceeded")
async def _paid_long_ago(attempt: Attempt) -> Reply:
    await _change_order(attempt, "paid_ms = 1")
    return await attempt.send()


@way("partial_refund_forbidden_with_tips")
async def _part_of_a_tip(attempt: Attempt) -> Reply:
    await _change_order(attempt, "tip_minor = 100")
    return await attempt.send()


@way("refund_amount_exceeds")
async def _too_much(attempt: Attempt) -> Reply:
    return await attempt.send(body=part_of(f"ORD{attempt.body['transactions'][0]['id'][3:]}", "24.91"))


@way("refund_in_progress")
async def _beside_another(attempt: Attempt) -> Reply:
    order_id = await paid(attempt.service, UNHEARD)
    assert only(await refund(attempt.service, order_id, "1.00"))["status"] == "processing"
    return await refund(attempt.service, order_id)


async def _change_order(attempt: Attempt, change: str) -> None:
    sql = f"UPDATE orders SET {change} WHERE seller_id = $1 AND order_id = $2"
    await attempt.service.scene.run(sql, attempt.service.seller_id, attempt.path.split("/")[3])


@way("terminal_not_found")
async def _other_sellers_terminal(attempt: Attempt) -> Reply:
    stranger = await other_seller(attempt.service)
    return await attempt.send(token=stranger.access_token)


@way("terminal_busy")
async def _terminal_with_an_order(attempt: Attempt) -> Reply:
    assert (await attempt.service.request("POST", "/v1/orders", order_body(_terminal_of(attempt)))).status == 201
    return await attempt.send()


@way("precondition_failed")
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
