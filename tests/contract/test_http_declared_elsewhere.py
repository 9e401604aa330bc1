"""Every error that an operation for terminals or operators declares is reached over HTTP: a new one needs a way.

What applications are refused is in `test_http_declared_errors.py`, in the same manner.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import structlog

from faulty_database import FaultyDatabase
from operator_calls import Operator, operator
from paydesk.api import OPERATIONS
from paydesk.clock import MovableClock
from paydesk.errors import ErrorKind
from paydesk.http.openapi import errors_in_order
from paydesk.http.shared import takes_body
from paydesk.operation import Operation
from paydesk.settings import Settings
from paydesk.storage.database import Database, Unavailable
from raw_http import exchange, head
from service import Device, Reply, Service, running

FAILURES = 200
SETTINGS = Settings(body_timeout_seconds=1, bearer_failures_per_minute=FAILURES)
NOBODY, NO_LEASE = "999999999999", "01J67CQQH5904WDBVZEM4JMEP3"


@dataclass(frozen=True)
class Attempt:
    """A request for an operation, good until a way spoils it."""

    service: Service
    database: FaultyDatabase
    operation: Operation
    token: str
    path: str
    body: Any = None
    query: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    operator: Operator | None = None
    device: Device | None = None

    async def send(
        self, *, body: Any = None, data: bytes | None = None, token: str | None = "", **options: Any
    ) -> Reply:
        """Send it, with other parts than the good ones where they are given."""
        if data is None and takes_body(self.operation):
            data = json.dumps(self.body if body is None else body).encode()
        sent = self.token if token == "" else token
        path = self.path + self.query
        return await self.service.request(self.operation.method, path, data=data, token=sent, key=None, **options)

    async def send_raw(self, *fields: str, host: str = "localhost", body: bytes = b"") -> Reply:
        """Send it on a bare connection, with further header fields."""
        request = head(
            self.operation.method, self.path + self.query, f"Authorization: Bearer {self.token}", *fields, host=host
        )
        return await exchange(self.service, request + body)

    def at(self, **paths: str) -> Attempt:
        """The same with other parameters in its path."""
        return replace(self, path=self.operation.path.format(**{**self.paths, **paths}))


Way = Callable[[Attempt], Awaitable[Reply]]
WAYS: dict[str, Way] = {}


def way(*names: str) -> Callable[[Way], Way]:
    """Registers the way to an error: by its code, or by `operation/code` where it is one operation's own."""

    def register(function: Way) -> Way:
        WAYS.update(dict.fromkeys(names, function))
        return function

    return register


GOOD: dict[str, Any] = {
    "operator_create_applications": {"name": "Kiosk", "redirect_uris": ["https://kiosk.example/callback"]},
    "operator_change_application": {"name": "Kiosk"},
    "operator_create_secret": {},
    "operator_create_sellers": {"email": "bia@shop.example", "name": "Bia", "country": "BRA", "currency": "BRL"},
    "operator_change_seller": {"name": "Bia"},
    "operator_password_seller": {},
    "operator_create_operators": {"name": "Eva", "role": "support"},
    "operator_create_stores": {"seller_id": "$seller", "name": "Main street"},
    "operator_create_pos": {"seller_id": "$seller", "store_id": "$store", "external_pos_id": "TILL2"},
    "operator_create_terminals": {},
    "operator_create_subscriptions": {"client_id": "$application", "url": "https://8.8.8.8/hooks"},
    "operator_create_codes": {"client_id": "$application", "user_id": "$seller"},
    "operator_resolve_order": {"outcome": "declined", "reason": "Not in the acquirer's portal."},
    "clock_move": {"advance": "1s"},
    "device_hello": {"boot_id": "$boot", "app_version": "1", "journal": []},
    "device_acknowledge": {"boot_id": "$boot"},
    "device_progress": {"boot_id": "$boot", "seq": 1, "step": "card_requested"},
    "device_cancel_result": {"boot_id": "$boot", "done": True},
    "device_result": {"boot_id": "$boot", "outcome": "declined", "status_detail": "insufficient_amount"},
}
"""The bodies of good requests; what begins with `$` is known only once the scene is there."""

ELSEWHERE = [
    operation
    for operation in OPERATIONS
    if operation.surface in ("device", "operator") and not operation.path.startswith("/virtual/")
]
FIRST = ("request_timeout", "unauthorized", "too_many_requests")
"""What is asked of all operations at once: one takes a second, one counts failures, one exhausts them."""


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_every_declared_error_is_reached(database: Database) -> None:
    """Each of each operation by a request of its own, with its status and its code."""
    faulty = FaultyDatabase(database)
    clock = MovableClock()
    async with running(faulty, settings=SETTINGS, workers=False, development=True, clock=clock) as service:
        service.scene.clock = clock
        one = await operator(service)
        base = [await _good(service, faulty, operation, one) for operation in ELSEWHERE]
        for code in FIRST:
            await asyncio.gather(*[_reach(attempt, kind) for attempt, kind in _declared(base) if kind.code == code])
        for operation in ELSEWHERE:
            for kind in errors_in_order(operation):
                if kind.code not in FIRST:
                    await _reach(await _good(service, faulty, operation, one), kind)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_what_is_spoiled_was_good(database: Database) -> None:
    """The requests that the ways begin with succeed, so each error has the one cause that its way gives it."""
    async with running(database, workers=False, development=True, clock=MovableClock()) as service:
        for operation in ELSEWHERE:
            if operation.name not in NEEDS_MORE:
                attempt = await _good(service, FaultyDatabase(database), operation, await operator(service))
                reply = await attempt.send()
                assert reply.status in (operation.status, *operation.further_statuses), (operation.name, reply.body)


NEEDS_MORE = (
    "device_cancel_result",
    "operator_create_terminals",
    "operator_delete_secret",
    "operator_resolve_order",
    "operator_withdraw_grant",
)
"""A cancel that was asked for, the process that plays terminals, a second secret, an unknown outcome, a grant: others'
tests have them."""


def _declared(attempts: list[Attempt]) -> Iterator[tuple[Attempt, ErrorKind]]:
    for attempt in attempts:
        for kind in errors_in_order(attempt.operation):
            yield attempt, kind


async def _reach(attempt: Attempt, kind: ErrorKind) -> None:
    name = attempt.operation.name
    way = WAYS.get(f"{name}/{kind.code}") or WAYS.get(kind.code)
    assert way is not None, f"no test reaches {kind.code} of {name}"
    reply = await way(attempt)
    codes = {error["code"] for error in reply.body["errors"]} if "errors" in reply.body else {reply.body["error"]}
    assert (reply.status, kind.code in codes) == (kind.status, True), (name, kind.code, reply.status, reply.body)
    assert reply.headers["x-request-id"]


async def _good(service: Service, database: FaultyDatabase, operation: Operation, one: Operator) -> Attempt:
    terminal = await service.terminal()
    attempt = Attempt(service, database, operation, one.token, operation.path, operator=one)
    if operation.surface == "device":
        device = await service.device(terminal)
        lease_id = (await service.create(terminal)).body["id"][3:]
        if operation.name not in ("device_hello", "device_next", "device_acknowledge"):
            assert (await device.ack(lease_id)).status == 200
        attempt = replace(
            attempt,
            token=terminal.token,
            device=device,
            paths={"lease_id": lease_id, "result_id": str(uuid.uuid4())},
            query=f"?boot_id={device.boot_id}&wait=0" if operation.name == "device_next" else "",
        )
        known: dict[str, Any] = {"$boot": device.boot_id}
    else:
        scene = service.scene
        known = {"$seller": scene.seller.seller_id, "$application": scene.application.application_id}
        if operation.name == "operator_create_pos":
            known["$store"] = (await one.did("GET", "stores?limit=1"))["data"][0]["store_id"]
        attempt = replace(attempt, paths=await _paths(service, operation, one))
    return replace(attempt.at(), body=_filled(GOOD.get(operation.name), known))


async def _paths(service: Service, operation: Operation, one: Operator) -> dict[str, str]:
    """Parameters of a path that leads somewhere."""
    scene = service.scene
    paths = {
        "client_id": str(scene.application.application_id),
        "user_id": str(scene.seller.seller_id),
        "grant_id": f"{NO_LEASE}-1",
        "secret_id": NO_LEASE,
        "operator_id": one.operator_id,
    }
    if "{order_id}" in operation.path:
        paths["order_id"] = (await service.create(await service.terminal())).body["id"]
    return paths


def _filled(body: Any, known: dict[str, Any]) -> Any:
    if body is None:
        return None
    return {name: known.get(value, value) if isinstance(value, str) else value for name, value in body.items()}


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
    return await attempt.send(data=b"{}", headers={"Content-Type": "text/plain"})


@way("unsupported_header")
async def _sandbox_header(attempt: Attempt) -> Reply:
    return await attempt.send(headers={"x-test-scope": "sandbox"})


@way("unauthorized")
async def _no_token(attempt: Attempt) -> Reply:
    return await attempt.send(token=None)


@way("too_many_requests")
async def _guessed_tokens(attempt: Attempt) -> Reply:
    for _ in range(FAILURES + 1):
        reply = await attempt.send(token=f"PDO-{uuid.uuid4()}")
        if reply.status == 429:
            break
        assert reply.status == 401
    return reply


@way("forbidden")
async def _who_only_reads(attempt: Attempt) -> Reply:
    if attempt.operation.development:
        return await attempt.send(headers={"Origin": "https://elsewhere.example"})
    return await attempt.send(token=(await operator(attempt.service, "support")).token)


@way("invalid_path_param")
async def _long_id(attempt: Attempt) -> Reply:
    return await attempt.at(**dict.fromkeys(attempt.paths, "1" * 201)).send()


@way("json_syntax_error")
async def _half_an_object(attempt: Attempt) -> Reply:
    return await attempt.send(data=b"{")


@way("required_properties")
async def _another_field(attempt: Attempt) -> Reply:
    return await attempt.send(body={"zzz": 1})


@way("unsupported_properties")
async def _unknown_field(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "zzz": 1})


@way("property_type")
async def _array(attempt: Attempt) -> Reply:
    return await attempt.send(body=["not an object"])


@way("property_value")
async def _control_character(attempt: Attempt) -> Reply:
    if attempt.operation.method == "GET":
        wrong = "&wait=99" if attempt.query else "?limit=0"
        return await replace(attempt, query=attempt.query.replace("&wait=0", "") + wrong).send()
    return await attempt.send(body={"zzz": "\n", **attempt.body})


@way("minimum_properties")
async def _empty_object(attempt: Attempt) -> Reply:
    return await attempt.send(data=b"{}")


@way("minimum_items")
async def _no_addresses(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "redirect_uris": []})


@way("maximum_items")
async def _many_addresses(attempt: Attempt) -> Reply:
    addresses = [f"https://kiosk.example/{number}" for number in range(200)]
    return await attempt.send(body={**attempt.body, "redirect_uris": addresses})


@way("operator_create_subscriptions/maximum_items")
async def _many_actions(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "actions": ["order.created"] * 21})


@way("device_hello/maximum_items")
async def _long_journal(attempt: Attempt) -> Reply:
    entry = {"lease_id": NO_LEASE}
    return await attempt.send(body={**attempt.body, "journal": [entry] * 1000})


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


@way("application_not_found", "seller_not_found", "secret_not_found", "operator_not_found", "grant_not_found")
async def _unknown_id(attempt: Attempt) -> Reply:
    unknown = {"client_id": NOBODY, "user_id": NOBODY, "operator_id": NO_LEASE, "secret_id": NO_LEASE}
    return await attempt.at(**unknown).send()


@way("operator_delete_secret/secret_not_found")
async def _unknown_secret(attempt: Attempt) -> Reply:
    return await attempt.send()


@way("operator_create_codes/application_not_found", "operator_create_subscriptions/application_not_found")
async def _unknown_client(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "client_id": int(NOBODY)})


@way("operator_create_codes/seller_not_found")
async def _unknown_user(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "user_id": int(NOBODY)})


@way("operator_create_stores/seller_not_found", "operator_create_terminals/seller_not_found")
async def _unknown_seller(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "seller_id": int(NOBODY)})


@way("store_not_found")
async def _unknown_store(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "store_id": int(NOBODY)})


@way("pos_not_found")
async def _unknown_pos(attempt: Attempt) -> Reply:
    return await attempt.send(body={"pos_id": int(NOBODY)})


@way("pos_taken")
async def _pos_of_another(attempt: Attempt) -> Reply:
    terminals = await _operator(attempt).did("GET", f"terminals?seller={attempt.service.seller_id}&limit=1")
    (taken,) = terminals["data"]
    return await attempt.send(body={"seller_id": taken["seller_id"], "pos_id": taken["pos_id"]})


@way("external_pos_id_taken")
async def _twice(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status in (201, 409)
    return await attempt.send()


@way("email_taken")
async def _email_of_another(attempt: Attempt) -> Reply:
    other = {**GOOD["operator_create_sellers"], "email": "taken@shop.example"}
    assert (await _operator(attempt).ask("POST", "sellers", other)).status in (201, 409)
    return await attempt.send(body={**attempt.body, "email": "taken@shop.example"})


@way("too_many_secrets")
async def _secrets(attempt: Attempt) -> Reply:
    for _ in range(10):
        reply = await attempt.send()
        if reply.status != 201:
            break
    return reply


@way("inspect_order/order_not_found", "operator_resolve_order/order_not_found")
async def _unknown_order(attempt: Attempt) -> Reply:
    return await attempt.at(order_id=f"ORD{NO_LEASE}").send()


@way("cannot_resolve_order")
async def _outcome_that_is_to_come(attempt: Attempt) -> Reply:
    return await attempt.send()


@way("operator_list_deliveries/order_not_found")
async def _deliveries_of_no_order(attempt: Attempt) -> Reply:
    return await replace(attempt, query=f"?order=ORD{NO_LEASE}").send()


@way("stale_session")
async def _earlier_start(attempt: Attempt) -> Reply:
    if attempt.operation.name == "device_next":
        return await replace(attempt, query=f"?boot_id={uuid.uuid4()}&wait=0").send()
    if attempt.operation.name == "device_hello":
        assert (await attempt.send(body={**attempt.body, "boot_id": str(uuid.uuid4())})).status == 200
        return await attempt.send()
    return await attempt.send(body={**attempt.body, "boot_id": str(uuid.uuid4())})


@way("lease_not_found")
async def _no_lease(attempt: Attempt) -> Reply:
    return await attempt.at(lease_id=NO_LEASE).send()


@way("device_acknowledge/order_canceled")
async def _canceled_before(attempt: Attempt) -> Reply:
    assert (await attempt.service.cancel(_order_of(attempt))).status == 200
    return await attempt.send()


@way("device_progress/order_canceled")
async def _asked_back(attempt: Attempt) -> Reply:
    asking = {"X-Allow-Cancelable-Status": "at_terminal"}
    assert (await attempt.service.cancel(_order_of(attempt), headers=asking)).status == 202
    return await attempt.send(body={**attempt.body, "step": "authorizing"})


@way("device_acknowledge/order_finished")
async def _paid(attempt: Attempt) -> Reply:
    assert (await attempt.send()).status == 200
    await _approve(attempt)
    return await attempt.send()


@way("cancel_not_requested")
async def _unasked(attempt: Attempt) -> Reply:
    return await attempt.send()


@way("order_granted")
async def _given_back_after_the_grant(attempt: Attempt) -> Reply:
    assert (await _device(attempt).authorizing(attempt.paths["lease_id"])).status == 200
    return await attempt.send()


@way("order_not_granted")
async def _kept_before_the_grant(attempt: Attempt) -> Reply:
    asking = {"X-Allow-Cancelable-Status": "at_terminal"}
    assert (await attempt.service.cancel(_order_of(attempt), headers=asking)).status == 202
    return await attempt.send(body={**attempt.body, "done": False})


@way("result_conflict")
async def _unreadable(attempt: Attempt) -> Reply:
    return await attempt.send(body={**attempt.body, "outcome": "a bird"})


@way("device_result/order_finished")
async def _another_result(attempt: Attempt) -> Reply:
    await _approve(attempt)
    return await attempt.send()


async def _approve(attempt: Attempt) -> None:
    device, lease_id = _device(attempt), attempt.paths["lease_id"]
    assert (await device.authorizing(lease_id)).status == 200
    assert (await device.approve(lease_id)).status == 200


def _operator(attempt: Attempt) -> Operator:
    assert attempt.operator is not None
    return attempt.operator


def _device(attempt: Attempt) -> Device:
    assert attempt.device is not None
    return attempt.device


def _order_of(attempt: Attempt) -> str:
    return f"ORD{attempt.paths['lease_id']}"
