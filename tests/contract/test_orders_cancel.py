"""POST /v1/orders/{order_id}/cancel: what it cancels, requests or refuses."""

from __future__ import annotations

import asyncio

import pytest

from accounts import other_application, other_seller
from service import Device, Service
from tables import each

ASKING = {"X-Allow-Cancelable-Status": "at_terminal"}


async def _created(service: Service) -> str:
    order_id: str = (await service.create(await service.terminal())).body["id"]
    return order_id


async def _at_terminal(service: Service) -> tuple[Device, str]:
    terminal = await service.terminal()
    device = await service.device(terminal)
    order_id: str = (await service.create(terminal)).body["id"]
    offered = await device.next()
    assert (await device.ack(offered.body["lease_id"])).status == 200
    return device, order_id


async def test_cancel_of_a_created_order_returns_200(service: Service) -> None:
    """The order is canceled in a new version, and its terminal is free."""
    terminal = await service.terminal()
    order = (await service.create(terminal)).body
    reply = await service.cancel(order["id"])
    assert reply.status == 200
    payment = reply.body["transactions"]["payments"][0]
    assert (reply.body["status"], reply.body["status_detail"], reply.body["version"]) == ("canceled", "canceled", 2)
    assert (payment["status"], payment["status_detail"]) == ("canceled", "canceled_by_api")
    assert list(reply.body) == list(order)
    assert reply.body["last_updated_date"] >= order["last_updated_date"]
    assert await service.get(order["id"]) == reply.body
    assert (await service.create(terminal)).status == 201


async def test_cancel_accepts_only_an_empty_body(service: Service) -> None:
    """Any other body is rejected with 400, and the order is unchanged."""
    for data in (None, b"", b"{}", b" { } "):
        assert (await service.cancel(await _created(service), data=data)).status == 200, data
    order_id = await _created(service)
    for data, code in (
        (b'{"reason": "x"}', "unsupported_properties"),
        (b"[]", "property_type"),
        (b"null", "property_type"),
        (b"{", "json_syntax_error"),
    ):
        reply = await service.cancel(order_id, data=data)
        assert (reply.status, reply.code) == (400, code), data
    assert (await service.get(order_id))["status"] == "created"


async def test_cancel_ignores_the_case_of_the_id(service: Service) -> None:
    """As in every path."""
    order_id = await _created(service)
    assert (await service.cancel(order_id.lower())).body["id"] == order_id


async def test_cancel_of_a_canceled_order_returns_409(service: Service) -> None:
    """`order_already_canceled` under a new key, and the order is unchanged."""
    order_id = await _created(service)
    canceled = await service.cancel(order_id)
    again = await service.cancel(order_id)
    assert (again.status, again.code) == (409, "order_already_canceled")
    assert await service.get(order_id) == canceled.body


@each(
    "value, status",
    [
        ("at_terminal", 202),
        ("at_terminal,created", 202),
        ("created, AT_TERMINAL", 202),
        (" , At_Terminal\t,processed", 202),
        ("created", 409),
        ("", 409),
        ("at terminal", 409),
        ("at_terminal;created", 409),
        ("not_at_terminal", 409),
    ],
)
async def test_the_extra_header_is_a_list_of_statuses(service: Service, value: str, status: int) -> None:
    """In any case and with blanks, as common clients send it. Under one key only `at_terminal` in it counts."""
    _, order_id = await _at_terminal(service)
    reply = await service.cancel(order_id, key="key", headers={"X-Allow-Cancelable-Status": value})
    assert reply.status == status
    if status == 202:
        again = await service.cancel(order_id, key="key", headers=ASKING)
        assert (again.status, again.raw, again.headers["x-idempotent-replayed"]) == (202, reply.raw, "true")
        other = await service.cancel(order_id, key="key", headers={"X-Allow-Cancelable-Status": "created"})
        assert other.code == "idempotency_key_already_used"


async def test_the_extra_header_is_ignored_for_a_created_order(service: Service) -> None:
    """It only applies to orders at their terminal."""
    for value in ("at_terminal", "anything"):
        reply = await service.cancel(await _created(service), headers={"X-Allow-Cancelable-Status": value})
        assert (reply.status, reply.body["status"]) == (200, "canceled")


async def test_cancel_at_terminal_without_the_header_returns_409(service: Service) -> None:
    """Also with another value of the header."""
    _, order_id = await _at_terminal(service)
    for headers in ({}, {"X-Allow-Cancelable-Status": "created"}):
        reply = await service.cancel(order_id, headers=headers)
        assert (reply.status, reply.code) == (409, "cannot_cancel_order")
        assert reply.details == [
            "the order is at_terminal; send X-Allow-Cancelable-Status: at_terminal to request a cancel at its terminal"
        ]
    assert (await service.get(order_id))["status"] == "at_terminal"


async def test_cancel_at_terminal_with_the_header_returns_202(service: Service) -> None:
    """The terminal is requested to release the order; a further cancel changes nothing; the release cancels it."""
    device, order_id = await _at_terminal(service)
    asked = await service.cancel(order_id, headers=ASKING)
    payment = asked.body["transactions"]["payments"][0]
    assert (asked.status, asked.body["status"], asked.body["version"]) == (202, "at_terminal", 3)
    assert (payment["status"], payment["status_detail"]) == ("at_terminal", "cancellation_requested")
    again = await service.cancel(order_id, headers=ASKING)
    assert (again.status, again.body) == (202, asked.body)
    assert (await device.next()).body["type"] == "cancel"
    await device.post(f"/leases/{order_id[3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
    order = await service.get(order_id)
    assert (order["status"], order["transactions"]["payments"][0]["status_detail"]) == ("canceled", "canceled_by_api")


async def test_a_stored_202_is_replayed(service: Service) -> None:
    """The response under its key does not change with the order."""
    device, order_id = await _at_terminal(service)
    asked = await service.cancel(order_id, key="key", headers=ASKING)
    await device.post(f"/leases/{order_id[3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
    again = await service.cancel(order_id, key="key", headers=ASKING)
    assert (again.status, again.raw, again.headers["x-idempotent-replayed"]) == (202, asked.raw, "true")


async def test_cancel_after_authorization_is_recorded_without_effect(service: Service) -> None:
    """202; the order does not move and ends with its outcome."""
    device, order_id = await _at_terminal(service)
    assert (await device.authorizing(order_id[3:])).status == 200
    reply = await service.cancel(order_id, headers=ASKING)
    assert (reply.status, reply.body["status"], reply.body["version"]) == (202, "at_terminal", 2)
    assert (await device.approve(order_id[3:])).status == 200
    assert (await service.get(order_id))["status"] == "processed"


@pytest.mark.on_postgres
async def test_cancel_of_an_unknown_outcome_returns_409(service: Service) -> None:
    """The details say how the order will end."""
    device, order_id = await _at_terminal(service)
    await device.authorizing(order_id[3:])
    assert (await device.result(order_id[3:], outcome="unknown")).status == 200
    for headers in ({}, ASKING):
        reply = await service.cancel(order_id, headers=headers)
        assert (reply.status, reply.code) == (409, "cannot_cancel_order")
        assert reply.details == [
            "the order is at_terminal; its outcome is unknown, and it will end as processed or failed"
        ]


@pytest.mark.on_postgres
async def test_cancel_of_a_processed_order_returns_409(service: Service) -> None:
    """A paid order is refunded, not canceled."""
    device, order_id = await _at_terminal(service)
    await device.authorizing(order_id[3:])
    assert (await device.approve(order_id[3:])).status == 200
    for headers in ({}, ASKING):
        reply = await service.cancel(order_id, headers=headers)
        assert (reply.status, reply.code) == (409, "cannot_cancel_order")
    assert (await service.get(order_id))["status"] == "processed"


async def test_cancel_of_another_sellers_order_returns_404(service: Service) -> None:
    """Also with a token of the other mode; another application of the seller may cancel."""
    order_id = await _created(service)
    outsider = await other_seller(service)
    for reply in (await outsider.cancel(order_id), await service.cancel(order_id, token=service.live_access_token)):
        assert (reply.status, reply.code) == (404, "order_not_found")
    assert (await service.get(order_id))["status"] == "created"
    assert (await (await other_application(service)).cancel(order_id)).status == 200


async def test_of_concurrent_cancels_one_succeeds(service: Service) -> None:
    """The others get 409 `order_already_canceled`."""
    order_id = await _created(service)
    replies = await asyncio.gather(*(service.cancel(order_id) for _ in range(10)))
    assert sorted(reply.status for reply in replies) == [200] + [409] * 9
    assert (await service.get(order_id))["version"] == 2
