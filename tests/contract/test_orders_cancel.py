"""POST /v1/orders/{order_id}/cancel: what ends, and what can't be canceled any more."""

from __future__ import annotations

import asyncio

from parties import other_application, other_seller
from service import Device, Service

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


async def test_a_created_order(service: Service) -> None:
    """It is canceled at once, in a new version, and its terminal is free."""
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


async def test_the_body_is_empty_or_an_empty_object(service: Service) -> None:
    """Nothing else can be said in a cancel."""
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


async def test_the_case_of_an_id_does_not_matter(service: Service) -> None:
    """As in every path."""
    order_id = await _created(service)
    assert (await service.cancel(order_id.lower())).body["id"] == order_id


async def test_a_canceled_order(service: Service) -> None:
    """Under a new key it is told that it is canceled already, and nothing changes."""
    order_id = await _created(service)
    canceled = await service.cancel(order_id)
    again = await service.cancel(order_id)
    assert (again.status, again.code) == (409, "order_already_canceled")
    assert await service.get(order_id) == canceled.body


async def test_the_extra_header_is_ignored_while_created(service: Service) -> None:
    """It is for orders that are at their terminal."""
    for value in ("at_terminal", "anything"):
        reply = await service.cancel(await _created(service), headers={"X-Allow-Cancelable-Status": value})
        assert (reply.status, reply.body["status"]) == (200, "canceled")


async def test_an_order_at_its_terminal(service: Service) -> None:
    """Without the extra header, or with another value, it can't be canceled."""
    _, order_id = await _at_terminal(service)
    for headers in ({}, {"X-Allow-Cancelable-Status": "created"}):
        reply = await service.cancel(order_id, headers=headers)
        assert (reply.status, reply.code) == (409, "cannot_cancel_order")
        assert reply.details == [
            "the order is at_terminal; send X-Allow-Cancelable-Status: at_terminal to request a cancel at its terminal"
        ]
    assert (await service.get(order_id))["status"] == "at_terminal"


async def test_an_order_at_its_terminal_is_asked_for(service: Service) -> None:
    """With the header it is 202 and the terminal is asked; asking again changes nothing; giving it up ends it."""
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


async def test_a_stored_202_is_given_again(service: Service) -> None:
    """Under its key the answer stays what it was, whatever became of the order."""
    device, order_id = await _at_terminal(service)
    asked = await service.cancel(order_id, key="key", headers=ASKING)
    await device.post(f"/leases/{order_id[3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
    again = await service.cancel(order_id, key="key", headers=ASKING)
    assert (again.status, again.raw, again.headers["x-idempotent-replayed"]) == (202, asked.raw, "true")


async def test_after_the_grant_a_cancel_cannot_win(service: Service) -> None:
    """It is 202 and recorded; the order moves no step, and the outcome rules."""
    device, order_id = await _at_terminal(service)
    assert (await device.authorizing(order_id[3:])).status == 200
    reply = await service.cancel(order_id, headers=ASKING)
    assert (reply.status, reply.body["status"], reply.body["version"]) == (202, "at_terminal", 2)
    assert (await device.approve(order_id[3:])).status == 200
    assert (await service.get(order_id))["status"] == "processed"


async def test_an_order_of_unknown_outcome(service: Service) -> None:
    """Nothing can be undone yet, and the answer says how it will end."""
    device, order_id = await _at_terminal(service)
    await device.authorizing(order_id[3:])
    assert (await device.result(order_id[3:], outcome="unknown")).status == 200
    for headers in ({}, ASKING):
        reply = await service.cancel(order_id, headers=headers)
        assert (reply.status, reply.code) == (409, "cannot_cancel_order")
        assert reply.details == [
            "the order is at_terminal; its outcome is unknown, and it will end as processed or failed"
        ]


async def test_a_processed_order(service: Service) -> None:
    """What is paid is refunded, not canceled."""
    device, order_id = await _at_terminal(service)
    await device.authorizing(order_id[3:])
    assert (await device.approve(order_id[3:])).status == 200
    for headers in ({}, ASKING):
        reply = await service.cancel(order_id, headers=headers)
        assert (reply.status, reply.code) == (409, "cannot_cancel_order")
    assert (await service.get(order_id))["status"] == "processed"


async def test_what_is_not_the_callers_does_not_exist(service: Service) -> None:
    """Another seller, or the other kind of token, cancels nothing; another application of the seller does."""
    order_id = await _created(service)
    stranger = await other_seller(service)
    for reply in (await stranger.cancel(order_id), await service.cancel(order_id, token=service.live_access_token)):
        assert (reply.status, reply.code) == (404, "order_not_found")
    assert (await service.get(order_id))["status"] == "created"
    assert (await (await other_application(service)).cancel(order_id)).status == 200


async def test_many_cancels_at_once(service: Service) -> None:
    """One of them cancels; the others are told so."""
    order_id = await _created(service)
    replies = await asyncio.gather(*(service.cancel(order_id) for _ in range(10)))
    assert sorted(reply.status for reply in replies) == [200] + [409] * 9
    assert (await service.get(order_id))["version"] == 2
