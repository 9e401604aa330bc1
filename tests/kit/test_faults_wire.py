"""Faults of tills and terminals, over real sockets: what the sender gets, and what has taken effect."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from faulty_database import FaultyDatabase
from paydesk.core import faults
from paydesk.platform.storage.database import Database, Unavailable
from paydesk_dev.faults.active import Active, Faults
from paydesk_dev.wire.wire import Wire
from raw_http import head, wire
from service import Device, Service, Terminal, order_body, running
from tables import each
from waiting import until

pytestmark = pytest.mark.on_postgres


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """The service for development, without virtual terminals."""
    async with running(database, development=True, workers=False) as service:
        yield service


def fault(service: Service, line: str) -> Active:
    """Add a fault."""
    return service.shared.objects[Faults].add(faults.parse(line), 0)


async def fired(service: Service, active: Active, count: int = 1) -> None:
    """Return once the fault has fired this number of times."""
    assert await service.shared.objects[Faults].until(lambda: active.fired >= count, 30)


class Lost(Exception):
    """No whole answer came."""


async def ask(
    service: Service,
    method: str = "POST",
    path: str = "/v1/orders",
    body: Any = None,
    *,
    token: str = "",
    key: str = "k1",
    headers: dict[str, str] | None = None,
) -> tuple[int, Any, Any]:
    """Send a request on a connection of its own; return status, body and headers. Raises `Lost`."""
    sent = {"Authorization": f"Bearer {token or service.access_token}", **(headers or {})}
    if method == "POST":
        sent["X-Idempotency-Key"] = key
    connector = aiohttp.TCPConnector(force_close=True)
    try:
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, service.base_url + path, json=body, headers=sent) as answer,
        ):
            raw = await answer.read()
            try:
                return answer.status, json.loads(raw) if raw else None, answer.headers
            except ValueError:
                return answer.status, raw, answer.headers
    except (aiohttp.ClientPayloadError, ConnectionResetError, aiohttp.ServerDisconnectedError) as error:
        raise Lost(type(error).__name__) from error
    except aiohttp.ClientOSError as error:
        raise Lost("reset") from error


async def orders(service: Service) -> list[dict[str, Any]]:
    """Return all orders, without a fault."""
    reply = await service.request("GET", "/v1/orders")
    found: list[dict[str, Any]] = reply.body["data"]
    return found


async def create(service: Service, terminal: Terminal, **options: Any) -> tuple[int, Any, Any]:
    """Create an order."""
    return await ask(service, body=order_body(terminal.id), **options)


async def test_reset_has_no_effect_and_answer_lost_has_one(service: Service) -> None:
    """Both break the connection; the same key then returns the one order."""
    terminal = await service.terminal()
    reset = fault(service, "till create_order reset")
    with pytest.raises(Lost):
        await create(service, terminal)
    assert await orders(service) == []
    lost = fault(service, "till create_order answer_lost")
    with pytest.raises(Lost):
        await create(service, terminal)
    (order,) = await orders(service)
    status, again, headers = await create(service, terminal)
    assert (status, again["id"], headers["X-Idempotent-Replayed"]) == (201, order["id"], "true")
    assert [(one.fired, one.firings[0].answer and one.firings[0].answer[0]) for one in (reset, lost)] == [
        (1, None),
        (1, 201),
    ]
    (firing,) = lost.firings
    assert (firing.order, firing.request.key, firing.request.facts["terminal"]) == (order["id"], "k1", terminal.id)


@each(
    "kind, expected, code",
    [
        ("busy", 423, "resource_locked"),
        ("limited:2s", 429, "too_many_requests"),
        ("error", 503, "service_unavailable"),
        ("error:500", 500, "internal_error"),
        ("error:502", 502, "service_unavailable"),
        ("missing", 404, "not_found"),
    ],
)
async def test_a_refusal_has_no_effect(service: Service, kind: str, expected: int, code: str) -> None:
    """In the shape of the contract, with `Retry-After` where it belongs."""
    terminal = await service.terminal()
    active = fault(service, f"till create_order {kind}")
    status, body, headers = await create(service, terminal)
    assert (status, body["errors"][0]["code"]) == (expected, code)
    assert headers.get("Retry-After") == {429: "2", 503: "1", 502: None, 500: None}.get(expected)
    assert headers["X-Request-Id"] == active.firings[0].request.request_id
    assert await orders(service) == []


async def test_error_after_takes_effect(service: Service) -> None:
    """The order is there, and the same key finds it."""
    terminal = await service.terminal()
    fault(service, "till create_order error_after")
    status, body, _ = await create(service, terminal)
    assert (status, body["errors"][0]["code"]) == (503, "service_unavailable")
    (order,) = await orders(service)
    assert (await create(service, terminal))[1]["id"] == order["id"]


async def test_missing_names_the_error_of_its_operation(service: Service) -> None:
    """An order that is there is not found at first."""
    _, order, _ = await create(service, await service.terminal())
    fault(service, "till get_order missing times=2")
    path = f"/v1/orders/{order['id']}"
    codes = [await ask(service, "GET", path) for _ in range(3)]
    assert [(status, (body.get("errors") or [{}])[0].get("code")) for status, body, _ in codes] == [
        (404, "order_not_found"),
        (404, "order_not_found"),
        (200, None),
    ]


async def test_late_takes_effect_when_it_is_released_though_the_till_has_gone(service: Service) -> None:
    """The till gives up; the request is held; then its order is there."""
    terminal = await service.terminal()
    late = fault(service, "till create_order late")
    asking = asyncio.ensure_future(create(service, terminal))
    await fired(service, late)
    assert late.firings[0].is_held
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    assert await orders(service) == []
    service.shared.objects[Faults].release(late)
    assert await service.shared.objects[Faults].until(lambda: not late.firings[0].is_held, 30)
    status, order, _ = await create(service, terminal)
    assert status == 201
    assert [one["id"] for one in await orders(service)] == [order["id"]]


async def test_slow_takes_effect_before_its_answer_comes(service: Service) -> None:
    """It is held after the commit."""
    slow = fault(service, "till create_order slow")
    asking = asyncio.ensure_future(create(service, await service.terminal()))
    await fired(service, slow)
    (order,) = await orders(service)
    assert not asking.done()
    service.shared.objects[Faults].remove(slow)
    assert (await asking)[1]["id"] == order["id"]


async def test_an_answer_is_dribbled_cut_or_broken(service: Service) -> None:
    """Whole in the end, half of it and the end, or whole without being JSON."""
    _, order, _ = await create(service, await service.terminal())
    path = f"/v1/orders/{order['id']}"
    fault(service, "till get_order dribble:0.05s")
    assert (await ask(service, "GET", path))[1] == order
    fault(service, "till get_order cut")
    with pytest.raises(Lost, match="ClientPayloadError"):
        await ask(service, "GET", path)
    fault(service, "till get_order broken_json")
    status, raw, headers = await ask(service, "GET", path)
    assert (status, type(raw), headers["Content-Length"]) == (200, bytes, str(len(raw)))
    assert json.dumps(order, separators=(",", ":")).startswith(raw.decode())


async def test_an_answer_is_altered_or_empty(service: Service) -> None:
    """Members at JSON pointers have other values; a list has no rows."""
    _, order, _ = await create(service, await service.terminal())
    path = f"/v1/orders/{order['id']}"
    fault(service, "till get_order altered set=/status=weird set=/transactions/payments/0/amount=1 set=/a/b=1")
    _, altered, _ = await ask(service, "GET", path)
    assert (altered["status"], altered["transactions"]["payments"][0]["amount"]) == ("weird", 1)
    assert {**altered, "status": order["status"], "transactions": order["transactions"]} == order
    fault(service, "till search_orders empty")
    _, found, _ = await ask(service, "GET", "/v1/orders")
    assert (found["data"], found["paging"]["total"]) == ([], "0")
    fault(service, "till list_terminals empty")
    _, found, _ = await ask(service, "GET", "/terminals/v1/list")
    assert (found["data"]["terminals"], found["paging"]["total"]) == ([], 0)


async def test_twice_is_one_order(service: Service) -> None:
    """The key decides."""
    fault(service, "till create_order twice")
    status, order, _ = await create(service, await service.terminal())
    assert status in (201, 423)
    found = await orders(service)
    assert len(found) == 1
    assert status == 423 or found[0]["id"] == order["id"]


async def test_faults_match_what_is_known_of_a_request(service: Service) -> None:
    """Of later calls the terminal and the reference are looked up by the order."""
    first, second = await service.terminal(), await service.terminal()
    _, order, _ = await create(service, first, key="a")
    _, other, _ = await ask(service, body=order_body(second.id, external_reference="s2"), key="b")
    for name, value in (
        ("terminal", first.id),
        ("reference", "ext_ref_1234"),
        ("order", order["id"]),
        ("seller", str(service.seller_id)),
        ("application", str(service.scene.application.application_id)),
    ):
        active = fault(service, f"till get_order missing {name}={value} times=0")
        statuses = [(await ask(service, "GET", f"/v1/orders/{one['id']}"))[0] for one in (order, other)]
        assert statuses == [404, 200 if name in ("terminal", "reference", "order") else 404], name
        service.shared.objects[Faults].remove(active)
    fault(service, "till create_token busy grant=refresh_token")
    body = {"grant_type": "authorization_code", "client_id": "1", "client_secret": "2", "code": "TG-1"}
    assert (await ask(service, "POST", "/oauth/token", body))[0] == 400
    status, refused, _ = await ask(service, "POST", "/oauth/token", {**body, "grant_type": "refresh_token"})
    assert (status, refused["error"]) == (423, "resource_locked")


async def device_with_order(service: Service) -> tuple[Device, str]:
    """Return a terminal that got an order."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    await create(service, terminal)
    return device, (await device.next()).body["lease_id"]


async def test_a_terminals_answer_is_lost(service: Service) -> None:
    """The acknowledgement has taken effect, and is found by terminal, order and reference."""
    device, lease_id = await device_with_order(service)
    match = f"terminal={device.terminal.id} order=ORD{lease_id} reference=ext_ref_1234 seller={service.seller_id}"
    active = fault(service, f"terminal device_acknowledge answer_lost {match}")
    body = {"boot_id": device.boot_id}
    path = f"/device/v1/leases/{lease_id}/ack"
    with pytest.raises(Lost):
        await ask(service, "POST", path, body, token=device.terminal.token)
    assert (await service.get(f"ORD{lease_id}"))["status"] == "at_terminal"
    assert active.firings[0].order == f"ORD{lease_id}"
    assert (await ask(service, "POST", path, body, token=device.terminal.token))[0] == 200


async def test_a_terminals_request_is_overtaken(service: Service) -> None:
    """It waits until a later one of the same terminal is answered."""
    device, lease_id = await device_with_order(service)
    active = fault(service, "terminal device_acknowledge out_of_order")
    body, path = {"boot_id": device.boot_id}, f"/device/v1/leases/{lease_id}/ack"
    first = asyncio.ensure_future(ask(service, "POST", path, body, token=device.terminal.token))
    await fired(service, active)
    other = await service.device(await service.terminal())
    assert other.terminal.id != device.terminal.id
    assert not first.done()
    assert (await ask(service, "POST", path, body, token=device.terminal.token))[0] == 200
    assert (await first)[0] == 200


async def test_only_a_later_request_overtakes(service: Service) -> None:
    """One that began before the held one does not let it go, though it ends while that is held."""
    device, lease_id = await device_with_order(service)
    body, path = {"boot_id": device.boot_id}, f"/device/v1/leases/{lease_id}/ack"
    earlier, held = (fault(service, f"terminal device_acknowledge {kind}") for kind in ("slow", "out_of_order"))
    sending = []
    for active in (earlier, held):
        sending.append(asyncio.ensure_future(ask(service, "POST", path, body, token=device.terminal.token)))
        await fired(service, active)
    service.shared.objects[Faults].release(earlier)
    assert (await sending[0])[0] == 200
    assert held.firings[0].is_held
    assert (await ask(service, "POST", path, body, token=device.terminal.token))[0] == 200
    assert (await sending[1])[0] == 200


async def test_a_request_without_its_end_counts_for_no_fault(service: Service) -> None:
    """The fault waits for the real one."""
    active = fault(service, "till create_order error_after")
    async with wire(service) as till:
        await till.send(head("POST", "/v1/orders", "Transfer-Encoding: chunked") + b'5\r\n{"a":\r\n')
        await until(lambda: service.gauges.requests_running == 1)
    await until(lambda: service.gauges.requests_running == 0)
    assert active.matched == 0
    assert (await create(service, await service.terminal()))[0] == 503
    assert (active.matched, active.fired) == (1, 1)


async def test_a_firing_is_noted_though_the_application_fails(service: Service) -> None:
    """Once of two: the sender gets the other answer; the defect is not hidden."""
    active, sent, runs = fault(service, "till search_orders twice"), list[Any](), iter((True, False))

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        if next(runs):
            raise RuntimeError("a defect")
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/orders",
        "headers": [],
        "query_string": b"",
        "extensions": {},
    }
    with pytest.raises(RuntimeError, match="a defect"):
        await Wire(app, service.shared)(scope, receive, send)
    assert (active.fired, sent[0]["status"]) == (1, 204)


async def test_a_refusal_is_neither_altered_nor_empty(service: Service) -> None:
    """A till gets what the service answers; an index is a number of ASCII."""
    path = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"
    _, whole, _ = await ask(service, "GET", path)
    for kind in ("empty", "altered set=/error=weird"):
        fault(service, f"till get_order {kind}")
        assert (await ask(service, "GET", path))[:2] == (404, whole)
    _, order, _ = await create(service, await service.terminal())
    fault(service, "till get_order altered set=/transactions/payments/²/amount=1")
    assert (await ask(service, "GET", f"/v1/orders/{order['id']}"))[1] == order


async def test_a_database_that_is_away_is_answered_as_without_a_fault(database: Database) -> None:
    """Though the fault would look up the order."""
    faulty = FaultyDatabase(database)
    async with running(faulty, development=True, workers=False) as service:
        _, order, _ = await create(service, await service.terminal())
        fault(service, "till get_order reset reference=None")
        faulty.fault = Unavailable("away")
        status, body, _ = await ask(service, "GET", f"/v1/orders/{order['id']}")
        assert (status, body["errors"][0]["code"]) == (503, "service_unavailable")


async def test_a_header_is_a_fault_of_its_own(service: Service) -> None:
    """Of this one request; a mistake in it is refused in words."""
    terminal = await service.terminal()
    with pytest.raises(Lost):
        await create(service, terminal, headers={"Paydesk-Fault": "answer_lost"})
    assert len(await orders(service)) == 1
    (active,) = service.shared.objects[Faults]
    application, seller = service.scene.application.application_id, service.seller_id
    line = f"till create_order answer_lost application={application} seller={seller}"
    assert (active.of_header, active.fired, active.fault.line) == (True, 1, line)
    assert (await create(service, terminal))[0] == 201
    status, body, _ = await create(service, terminal, headers={"Paydesk-Fault": "explode"})
    assert (status, body["errors"][0]["code"]) == (400, "bad_request")
    assert "Paydesk-Fault: kind must be one of reset, late" in body["errors"][0]["message"]
    for field in ("every=5", "times=0", "skip=3", "seed=1", "order=ORD1"):
        status, body, _ = await create(service, terminal, headers={"Paydesk-Fault": f"busy {field}"})
        assert (status, len(list(service.shared.objects[Faults]))) == (400, 1)
        assert "is not for a single request: use delay, status, set" in body["errors"][0]["message"]


async def test_a_request_with_the_header_none_counts_for_no_fault(service: Service) -> None:
    """A test asks about an order beside its till."""
    active = fault(service, "till search_orders busy")
    assert (await ask(service, "GET", "/v1/orders", headers={"Paydesk-Fault": "none"}))[0] == 200
    assert active.matched == 0
    assert (await ask(service, "GET", "/v1/orders"))[0] == 423


async def test_a_broken_body_passes_on(service: Service) -> None:
    """The application refuses what is too large or not JSON, as without a fault."""
    fault(service, "till create_order busy reference=s1")
    assert (await ask(service, body={"type": "x" * 70_000}))[0] == 413
    sent = {"Authorization": f"Bearer {service.access_token}", "Content-Type": "application/json"}
    sent["X-Idempotency-Key"] = "k"
    async with service.session.post(f"{service.base_url}/v1/orders", data=b"[1", headers=sent) as answer:
        assert answer.status == 400


async def test_production_has_neither_faults_nor_the_header(database: Database, tmp_path: Path) -> None:
    """The header is ignored."""
    del tmp_path
    async with running(database, workers=False) as service:
        status, _, _ = await create(service, await service.terminal(), headers={"Paydesk-Fault": "reset"})
        assert status == 201
