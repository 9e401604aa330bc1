"""GET /v1/orders/{order_id}: who may read an order, and by which id."""

from __future__ import annotations

import pytest

from accounts import other_application, other_seller
from service import Service

UNKNOWN = "ORD01J67CQQH5904WDBVZEM4JMEP3"


@pytest.mark.on_postgres
async def test_get_returns_what_create_returned(service: Service) -> None:
    """Byte for byte, until the order changes."""
    created = await service.create(await service.terminal())
    got = await service.request("GET", f"/v1/orders/{created.body['id']}")
    assert (got.status, got.raw) == (200, created.raw)


@pytest.mark.on_postgres
async def test_get_ignores_the_case_of_the_id(service: Service) -> None:
    """Notifications have lower-case ids; the response has the canonical one."""
    order_id = (await service.create(await service.terminal())).body["id"]
    for written in (order_id.lower(), order_id.swapcase(), order_id[:8].lower() + order_id[8:]):
        assert (await service.get(written))["id"] == order_id


@pytest.mark.on_postgres
async def test_every_application_of_the_seller_can_read_the_order(service: Service) -> None:
    """It shows which application created it."""
    order_id = (await service.create(await service.terminal())).body["id"]
    order = await (await other_application(service)).get(order_id)
    assert order["integration_data"]["application_id"] == str(service.scene.application.application_id)


@pytest.mark.on_postgres
async def test_another_sellers_order_returns_404(service: Service) -> None:
    """Also one of the other mode; byte for byte as for an unknown order."""
    order_id = (await service.create(await service.terminal())).body["id"]
    outsider = await other_seller(service)
    replies = [
        await service.request("GET", f"/v1/orders/{UNKNOWN}"),
        await outsider.request("GET", f"/v1/orders/{order_id}"),
        await service.request("GET", f"/v1/orders/{order_id}", token=service.live_access_token),
    ]
    assert {(reply.status, reply.code) for reply in replies} == {(404, "order_not_found")}
    assert len({reply.raw for reply in replies}) == 1


async def test_a_malformed_id_returns_400(service: Service) -> None:
    """Unlike an unknown one."""
    letters = ("%C5%BF", "%C3%9F")  # their upper cases are S and SS
    malformed = [
        UNKNOWN[:-1] + "U",
        UNKNOWN + "%0A",
        *(UNKNOWN[:-1] + letter for letter in letters),
        UNKNOWN[:-2] + letters[1],
    ]
    for order_id in ("1", UNKNOWN[:-1], UNKNOWN + "0", "PAY" + UNKNOWN[3:], *malformed):
        reply = await service.request("GET", f"/v1/orders/{order_id}")
        assert (reply.status, reply.code) == (400, "invalid_path_param"), order_id


@pytest.mark.on_postgres
async def test_headers_of_other_operations_are_ignored(service: Service) -> None:
    """A content type without a body, and an idempotency key."""
    order_id = (await service.create(await service.terminal())).body["id"]
    headers = {"Content-Type": "text/plain", "X-Idempotency-Key": "x" * 100, "X-Unknown": "y"}
    assert (await service.request("GET", f"/v1/orders/{order_id}?unknown=1", headers=headers)).status == 200
