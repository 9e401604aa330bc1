"""The acquirer's number of a payment is one order's: who reports it a second time processes nothing, however soon."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from accounts import other_seller
from paydesk.engine.invariants import check
from paydesk.platform.storage.database import Row
from service import Device, Reply, Service, approved

ROUNDS = 20
REFERENCE = "115019989861"
CONFLICT = (409, "result_conflict")


async def granted(service: Service, *, live: bool = False) -> tuple[Device, str]:
    """An order that its terminal may charge, and the terminal."""
    token = service.live_access_token if live else service.access_token
    caller = replace(service, access_token=token)
    device = await caller.device(await caller.terminal(live=live))
    order_id: str = (await caller.create(device.terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    assert (await device.authorizing(order_id[3:])).status == 200
    return device, order_id


async def report(device: Device, order_id: str, reference: str = REFERENCE, **content: Any) -> Reply:
    """The terminal's approval with this reference."""
    return await device.result(order_id[3:], **{**approved(), "reference_id": reference, **content})


async def rows(service: Service, sql: str) -> list[Row]:
    """What the statement finds of the seller."""
    return await service.database.read(lambda tx: tx.all(sql, service.seller_id))


async def test_a_reference_that_comes_a_second_time(service: Service) -> None:
    """Recorded and refused; the order waits for an inquiry, and operators are alerted."""
    (first, paid), (second, doubtful) = await granted(service), await granted(service)
    assert (await report(first, paid)).status == 200
    reply = await report(second, doubtful)
    assert ((reply.status, reply.code), reply.body["recorded"]) == (CONFLICT, True)
    assert (await service.get(paid))["status"] == "processed"
    order = await service.get(doubtful)
    assert (order["status"], order["status_detail"]) == ("at_terminal", "check_on_terminal")
    assert "reference_id" not in order["transactions"]["payments"][0]
    asked = await rows(service, "SELECT order_id FROM inquiries WHERE seller_id = $1")
    assert [row[0] for row in asked] == [doubtful]
    alerts = await rows(service, "SELECT kind, subject, body FROM operator_events WHERE seller_id = $1")
    assert [(kind, subject) for kind, subject, _ in alerts] == [("reference_repeated", doubtful)]
    assert REFERENCE in alerts[0][2]
    assert (await service.request("GET", f"/v1/orders/{paid}")).body["transactions"]["payments"][0]["reference_id"]


async def test_its_own_reference_is_no_second_one(service: Service) -> None:
    """The same result again is answered again, and under another id it is the payment that the order has."""
    device, order_id = await granted(service)
    content = {**approved(), "reference_id": REFERENCE}
    result_id = "0f1d7c3e-5b2a-4c1f-8e6d-000000000001"
    first = await device.result(order_id[3:], result_id, **content)
    again = await device.result(order_id[3:], result_id, **content)
    assert (first.status, first.raw) == (again.status, again.raw) == (200, again.raw)
    other_id = await device.result(order_id[3:], **content)
    assert (other_id.status, other_id.code) == (409, "order_finished")
    assert await rows(service, "SELECT reversal_id FROM reversals WHERE seller_id = $1") == []
    assert await rows(service, "SELECT event_id FROM operator_events WHERE seller_id = $1") == []


async def test_a_reference_is_of_one_merchant_and_acquirer(service: Service) -> None:
    """Another seller's payment, and a live one beside a test one, may have the same number."""
    for party, live in ((service, False), (service, True), (await other_seller(service), False)):
        device, order_id = await granted(party, live=live)
        assert (await report(device, order_id)).status == 200


async def test_what_is_not_processed_keeps_no_reference(service: Service) -> None:
    """A report that is refused for something else leaves the number to the order that it belongs to."""
    wrong, doubtful = await granted(service)
    assert (await report(wrong, doubtful, paid_amount="1.00")).code == "result_conflict"
    asked = await service.terminal()
    device = await service.device(asked)
    order_id = (await service.create(asked)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    reply = await service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "at_terminal"})
    assert reply.status == 202
    assert (await report(device, order_id)).code == "result_conflict"
    right, paid = await granted(service)
    assert (await report(right, paid)).status == 200
    kept = await rows(service, "SELECT reference_id, order_id FROM payment_references WHERE seller_id = $1")
    assert [tuple(row) for row in kept] == [(REFERENCE, paid)]


async def test_two_at_once(service: Service) -> None:
    """Of two orders that are reported with one number at the same time exactly one is processed."""
    for number in range(ROUNDS):
        reference = f"{number:012d}"
        scenes = [await granted(service) for _ in range(2)]
        replies = await asyncio.gather(*(report(device, order_id, reference) for device, order_id in scenes))
        assert sorted(reply.status for reply in replies) == [200, 409], number
        statuses = [(await service.get(order_id))["status_detail"] for _, order_id in scenes]
        assert sorted(statuses) == ["check_on_terminal", "processed"]
    assert await check.check(service.database) == []
