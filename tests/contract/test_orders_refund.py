"""POST /v1/orders/{order_id}/refund: what is refunded, what is refused, and what its idempotency key covers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accounts import other_application, other_seller
from paydesk.core.clock import MovableClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from refund_scene import DECLINED, ledgers_agree, notifications, only, paid, part_of, refund
from service import Service, running

DAY_MS = 86_400_000
TIPPED = "UPDATE orders SET tip_minor = 300, paid_minor = 2790 WHERE seller_id = $1 AND order_id = $2"


async def test_refund_without_a_body_refunds_all(service: Service) -> None:
    """201 with this refund alone, and the order is refunded in a new version."""
    order_id = await paid(service)
    before = await service.get(order_id)
    reply = await refund(service, order_id)
    assert reply.status == 201
    assert list(reply.body) == ["id", "status", "status_detail", "transactions"]
    assert (reply.body["id"], reply.body["status"], reply.body["status_detail"]) == (order_id, "refunded", "refunded")
    shown = only(reply)
    assert list(shown) == ["id", "transaction_id", "reference_id", "amount", "status", "created_date"]
    assert (shown["transaction_id"], shown["amount"], shown["status"]) == (f"PAY{order_id[3:]}", "24.90", "processed")
    after = await service.get(order_id)
    assert (after["status"], after["status_detail"], after["version"]) == ("refunded", "refunded", 4)
    payment = after["transactions"]["payments"][0]
    assert (payment["status"], payment["status_detail"], payment["refunded_amount"]) == (
        "refunded",
        "refunded",
        "24.90",
    )
    assert after["transactions"]["refunds"] == [shown]
    assert "refunds" not in before["transactions"]
    assert (await notifications(service, order_id))[-1] == ("order.refunded", [shown])
    await ledgers_agree(service.database)


@pytest.mark.parametrize("data", [b"", b"{}", b" { } "])
async def test_an_empty_body_equals_no_body(service: Service, data: bytes) -> None:
    """Also under one key."""
    order_id = await paid(service)
    first = await service.request("POST", f"/v1/orders/{order_id}/refund", data=data, key="key")
    again = await service.request("POST", f"/v1/orders/{order_id}/refund", key="key")
    assert (first.status, again.status, again.raw) == (201, 201, first.raw)


@pytest.mark.on_postgres
async def test_partial_refunds(service: Service) -> None:
    """Amounts are returned as sent; the order is processed until the last part; each is notified."""
    order_id = await paid(service, "10")
    first = await refund(service, order_id, "3.5")
    assert (first.status, first.body["status"], first.body["status_detail"]) == (201, "processed", "partially_refunded")
    assert only(first)["amount"] == "3.5"
    order = await service.get(order_id)
    payment = order["transactions"]["payments"][0]
    assert (payment["status_detail"], payment["refunded_amount"]) == ("partially_refunded", "3.50")
    second = await refund(service, order_id, "1.50")
    third = await refund(service, order_id)
    assert (only(third)["amount"], third.body["status"]) == ("5.00", "refunded")
    order = await service.get(order_id)
    assert order["transactions"]["refunds"] == [only(first), only(second), only(third)]
    shown = [only(reply) for reply in (first, second, third)]
    assert (await notifications(service, order_id))[-3:] == [
        ("order.refunded", shown[: count + 1]) for count in range(3)
    ]
    await ledgers_agree(service.database)


async def test_a_part_without_an_amount_is_all_that_remains(service: Service) -> None:
    """As without a body, also with a tip; the payment must be the order's."""
    order_id = await paid(service, "10")
    await refund(service, order_id, "3.50")
    whole = {"transactions": [{"id": f"PAY{order_id[3:]}"}]}
    reply = await service.request("POST", f"/v1/orders/{order_id}/refund", whole, key="key")
    assert (reply.status, only(reply)["amount"], reply.body["status"]) == (201, "6.50", "refunded")
    again = await service.request("POST", f"/v1/orders/{order_id}/refund", whole, key="key")
    assert (again.status, again.raw) == (201, reply.raw)
    assert (await service.request("POST", f"/v1/orders/{order_id}/refund", whole)).code == "order_already_refunded"
    other = await paid(service)
    assert (await service.request("POST", f"/v1/orders/{other}/refund", whole)).code == "transaction_not_found"
    await service.scene.run(TIPPED, service.seller_id, other)
    whole = {"transactions": [{"id": f"PAY{other[3:]}"}]}
    reply = await service.request("POST", f"/v1/orders/{other}/refund", whole)
    assert (reply.status, only(reply)["amount"], reply.body["status"]) == (201, "27.90", "refunded")
    await ledgers_agree(service.database)


async def test_a_full_refund_has_the_orders_spelling_of_the_amount(service: Service) -> None:
    """`"10"` stays `"10"`; a part of the whole amount ends the order too."""
    assert only(await refund(service, await paid(service, "10")))["amount"] == "10"
    order_id = await paid(service, "10")
    assert (await refund(service, order_id, "10.0")).body["status"] == "refunded"


@pytest.mark.parametrize("part", [None, "999999999999.99", "999999999999.98"])
async def test_the_largest_amount(service: Service, part: str | None) -> None:
    """It can be paid and refunded on both databases."""
    order_id = await paid(service, "999999999999.99")
    reply = await refund(service, order_id, part)
    assert (reply.status, only(reply)["status"]) == (201, "processed")
    assert (await service.get(order_id))["transactions"]["payments"][0]["refunded_amount"] == only(reply)["amount"]
    await ledgers_agree(service.database)


async def test_a_repeated_request_is_replayed(service: Service) -> None:
    """Byte for byte, with the header; the same key with another body is rejected; another key is another refund."""
    order_id = await paid(service)
    first = await refund(service, order_id, "5.00", key="key")
    again = await refund(service, order_id, "5.00", key="key")
    assert (again.status, again.raw, again.headers["x-idempotent-replayed"]) == (201, first.raw, "true")
    other = await refund(service, order_id, "5.01", key="key")
    assert (other.status, other.code) == (409, "idempotency_key_already_used")
    assert (await refund(service, order_id, "5.00", key="another")).status == 201
    order = await service.get(order_id)
    assert order["transactions"]["payments"][0]["refunded_amount"] == "10.00"


@pytest.mark.on_postgres
async def test_a_decline_is_stored_under_its_key(service: Service) -> None:
    """409 with the acquirer's reason; the order is unchanged, and another key asks again."""
    order_id = await paid(service, DECLINED)
    before = await service.get(order_id)
    reply = await refund(service, order_id, "5.00", key="key")
    assert (reply.status, reply.code) == (409, "cannot_refund_order")
    assert "rejected_by_issuer" in reply.details[0]
    again = await refund(service, order_id, "5.00", key="key")
    assert (again.status, again.raw, again.headers["x-idempotent-replayed"]) == (409, reply.raw, "true")
    assert (await refund(service, order_id, "5.01", key="key")).code == "idempotency_key_already_used"
    assert await service.get(order_id) == before
    whole = await refund(service, order_id, key="another")
    assert (whole.status, whole.code, "x-idempotent-replayed" in whole.headers) == (409, "cannot_refund_order", False)
    await ledgers_agree(service.database)


async def test_refund_of_an_unpaid_order_returns_409(service: Service) -> None:
    """created, at_terminal, canceled, expired: the details name the status, and no key is stored."""
    terminal = await service.terminal()
    order_id = (await service.create(terminal)).body["id"]
    device = await service.device(terminal)
    for status in ("created", "at_terminal", "canceled"):
        if status == "at_terminal":
            await device.ack(order_id[3:])
        if status == "canceled":
            await device.result(order_id[3:], outcome="canceled", status_detail="canceled_on_terminal")
        reply = await refund(service, order_id, key="key")
        assert (reply.status, reply.code) == (409, "cannot_refund_order"), status
        assert status in reply.details[0]
        assert "x-idempotent-replayed" not in reply.headers


async def test_refund_of_a_refunded_order_returns_409(service: Service) -> None:
    """Whatever the amount."""
    order_id = await paid(service)
    assert (await refund(service, order_id)).status == 201
    for amount in (None, "0.01", "24.90", "99.00"):
        reply = await refund(service, order_id, amount)
        assert (reply.status, reply.code) == (409, "order_already_refunded")


async def test_more_than_the_remaining_amount_returns_400(service: Service) -> None:
    """With the remaining amount; the same key then works for that."""
    order_id = await paid(service)
    for amount, left in (("24.91", "24.90"), ("100", "24.90")):
        reply = await refund(service, order_id, amount, key=f"key-{amount}")
        assert (reply.status, reply.code) == (400, "refund_amount_exceeds")
        assert reply.details == [f"'$.transactions[0].amount' - must be at most {left}"]
    assert (await refund(service, order_id, "20.00", key="key-100")).status == 201
    reply = await refund(service, order_id, "4.91")
    assert (reply.code, reply.details) == (
        "refund_amount_exceeds",
        ["'$.transactions[0].amount' - must be at most 4.90"],
    )
    assert (await refund(service, order_id, "4.90")).body["status"] == "refunded"


async def test_the_refund_period_is_90_days(database: Database) -> None:
    """To the millisecond; a key used within it is still replayed after it."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        order_id = await paid(service)
        clock.advance(90 * DAY_MS)
        first = await refund(service, order_id, "1.00", key="key")
        assert first.status == 201
        clock.advance(1)
        reply = await refund(service, order_id, "1.00")
        assert (reply.status, reply.code) == (409, "refund_period_exceeded")
        assert (await refund(service, order_id, "99.00")).code == "refund_period_exceeded"
        assert (await refund(service, order_id, "1.00", key="key")).raw == first.raw


async def test_an_order_with_a_tip_is_refunded_only_in_full(service: Service) -> None:
    """Including the tip."""
    order_id = await paid(service)
    await service.scene.run(TIPPED, service.seller_id, order_id)
    for amount in ("24.90", "3.00", "30.00"):
        reply = await refund(service, order_id, amount)
        assert (reply.status, reply.code) == (403, "partial_refund_forbidden_with_tips")
    whole = await refund(service, order_id)
    assert (whole.status, only(whole)["amount"], whole.body["status"]) == (201, "27.90", "refunded")


async def test_another_orders_payment_returns_404(service: Service) -> None:
    """A malformed payment id is a fault of the field."""
    order_id, other = await paid(service), await paid(service)
    reply = await service.request("POST", f"/v1/orders/{order_id}/refund", part_of(other, "1.00"))
    assert (reply.status, reply.code) == (404, "transaction_not_found")
    body = {"transactions": [{"id": order_id, "amount": "1.00"}]}
    assert (await service.request("POST", f"/v1/orders/{order_id}/refund", body)).code == "property_value"


async def test_a_live_refund_without_an_acquirer_returns_409(service: Service) -> None:
    """The message names the setting, and nothing is reserved."""
    order_id = await paid(service, live=True)
    reply = await refund(service, order_id, token=service.live_access_token, key="key")
    assert (reply.status, reply.code) == (409, "cannot_refund_order")
    assert "`acquirer`" in reply.body["message"]
    again = await refund(service, order_id, token=service.live_access_token, key="key")
    assert "x-idempotent-replayed" not in again.headers
    await ledgers_agree(service.database)


FAULTS: tuple[tuple[Any, list[str]], ...] = (
    ([], ["property_type"]),
    ({"transactions": None}, ["property_type"]),
    ({"transactions": {}}, ["property_type"]),
    ({"transactions": []}, ["minimum_items"]),
    ({"transactions": [{}]}, ["minimum_properties"]),
    ({"transactions": [{"amount": "1"}]}, ["required_properties"]),
    ({"transactions": [{"id": "PAY1", "amount": 5}]}, ["property_value", "property_type"]),
    ({"transactions": [{"id": "PAY01J67CQQH5904WDBVZEM4JMEP3", "amount": "0"}]}, ["property_value"]),
    ({"transactions": [{"id": "PAY01J67CQQH5904WDBVZEM4JMEP3", "amount": "0.00"}]}, ["property_value"]),
    ({"transactions": [{"id": "PAY01J67CQQH5904WDBVZEM4JMEP3", "amount": "1.001"}]}, ["property_value"]),
    ({"transactions": [{"id": "PAY01J67CQQH5904WDBVZEM4JMEP3", "amount": "-1"}]}, ["property_value"]),
    ({"transactions": [{"id": "PAY01J67CQQH5904WDBVZEM4JMEP3", "amount": "1", "x": 1}]}, ["unsupported_properties"]),
    ({"amount": "1", "transactions": []}, ["unsupported_properties", "minimum_items"]),
)


async def test_faults_of_the_body_are_listed(service: Service) -> None:
    """All at once, in document order, before the order is read."""
    for body, codes in FAULTS:
        reply = await service.request("POST", "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3/refund", body)
        assert reply.status == 400
        assert [error["code"] for error in reply.body["errors"]] == codes, body


async def test_two_parts_in_one_request_return_400(service: Service) -> None:
    """One request refunds one part."""
    order_id = await paid(service)
    body = {"transactions": part_of(order_id, "1.00")["transactions"] * 2}
    assert (await service.request("POST", f"/v1/orders/{order_id}/refund", body)).code == "maximum_items"


async def test_a_part_may_be_below_the_minimum_of_orders(database: Database) -> None:
    """The minimum applies to payments alone."""
    async with running(database, settings=Settings(order_amount_minor_min=1000), workers=False) as service:
        assert (await refund(service, await paid(service), "0.01")).status == 201


async def test_refunds_in_a_currency_without_decimals(service: Service) -> None:
    """Parts and sums have no decimals."""
    chile = await other_seller(service)
    await chile.scene.run("UPDATE sellers SET currency = 'CLP', country = 'CHL' WHERE seller_id = $1", chile.seller_id)
    order_id = await paid(chile, "2490")
    assert (await refund(chile, order_id, "5.0")).code == "property_value"
    assert (await refund(chile, order_id, "90")).status == 201
    payment = (await chile.get(order_id))["transactions"]["payments"][0]
    assert payment["refunded_amount"] == "90"
    assert only(await refund(chile, order_id))["amount"] == "2400"


async def test_refund_of_another_sellers_order_returns_404(service: Service) -> None:
    """Also with a token of the other mode; another application of the seller may refund."""
    order_id = await paid(service)
    outsider = await other_seller(service)
    for reply in (
        await refund(outsider, order_id),
        await refund(service, order_id, token=service.live_access_token),
        await refund(service, "ORD01J67CQQH5904WDBVZEM4JMEP3"),
    ):
        assert (reply.status, reply.code) == (404, "order_not_found")
    other = await other_application(service)
    assert (await refund(other, order_id, "1.00", key="key")).status == 201
    mine = await refund(service, order_id, "1.00", key="key")
    assert (mine.status, "x-idempotent-replayed" in mine.headers) == (201, False)


async def test_refund_ignores_the_case_of_the_id(service: Service) -> None:
    """In the path, and for the idempotency key."""
    order_id = await paid(service)
    first = await refund(service, order_id, key="key")
    again = await service.request("POST", f"/v1/orders/{order_id.lower()}/refund", key="key")
    assert (first.body["id"], again.raw) == (order_id, first.raw)


async def test_a_refusal_stores_no_key(service: Service) -> None:
    """Once the order is paid, the same key refunds it."""
    device = await service.device(await service.terminal())
    order_id = (await service.create(device.terminal)).body["id"]
    assert (await refund(service, order_id, key="key")).code == "cannot_refund_order"
    await device.ack(order_id[3:])
    await device.authorizing(order_id[3:])
    await device.approve(order_id[3:])
    assert (await refund(service, order_id, key="key")).status == 201


async def test_concurrent_parts(service: Service) -> None:
    """All that fit are refunded, in any order."""
    order_id = await paid(service, "8.00")
    replies = await asyncio.gather(*(refund(service, order_id, "1.00") for _ in range(8)))
    assert {reply.status for reply in replies} == {201}
    assert (await service.get(order_id))["status"] == "refunded"
    await ledgers_agree(service.database)
